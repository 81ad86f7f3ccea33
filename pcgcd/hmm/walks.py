"""Forward and backward walks over a batch of sequences (Baum-Welch), in scaled numbers.

Messages are normalised at each step, so that nothing leaves the range of float32 at any length, and
no logarithm is taken on the way. With f_t = p(z_t | x_1..x_t) and p_t = p(z_t | x_1..x_{t-1}):

    p_t = f_{t-1} W          f_t = p_t * emission[x_t] / c_t          log p(x) = sum log c_t
    r_t = g_t / p_t          g_{t-1} = f_{t-1} * (W r_t)              g_n = f_n

where g_t = p(z_t | x_1..x_n), and r_t is zero where p_t is. Each g_t is at most one, so nothing
overflows either.

Zero is zero: no number is raised to a smallest one, and a sequence that is impossible has the
log-likelihood -inf and no hidden states. Where a c_t is too small for the floating type, or where
the posterior lies on hidden states whose p_t are, the sequence is walked again with an exponent
beside each number. One thing is lost: a hidden state whose share f_t falls below the smallest
number of the type (1e-38 for float32) is out from there on, even if later tokens would make it
likely again. That takes a transition with zeros, which does not renew such shares; a float64 model
has more room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pcgcd.circuits.semirings import BOOLEAN, REAL
from pcgcd.errors import ImpossibleEvidenceError
from pcgcd.hmm.model import HiddenMarkovModel
from pcgcd.hmm.steps import Steps, steps_of

# Numbers that the arrays of one walk hold together: few enough for the caches, unless that would
# leave so few sequences that matrix products become slow.
_ROOM, _MOST_ROOM, _ENOUGH_ROWS = 1 << 24, 1 << 27, 32
# Sequences that are walked exactly at once.
_FEW = 8
_LEAST_MASS = 1 - 1e-3


@dataclass
class Sums:
    """Sums over sequences, to be added to. The transition's are without its factors."""

    initial: Tensor  # (H,)
    transition: tuple[Tensor, ...]  # one tensor per factor, of its shape
    emission: Tensor  # (tokens + 1, H); the last row is for positions that were not observed

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
        lengths = index.new_full((len(index),), index.shape[1])
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
        # Below these a sum of messages may have lost its terms, and a ratio may overflow.
        info = torch.finfo(table.dtype)
        self.smallest_scale, self.smallest_share = info.tiny * 2.0**40, info.tiny * 2.0**24

    def forward(self, keep: bool = True) -> Tensor:
        """Filtered messages, kept for the way back or not; returns the scales c, (n, batch)."""
        length, batch = self.index.shape
        kept = length if keep else 1
        self.steps.start(kept - 1 if keep else 1, batch)
        self.filtered = self.table.new_empty(kept, batch, self.steps.num_hidden)
        self.predicted = torch.empty_like(self.filtered)
        scales = self.table.new_empty(length, batch)
        for t in range(length):
            here, predicted = self.filtered[t % kept], self.predicted[t % kept]
            if t:
                self.steps.forward((t - 1) % kept, self.filtered[(t - 1) % kept], predicted)
            else:
                predicted.copy_(self.initial.expand_as(predicted))
            torch.index_select(self.table, 0, self.index[t], out=here)
            here.mul_(predicted)
            torch.sum(here, -1, out=scales[t])
            here.div_(torch.where(scales[t] == 0, 1, scales[t]).unsqueeze(-1))
        return scales

    def backward(self) -> Tensor:
        """Posteriors of the hidden states, (n, batch, H); predictions give way to ratios."""
        posterior = torch.empty_like(self.filtered)
        posterior[-1] = self.filtered[-1]
        for t in range(len(self.index) - 1, 0, -1):
            ratio = self.predicted[t]
            none = ratio < self.smallest_share
            torch.div(posterior[t], ratio, out=ratio)
            ratio.masked_fill_(none, 0)
            self.steps.backward(t - 1, ratio, posterior[t - 1])
            posterior[t - 1].mul_(self.filtered[t - 1])
        return posterior

    def add_counts(self, into: Sequence[Tensor]) -> None:
        """Add the counts of the transition, after the way back."""
        if len(self.index) > 1:
            self.steps.add_counts(into, self.filtered[:-1], self.predicted[1:])

    def lost(self, scales: Tensor, posterior: Tensor | None = None) -> Tensor:
        """Which sequences left the range of the numbers (or are impossible), (batch,)."""
        lost = (scales < self.smallest_scale).any(0)
        if posterior is not None:
            # The ratios that were left out would have carried what is missing here.
            lost |= posterior[0].sum(-1) < _LEAST_MASS
        return lost


