"""A distillation that is killed again and again, by one process or by several together.

python -m tests.learning.worker kind processes folder seed

The folder gets ``seen.pt``: the parts of the model of the disturbed run and of two that nothing
disturbed, by as many processes and by one, and at which stages the kills were.
"""

from __future__ import annotations

import mmap
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from pcgcd import HMM
from pcgcd.hmm.files.checkpoints import load_hmm
from pcgcd.learning import Distilled, Fitting, Sampling, Source, Start, distill
from tests.hmm.models import parts
from tests.learning.worlds import table, tiny_lm

# What a run is doing, in its order.
SAMPLES, CLUSTERS, FIT, SMOOTHING = range(1, 5)
KILLS = {"table": [SAMPLES, FIT, FIT], "tiny": [SAMPLES, CLUSTERS, FIT, SMOOTHING, SMOOTHING]}
_LIMIT = 120.0


def run(kind: str, folder: Path, stage: Callable[[int], None] = lambda _: None) -> Distilled:
    """Distil a small model; ``stage`` is told what is being done, again and again."""
    fitted = False

    def on_fit(_: object) -> None:
        nonlocal fitted
        fitted = True
        stage(FIT)

    options: dict[str, Any] = {
        "seed": 4,
        "on_sample": lambda *_: stage(SAMPLES),
        "on_read": lambda *_: stage(SMOOTHING if fitted else CLUSTERS),
        "on_fit": on_fit,
    }
    common = {"epochs": 4, "batch_size": 16, "held_out": 0.2, "checkpoint_seconds": 0}
    if kind == "table":
        prompts = [Source((i % 3,), {"regex": "(a|b)+b"} if i % 4 == 0 else None) for i in range(8)]
        return distill(
            table(),
            prompts,
            folder,
            sampling=Sampling(samples=64, length=6, batch_size=8, shard_size=8, group=2),
            start=Start(num_hidden=6),
            fitting=Fitting(dropout=0.1, **common),
            **options,
        )
    return distill(
        tiny_lm(),
        ["he", "hello"],
        folder,
        sampling=Sampling(samples=64, length=6, batch_size=8, shard_size=8),
        start=Start(num_hidden=5, method="lvd"),
        fitting=Fitting(smooth=True, **common),
        **options,
    )


def one_of(kind: str, rank: int, count: int, folder: Path, meeting: Path, where: mmap.mmap) -> None:
    """One of the processes of a run: slow, so that it can be killed anywhere."""

    def stage(number: int) -> None:
        # A resumed run skips the fit that is done, and then only reads.
        where[0] = SMOOTHING if number == CLUSTERS and (folder / "start").exists() else number
        time.sleep(0.01)

    if count > 1:
        address = f"file://{meeting}"
        dist.init_process_group("gloo", init_method=address, rank=rank, world_size=count)
    run(kind, folder, stage)
    os._exit(0)


def attempt(kind: str, count: int, folder: Path, meeting: Path, until: int, wait: float) -> int:
    """Run until a stage, and a little more; then kill all. Returns the stage, 0 if it had ended."""
    where = mmap.mmap(-1, 1)
    children = []
    for rank in range(count):
        child = os.fork()
        if child == 0:
            one_of(kind, rank, count, folder, meeting, where)
        children.append(child)
    began = time.monotonic()
    going = set(children)
    while where[0] < until and going and time.monotonic() - began < _LIMIT:
        for child in tuple(going):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended and status:
                raise RuntimeError("a process failed by itself; see above")
            if ended:
                going.remove(child)
        time.sleep(0.002)
    time.sleep(wait)
    for child in going:
        os.kill(child, signal.SIGKILL)
    killed = [os.WIFSIGNALED(os.waitpid(child, 0)[1]) for child in going]
    return where[0] if any(killed) else 0


def killed(kind: str, count: int, folder: Path, seed: int) -> None:
    """Start a run and kill it, at each of its stages in turn; then let it end."""
    rng = random.Random(seed)
    # What is compiled when it is first used is compiled before the forks.
    alone = parts(run(kind, folder / "alone").hmm)
    stages, disturbed = [], folder / "disturbed"
    for number, until in enumerate(KILLS[kind]):
        meeting = folder / f"meeting-{number}"
        wait = rng.uniform(0, 0.05)
        stages.append(attempt(kind, count, disturbed, meeting, until, wait))
    ends = {"disturbed": disturbed, "undisturbed": folder / "undisturbed"}
    for name, where in ends.items():
        if attempt(kind, count, where, folder / f"meeting-{name}", 9, 0.0):
            raise RuntimeError(f"the {name} run did not end in time")
    found = {name: parts(_dense(where)) for name, where in ends.items()}
    shutil.rmtree(folder / "alone")
    torch.save({**found, "alone": alone, "stages": stages}, folder / "seen.pt")


def _dense(folder: Path) -> HMM:
    hmm = load_hmm(folder)
    if not isinstance(hmm, HMM):
        raise TypeError("expected a dense model")
    return hmm


if __name__ == "__main__":
    torch.set_num_threads(1)
    killed(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
