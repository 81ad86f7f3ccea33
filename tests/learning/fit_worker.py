"""Processes of the tests of fitting: one that is killed again and again, and one of several.

python -m tests.learning.fit_worker killed folder kills seed
python -m tests.learning.fit_worker together rank count folder
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from pcgcd import HMM
from pcgcd.errors import PcgcdError
from pcgcd.hmm import HiddenMarkovModel
from pcgcd.learning.em.fit import fit
from pcgcd.learning.results import FitResult
from tests.hmm.models import dense, monarch, parts, sampled

OPTIONS: dict[str, Any] = {
    "epochs": 4, "batch_size": 10, "dropout": 0.1, "patience": 3, "pseudocount": 0.05,
}  # fmt: skip


def example(kind: str) -> tuple[HiddenMarkovModel, torch.Tensor, torch.Tensor]:
    start = (
        dense(6, 40, dtype=torch.float32)
        if kind == "dense"
        else monarch(2, 3, 40, dtype=torch.float32)
    )
    truth = dense(5, 40, seed=3)
    return start, sampled(truth, 95, 9), sampled(truth, 30, 9, seed=1)


def run(kind: str, folder: Path | None, pause: float = 0.0) -> FitResult[Any]:
    start, data, held_out = example(kind)
    return fit(
        start,
        data,
        held_out=held_out,
        checkpoint_dir=folder,
        checkpoint_seconds=0.0,
        progress=lambda _: time.sleep(pause),
        **OPTIONS,
    )


def killed(kind: str, folder: Path, kills: int, seed: int) -> None:
    """Start the fit, kill it after a random time, and so on; then let it end."""
    rng = random.Random(seed)
    hits = 0
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            run(kind, folder, pause=0.005)
            os._exit(0)
        time.sleep(rng.uniform(0.02, 0.25))
        os.kill(child, signal.SIGKILL)
        hits += os.WIFSIGNALED(os.waitpid(child, 0)[1])
    result = run(kind, folder)
    torch.save({**parts(result.hmm), "hits": torch.tensor(hits)}, folder / "result.pt")


def together(rank: int, count: int, folder: Path) -> None:
    """One of several processes that fit together; then one of them fails."""
    address = f"file://{folder / 'meeting'}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=count)
    results = {kind: run(kind, folder / kind) for kind in ("dense", "monarch")}
    message = "no error"
    start, data, _ = example("dense")
    try:
        bad = data.clone()
        bad[:] = 0 if rank else 1
        impossible = start.emission.clone()
        impossible[:, 0] = 0
        fit(HMM(start.initial, start.transition, impossible, validate=False), bad, epochs=1)
    except PcgcdError as error:
        message = str(error)
    torch.save(
        {
            "message": message,
            "parts": {kind: parts(result.hmm) for kind, result in results.items()},
            "held_out": {
                kind: [entry.held_out for entry in result.history]
                for kind, result in results.items()
            },
        },
        folder / f"{rank}.pt",
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    what, *arguments = sys.argv[1:]
    if what == "killed":
        killed(arguments[0], Path(arguments[1]), int(arguments[2]), int(arguments[3]))
    else:
        together(int(arguments[0]), int(arguments[1]), Path(arguments[2]))