class _Walked(NamedTuple):
    """What is known of some sequences after their walk."""

    rows: Tensor  # their numbers, (batch,)
    tokens: Tensor  # rows of the table, (batch, n)
    log_likelihoods: Tensor  # (batch,) float64
    posterior: Tensor  # (n, batch, H)
    add_counts: Callable[[Sequence[Tensor]], None]  # of the transition, one sum per factor


def _walked(
    steps: Steps, initial: Tensor, table: Tensor, index: Tensor, lengths: Tensor | None = None
) -> Iterator[_Walked]:
    """Walk forward and backward, a few sequences at a time."""
    for rows, tokens in _chunks(steps, index, lengths):
        walk = _Walk(steps, initial, table, tokens)
        scales, posterior = walk.forward(), walk.backward()
        lost = walk.lost(scales, posterior)
        if bool(lost.any()):
            for few in lost.nonzero().flatten().split(_FEW):
                yield _exactly(steps, initial, table, rows[few], tokens[few])
            if bool(lost.all()):
                continue
            rows, tokens = rows[~lost], tokens[~lost]
            walk = _Walk(steps, initial, table, tokens)
            scales, posterior = walk.forward(), walk.backward()
        yield _Walked(rows, tokens, scales.double().log().sum(0), posterior, walk.add_counts)


def _exactly(steps: Steps, initial: Tensor, table: Tensor, rows: Tensor, index: Tensor) -> _Walked:
    """The same with an exponent beside each number, so that nothing is too small.

    Expected counts are theta * d log p / d theta.
    """
    factors = [factor.double().requires_grad_() for factor in steps.factors]
    emitted = table[index].double().requires_grad_()  # (batch, n, H)
    with torch.enable_grad():
        log_likelihoods = _exact_log_likelihoods(type(steps)(*factors), initial, emitted)
        total = log_likelihoods[log_likelihoods > -torch.inf].sum()
        slope, *slopes = torch.autograd.grad(
            total, [emitted, *factors], allow_unused=True, materialize_grads=True
        )
    posterior = torch.where(emitted > 0, emitted * slope, 0).detach().transpose(0, 1)

    def add_counts(into: Sequence[Tensor]) -> None:
        for part, factor, found in zip(into, factors, slopes, strict=True):
            part.add_(torch.where(factor > 0, found, 0).to(part.dtype))

    states = posterior.to(table.dtype)
    return _Walked(rows, index, log_likelihoods.detach(), states, add_counts)


def _exact_log_likelihoods(steps: Steps, initial: Tensor, emitted: Tensor) -> Tensor:
    """From emissions (batch, n, H) in float64 to (batch,); gradients pass."""
    real = REAL.with_dtype(torch.float64)
    message = real.lift(initial)
    for t, column in enumerate(emitted.unbind(1)):
        predicted = steps.operator.rmatvec(message, real) if t else message
        message = real.mul(predicted, real.lift(column))
    return real.to_log(real.sum(message))


def add_walks(
    steps: Steps,
    initial: Tensor,
    table: Tensor,
    index: Tensor,
    sums: Sums,
    lengths: Tensor | None = None,
) -> float:
    """Add the expected counts of sequences to ``sums``; returns their log-likelihood.

    Args:
        steps: The transition.
        initial: (H,).
        table: Emission probabilities of the tokens that occur, (tokens + 1, H); the last row, ones,
            stands for a position that was not observed.
        index: Rows of the table, (batch, n).
        sums: Added to.
        lengths: (batch,): positions from there on are left out.
    """
    total = 0.0
    for found in _walked(steps, initial, table, index, lengths):
        impossible = (found.log_likelihoods == -torch.inf).nonzero().flatten().tolist()
        if impossible:
            row = int(found.rows[impossible[0]])
            position = _dead_end(steps, initial, table[found.tokens[impossible[0]]])
            raise ImpossibleEvidenceError(
                f"sequence {row} of the batch has probability zero: no hidden state that is "
                f"possible at position {position} emits its token there. Use a pseudocount, or "
                "check that what follows EOS is EOS"
            )
        total += float(found.log_likelihoods.sum())
        sums.initial.add_(found.posterior[0].sum(0))
        sums.emission.index_add_(0, found.tokens.t().flatten(), found.posterior.flatten(0, 1))
        found.add_counts(sums.transition)
    return total


