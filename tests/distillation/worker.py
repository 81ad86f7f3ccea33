"""A distillation that is killed again and again.

python -m tests.distillation.worker folder kills seed
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import torch

from pcgcd.distillation import Distilled, Fitting, Sampling, Source, Start, distill
from tests.distillation.worlds import table

PROMPTS = [Source((i % 3,), {"regex": "(a|b)+b"} if i % 4 == 0 else None) for i in range(24)]


def run(folder: Path, pause: float = 0.0) -> Distilled:
    return distill(
        table(),
        PROMPTS,
        folder,
        sampling=Sampling(samples=96, length=6, batch_size=8, shard_size=8, group=2),
        start=Start(num_hidden=6),
        fitting=Fitting(epochs=5, batch_size=16, held_out=0.2, dropout=0.1, checkpoint_seconds=0),
        seed=4,
        on_sample=lambda *_: time.sleep(pause),
        on_fit=lambda _: time.sleep(pause),
    )


def killed(folder: Path, kills: int, seed: int) -> None:
    """Start it, kill it after a random time, and so on, in both of its parts; then let it end."""
    rng = random.Random(seed)
    hits, places = 0, set()
    run(folder / "warm")  # what is compiled when it is first used is compiled before the forks
    shutil.rmtree(folder / "warm")
    while hits < kills or "fit" not in places:
        child = os.fork()
        if child == 0:
            run(folder, pause=0.02)
            os._exit(0)
        time.sleep(rng.uniform(0.1, 0.7))
        os.kill(child, signal.SIGKILL)
        if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
            break
        hits += 1
        places.add("fit" if (folder / "fit").exists() else "samples")
    result = run(folder)
    torch.save(
        {"emission": result.hmm.emission, "hits": hits, "places": sorted(places)},
        folder / "seen.pt",
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    killed(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
