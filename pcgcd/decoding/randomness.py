"""Random choices, all from one seeded source, so that a run can be repeated."""

from __future__ import annotations

import torch
from torch import Tensor

from pcgcd.basics.numbers import check_whole_number
from pcgcd.errors import InvalidParameterError

_BLOCK = 256


class Draw:
    """One column drawn from each of k rows.

    Attributes:
        column: The column, (k,). A row without any weight gets its first column.
        log_q: The logarithm of the probability that it had, (k,) float64; -inf where a row had no
            weight.
    """

    __slots__ = ("column", "log_q")

    def __init__(self, column: Tensor, log_q: Tensor) -> None:
        self.column, self.log_q = column, log_q


class Randomness:
    """Draws by inverse distribution functions: one uniform number for each choice.

    >>> rng = Randomness(0)
    >>> rng.categorical(torch.tensor([[0.0, -torch.inf]])).column
    tensor([0])
    """

    def __init__(self, seed: int | None = None) -> None:
        """Start from a seed; without one, from the system's entropy."""
        if seed is not None:
            check_whole_number("seed", seed, -(1 << 63), (1 << 64) - 1)
        self.generator = torch.Generator()
        self._kept = torch.empty(0)
        if seed is None:
            self.generator.seed()
        else:
            self.generator.manual_seed(seed)

    def uniform(self, count: int) -> Tensor:
        """Draw uniform numbers in [0, 1), (count,) float64 on the CPU."""
        return torch.rand(count, generator=self.generator, dtype=torch.float64)

    def categorical(self, log_weights: Tensor) -> Draw:
        """Draw one column of each row, with probability in proportion to its weight.

        Args:
            log_weights: (k, m), not normalised, -inf for what cannot be drawn.
        """
        shares = self._shares(log_weights)
        sums = _block_sums(shares)  # few of them: the running sum of a whole row is slow
        total = sums.sum(-1)
        block, share = _invert(sums, self.uniform(len(sums)).to(sums.device))
        inside, first = _inside(shares, block)
        place, _ = _invert(inside, share)
        # The sum of a block may be rounded; this is what the column is drawn with all the same.
        within = _at(inside, place) / inside.sum(-1)
        log_q = (_at(sums, block) / total * within).log()
        return Draw(first + place, torch.where(total > 0, log_q, -torch.inf))

    def _shares(self, log_weights: Tensor) -> Tensor:
        """The weights of each row over their sum, up to rounding; zeros for one without weight."""
        given = log_weights.detach()
        given = given.to(torch.promote_types(given.dtype, torch.float32))
        kept = self._kept
        if (kept.shape, kept.dtype, kept.device) != (given.shape, given.dtype, given.device):
            # Kept, because asking the system for megabytes takes as long as filling them.
            kept = self._kept = torch.empty_like(given)
        shares: Tensor = torch.softmax(given, -1, out=kept)
        # Softmax is NaN all over a row that has no weight, or weights that are none.
        undefined = shares[:, 0].isnan()
        if bool(undefined.any()):
            if not bool((given[undefined] == -torch.inf).all()):
                raise InvalidParameterError(
                    "log-weights must be finite or -inf, but some are NaN or +inf; look at what "
                    "the proposal's weigh and the language model's log_probs return"
                )
            shares[undefined] = 0.0
        return shares


def log_total(log_weights: Tensor) -> Tensor:
    """Return the logarithm of the sum of each row, (k,) float64; -inf for a row without weight."""
    return log_weights.double().logsumexp(-1)


def _block_sums(values: Tensor) -> Tensor:
    """The sums of blocks of columns, the last of which may be shorter or empty, float64."""
    end = values.shape[1] // _BLOCK * _BLOCK
    parts = values[:, :end].unflatten(1, (end // _BLOCK, _BLOCK)).sum(-1)
    return torch.cat([parts, values[:, end:].sum(-1, keepdim=True)], 1).double()


def _inside(values: Tensor, block: Tensor) -> tuple[Tensor, Tensor]:
    """The columns of one block of each row, zeros behind the last, float64; where they begin."""
    first = block * _BLOCK
    column = first.unsqueeze(1) + torch.arange(_BLOCK, device=values.device)
    size = values.shape[1]
    found = values.gather(1, column.clamp(max=size - 1)).double()
    return found.masked_fill(column >= size, 0.0), first


def _invert(weights: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """The column in which a share of the sum is reached, and the share of it that it takes."""
    sums = weights.cumsum(-1)
    point = share * sums[:, -1]
    found = torch.searchsorted(sums, point.unsqueeze(1), right=True).squeeze(1)
    column = _with_weight(weights, found)
    own = _at(weights, column)
    return column, ((point - _at(sums, column) + own) / own).nan_to_num(0.0).clamp(0.0, 1.0)


def _with_weight(weights: Tensor, column: Tensor) -> Tensor:
    """The columns, moved where rounding put them on or behind a column without weight."""
    column = column.clamp(max=weights.shape[1] - 1)
    wrong = (_at(weights, column) == 0).nonzero().flatten().tolist()
    if wrong:
        column = column.clone()
        for row in wrong:
            possible = weights[row].nonzero().flatten()
            if len(possible):
                place = torch.searchsorted(possible, column[row]).clamp(max=len(possible) - 1)
                column[row] = possible[place]
            else:
                column[row] = 0
    return column


def _at(values: Tensor, column: Tensor) -> Tensor:
    return values.gather(1, column.unsqueeze(1)).squeeze(1)