def _dead_end(steps: Steps, initial: Tensor, emitted: Tensor) -> int:
    """The first position of an impossible sequence, with emissions (n, H), that has no state."""
    here = initial.unsqueeze(0) > 0
    for position, row in enumerate((emitted > 0).unbind()):
        here = (steps.operator.rmatvec(here, BOOLEAN) if position else here) & row
        if not bool(here.any()):
            return position
    return len(emitted)


def log_likelihoods(
    steps: Steps, initial: Tensor, table: Tensor, index: Tensor, lengths: Tensor | None = None
) -> Tensor:
    """Return the log-likelihood of each sequence, (batch,) in float64; -inf where it is impossible.

    The arguments are those of :func:`add_walks`.
    """
    result = torch.empty(len(index), dtype=torch.float64, device=index.device)
    for rows, tokens in _chunks(steps, index, lengths):
        walk = _Walk(steps, initial, table, tokens)
        scales = walk.forward(keep=False)
        result[rows] = scales.double().log().sum(0)
        for few in walk.lost(scales).nonzero().flatten().split(_FEW):
            emitted = table[tokens[few]].double()
            result[rows[few]] = _exact_log_likelihoods(steps, initial, emitted)
    return result


class Posteriors(NamedTuple):
    """What sequences say about their hidden states."""

    # Log p(x_1..x_n), (batch,) float64; -inf where a sequence is impossible.
    log_likelihoods: Tensor
    states: Tensor  # p(z_t | x_1..x_n), (batch, n, H); zero throughout where it is


def posterior_walks(steps: Steps, initial: Tensor, table: Tensor, index: Tensor) -> Posteriors:
    """Return the posteriors of hidden states; the arguments are those of :func:`add_walks`."""
    likelihoods = torch.empty(len(index), dtype=torch.float64, device=index.device)
    states = table.new_empty(*index.shape, steps.num_hidden)
    for found in _walked(steps, initial, table, index):
        likelihoods[found.rows] = found.log_likelihoods
        states[found.rows] = found.posterior.transpose(0, 1)
    return Posteriors(likelihoods, states)


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the floating type that messages have."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def observed_tokens(batch: Tensor) -> Tensor:
    """Return the tokens of a batch in rising order."""
    tokens: Tensor = torch.unique(batch)
    return tokens[tokens >= 0]


def token_table(hmm: HiddenMarkovModel, batch: Tensor) -> tuple[Tensor, Tensor]:
    """Return the tokens of a batch in rising order, and the rows (tokens + 1, H) of walks."""
    tokens = observed_tokens(batch)
    dtype = working_dtype(hmm.emission.dtype)
    table = torch.ones(len(tokens) + 1, hmm.num_hidden, dtype=dtype, device=batch.device)
    table[:-1] = hmm.emission.detach().index_select(1, tokens).t()
    return tokens, table


def index_of(batch: Tensor, tokens: Tensor) -> Tensor:
    """Find the row of each token of a batch in ``tokens``; past the last where not observed."""
    index = torch.searchsorted(tokens, batch.contiguous())
    return index.masked_fill_(batch < 0, len(tokens))


@torch.no_grad()
def posteriors(hmm: HiddenMarkovModel, batch: Tensor) -> Posteriors:
    """Compute posteriors of hidden states, given tokens (batch, n); -1 where not observed.

    >>> from pcgcd import HMM
    >>> hmm = HMM(torch.tensor([0.5, 0.5]), torch.eye(2), torch.tensor([[0.5, 0.5], [0.0, 1.0]]))
    >>> posteriors(hmm, torch.tensor([[1, 1]])).states
    tensor([[[0.2000, 0.8000],
             [0.2000, 0.8000]]])
    """
    batch = batch.to(device=hmm.emission.device, dtype=torch.long)
    tokens, table = token_table(hmm, batch)
    initial = hmm.initial.detach().to(table.dtype)
    return posterior_walks(steps_of(hmm, table.dtype), initial, table, index_of(batch, tokens))
