"""Forward and backward walks over a batch of sequences, in scaled numbers.

Messages are normalised at each step, so that nothing leaves the range of float32 at any length, and
no logarithm is taken on the way. With f_t = p(z_t | x_1..x_t) and p_t = p(z_t | x_1..x_{t-1}):

    p_t = f_{t-1} W          f_t = p_t * emission[x_t] / c_t          log p(x) = sum log c_t
    r_t = g_t / p_t          g_{t-1} = f_{t-1} * (W r_t)              g_n = f_n

where g_t = p(z_t | x_1..x_n). Each g_t is at most one, so nothing overflows either.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pcgcd.errors import ImpossibleEvidenceError
from pcgcd.hmm.steps import Steps

__all__ = ["Sums", "add_walks", "log_likelihoods"]

# Numbers that the arrays of one walk hold together: few enough for the caches, unless that would
# leave so few sequences that matrix products become slow.
_ROOM, _MOST_ROOM, _ENOUGH_ROWS = 1 << 24, 1 << 27, 32


@dataclass
class Sums:
    """Sums over sequences, to be added to. The transition's are without its factors.

    Attributes:
        initial: (H,).
        transition: One tensor per factor, of its shape.
        emission: (tokens + 1, H); the last row is for positions that were not observed.
    """

    initial: Tensor
    transition: tuple[Tensor, ...]
    emission: Tensor

    @classmethod
    def zeros(cls, steps: Steps, table: Tensor) -> Sums:
        """Nothing seen yet."""
        return cls(
            table.new_zeros(steps.num_hidden),
            tuple(torch.zeros_like(factor) for factor in steps.factors),
            torch.zeros_like(table),
        )


def _rows_at_once(steps: Steps, length: int) -> int:
    numbers = steps.arrays_per_step * length * steps.num_hidden
    return max(1, _ROOM // numbers, min(_ENOUGH_ROWS, _MOST_ROOM // numbers))


def _chunks(steps: Steps, index: Tensor, lengths: Tensor | None) -> list[tuple[Tensor, Tensor]]:
    """Groups of sequences that fit, as (their numbers, their tokens); short ones together."""
    if lengths is None:
        size = _rows_at_once(steps, index.shape[1])
        return [
            (torch.arange(start, min(start + size, len(index)), device=index.device), part)
            for start, part in zip(range(0, len(index), size), index.split(size))
        ]
    order = torch.argsort(lengths, stable=True)
    found, start = [], 0
    while start < len(order):
        # The longest of a group decides; a first guess from the shortest, then once more.
        guess = order[start : start + _rows_at_once(steps, int(lengths[order[start]]))]
        rows = guess[: _rows_at_once(steps, int(lengths[guess[-1]]))]
        found.append((rows, index[rows, : int(lengths[rows[-1]])]))
        start += len(rows)
    return found


class _Walk:
    """The messages of a few sequences of one length."""

    def __init__(self, steps: Steps, initial: Tensor, table: Tensor, index: Tensor) -> None:
        self.steps, self.initial, self.table = steps, initial, table
        self.index = index.t().contiguous()  # (n, batch)
        # Below this a sum of messages may have lost its terms.
        info = torch.finfo(table.dtype)
        self.smallest_scale, self.smallest_ratio = info.tiny * 2.0**40, info.tiny * 2.0**24

    def forward(self) -> Tensor:
        """Filtered messages; returns the scales c, (n, batch)."""
        length, batch = self.index.shape
        hidden = self.steps.num_hidden
        self.steps.start(length - 1, batch)
        self.filtered = self.table.new_empty(length, batch, hidden)
        self.predicted = self.table.new_empty(length, batch, hidden)
        scales = self.table.new_empty(length, batch)
        for t in range(length):
            here = self.filtered[t]
            torch.index_select(self.table, 0, self.index[t], out=here)
            if t == 0:
                here.mul_(self.initial)
            else:
                self.steps.forward(t - 1, self.filtered[t - 1], self.predicted[t])
                here.mul_(self.predicted[t])
            torch.sum(here, -1, out=scales[t])
            here.div_(scales[t].unsqueeze(-1))
        return scales

    def scales_only(self) -> Tensor:
        """The scales c, (n, batch), with nothing kept."""
        length, batch = self.index.shape
        self.steps.start(1, batch)
        scales = self.table.new_empty(length, batch)
        before = self.table.new_empty(batch, self.steps.num_hidden)
        here, predicted = torch.empty_like(before), torch.empty_like(before)
        for t in range(length):
            torch.index_select(self.table, 0, self.index[t], out=here)
            if t == 0:
                here.mul_(self.initial)
            else:
                self.steps.forward(0, before, predicted)
                here.mul_(predicted)
            torch.sum(here, -1, out=scales[t])
            torch.div(here, scales[t].unsqueeze(-1), out=before)
        return scales

    def backward(self) -> Tensor:
        """Posteriors of the hidden states, (n, batch, H); predictions give way to ratios."""
        posterior = torch.empty_like(self.filtered)
        posterior[-1] = self.filtered[-1]
        for t in range(len(self.index) - 1, 0, -1):
            ratio = self.predicted[t].clamp_(min=self.smallest_ratio)
            torch.div(posterior[t], ratio, out=ratio)
            self.steps.backward(t - 1, ratio, posterior[t - 1])
            posterior[t - 1].mul_(self.filtered[t - 1])
        return posterior

    def lost(self, scales: Tensor) -> Tensor:
        """Which sequences left the range of the numbers (or are impossible), (batch,)."""
        return ~(scales > self.smallest_scale).all(0)

    def add_to(self, sums: Sums) -> None:
        """Add what the backward walk finds."""
        posterior = self.backward()
        sums.initial.add_(posterior[0].sum(0))
        sums.emission.index_add_(0, self.index.flatten(), posterior.flatten(0, 1))
        if len(self.index) > 1:
            self.steps.add_counts(sums.transition, self.filtered[:-1], self.predicted[1:])


def add_walks(
    steps: Steps,
    initial: Tensor,
    table: Tensor,
    index: Tensor,
    sums: Sums,
    lengths: Tensor | None = None,
) -> float:
    """Add the expected counts of sequences to ``sums``; returns their log-likelihood.

    A sequence that leaves the range of float32 is walked again in float64.

    Args:
        steps: The transition.
        initial: (H,).
        table: Emission probabilities of the tokens that occur, (tokens + 1, H); the last row, ones,
            stands for a position that was not observed.
        index: Rows of the table, (batch, n).
        sums: Added to.
        lengths: (batch,): positions from there on are left out.

    Raises:
        ImpossibleEvidenceError: A sequence has probability zero.
    """
    total = 0.0
    for rows, tokens in _chunks(steps, index, lengths):
        walk = _Walk(steps, initial, table, tokens)
        scales = walk.forward()
        lost = walk.lost(scales)
        if bool(lost.any()):
            total += _add_lost(steps, initial, table, tokens[lost], rows[lost], sums)
            if bool(lost.all()):
                continue
            walk = _Walk(steps, initial, table, tokens[~lost])
            scales = walk.forward()
        total += float(scales.double().log().sum())
        walk.add_to(sums)
    return total


def _add_lost(
    steps: Steps, initial: Tensor, table: Tensor, index: Tensor, rows: Tensor, sums: Sums
) -> float:
    """The same in float64, for sequences that float32 lost."""
    wide = torch.float64
    walk = _Walk(steps.to(wide), initial.to(wide), table.to(wide), index)
    scales = walk.forward()
    lost = walk.lost(scales)
    if bool(lost.any()):
        first = int(lost.nonzero()[0])
        position = int((~(scales[:, first] > walk.smallest_scale)).nonzero()[0])
        raise ImpossibleEvidenceError(
            f"sequence {int(rows[first])} of the batch has probability zero: no hidden state that "
            f"is possible at position {position} emits its token there. Use a pseudocount, or "
            "check that what follows EOS is EOS",
        )
    own = Sums(
        sums.initial.to(wide),
        tuple(part.to(wide) for part in sums.transition),
        sums.emission.to(wide),
    )
    walk.add_to(own)
    sums.initial.copy_(own.initial)
    for part, wider in zip(sums.transition, own.transition):
        part.copy_(wider)
    sums.emission.copy_(own.emission)
    return float(scales.log().sum())


def log_likelihoods(
    steps: Steps,
    initial: Tensor,
    table: Tensor,
    index: Tensor,
    lengths: Tensor | None = None,
) -> Tensor:
    """The log-likelihood of each sequence, (batch,) in float64; -inf where it is impossible.

    The arguments are those of :func:`add_walks`.
    """
    result = torch.empty(len(index), dtype=torch.float64, device=index.device)
    for rows, tokens in _chunks(steps, index, lengths):
        walk = _Walk(steps, initial, table, tokens)
        scales = walk.scales_only().double()
        lost = walk.lost(scales)
        if bool(lost.any()):
            wide = torch.float64
            again = _Walk(steps.to(wide), initial.to(wide), table.to(wide), tokens[lost])
            found = again.scales_only()
            scales[:, lost] = torch.where(again.lost(found), torch.zeros_like(found), found)
        result[rows] = scales.log().sum(0)
    return result
