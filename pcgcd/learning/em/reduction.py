"""Sums over the processes of ``torch.distributed``; one process is a sum of one."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.distributed as dist

from pcgcd.errors import CheckpointError, PcgcdError
from pcgcd.learning.em.expected_counts import Counts

__all__ = ["Processes"]


class Processes:
    """The processes that fit one model together.

    Attributes:
        rank: The number of this one.
        count: How many there are.
    """

    def __init__(self, device: torch.device, *, alone: bool = False) -> None:
        """Ask torch.distributed, if it was initialised; unless this process works alone."""
        together = not alone and dist.is_available() and dist.is_initialized()
        self.rank = dist.get_rank() if together else 0
        self.count = dist.get_world_size() if together else 1
        self._device = device

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and reports."""
        return self.rank == 0

    def total(self, *numbers: float, error: PcgcdError | None = None) -> tuple[float, ...]:
        """Sums of numbers over all processes. An error of one process is raised in all.

        Raises:
            PcgcdError: The error, or, where another process has it, a note that it does.
        """
        if self.count == 1:
            if error is not None:
                raise error
            return numbers
        values = torch.tensor(
            [float(error is not None), *numbers], dtype=torch.float64, device=self._device
        )
        dist.all_reduce(values)
        failed, *sums = values.tolist()
        if error is not None:
            raise error
        if failed:
            raise PcgcdError("another process could not go on; see its message")
        return tuple(sums)

    def sum_counts(self, counts: Counts | None, error: PcgcdError | None = None) -> Counts:
        """The counts of all processes together; in place. All must count the same tokens.

        Args:
            counts: Those of this process; None if there was an error.
            error: What went wrong here; raised in all processes.
        """
        numbers = (
            (counts.log_likelihood, counts.num_sequences, counts.num_tokens) if counts else (0,) * 3
        )
        likelihood, sequences, tokens = self.total(*numbers, error=error)
        if counts is None:
            raise PcgcdError("counts are missing, and no error says why")
        if self.count > 1:
            for tensor in (counts.initial, *counts.transition, counts.emission):
                dist.all_reduce(tensor)
        return replace(
            counts,
            log_likelihood=likelihood,
            num_sequences=round(sequences),
            num_tokens=round(tokens),
        )

    def agree(self, number: int) -> None:
        """Check that all processes read the same state."""
        mean = self.total(float(number))[0] / self.count
        squares = self.total(float(number) ** 2)[0] / self.count
        if squares != mean * mean:
            raise CheckpointError(
                f"the processes resume from different states (this one at step {number}); give all "
                "of them one checkpoint_dir on a file system that they share"
            )

    def wait(self) -> None:
        """Until all processes are here."""
        self.total(0.0)
