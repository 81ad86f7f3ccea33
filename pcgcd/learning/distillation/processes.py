"""Several processes that distil together, started by ``torchrun``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

__all__ = ["is_first", "together"]

# One process may wait for another one's shards for long.
_PATIENCE = timedelta(days=7)


@contextmanager
def together() -> Iterator[None]:
    """Meet the other processes that torchrun started; on one's own, nothing happens."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or dist.is_initialized():
        yield
        return
    on_gpu = torch.cuda.is_available() and dist.is_nccl_available()
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    # Counts on the GPU are summed by NCCL, and numbers on the CPU by gloo.
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=_PATIENCE)
    try:
        yield
    finally:
        dist.destroy_process_group()


def is_first() -> bool:
    """Whether this process shows progress and prints results."""
    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0
