"""Several processes that learn one model together, as ``torchrun`` starts them.

A part that works alone, or a program that was started as one process, is a group of one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from pcgcd.errors import CheckpointError, PcgcdError

# One process may wait for another one's shards for long.
_PATIENCE = timedelta(days=7)

_Result = TypeVar("_Result")


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


class Processes:
    """The processes that share some work: those of torch.distributed, if it was initialised.

    Args:
        device: Where numbers are summed; by default on the CPU.
        alone: Whether the others do not take part.

    Attributes:
        rank: The number of this one.
        count: How many there are.
    """

    def __init__(self, device: torch.device | None = None, *, alone: bool = False) -> None:
        shared = not alone and dist.is_available() and dist.is_initialized()
        self.rank = dist.get_rank() if shared else 0
        self.count = dist.get_world_size() if shared else 1
        self._device = device

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and reports."""
        return self.rank == 0

    def do(self, work: Callable[[], _Result]) -> _Result:
        """Do something in each process, and go on when all have; an error is raised in all."""
        try:
            result = work()
        except PcgcdError:
            self.total(1.0)
            raise
        if self.total(0.0)[0]:
            raise PcgcdError("another process could not go on; see its message")
        return result

    def do_first(self, work: Callable[[], None]) -> None:
        """Let the first process do something, and the others wait for it; see :meth:`do`."""
        self.do(work if self.is_first else lambda: None)

    def wait(self) -> None:
        """Wait until all processes are here."""
        self.total(0.0)

    def total(self, *numbers: float) -> tuple[float, ...]:
        """Sums of numbers over all processes."""
        if self.count == 1:
            return numbers
        values = torch.tensor(numbers, dtype=torch.float64, device=self._device)
        dist.all_reduce(values)
        return tuple(values.tolist())

    def sum_(self, tensors: Iterable[Tensor]) -> None:
        """Sum tensors over all processes, in place."""
        if self.count > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def agree(self, number: int) -> None:
        """Check that all processes read the same state."""
        mean = self.total(float(number))[0] / self.count
        squares = self.total(float(number) ** 2)[0] / self.count
        if squares != mean * mean:
            raise CheckpointError(
                f"the processes resume from different states (this one at step {number}); give all "
                "of them one checkpoint_dir on a file system that they share"
            )
