"""Expected counts: what the E step of EM computes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pcgcd.errors import InvalidParameterError, VocabularyMismatchError
from pcgcd.hmm.hmm import HMM, MonarchHMM
from pcgcd.hmm.steps import Steps, steps_of
from pcgcd.hmm.walks import Sums, add_walks

__all__ = ["Counts", "checked_batch", "expected_counts", "index_of", "working_dtype"]


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each parameter is expected to have been used; equals theta * d log p / d theta.

    Counts of two batches under one model add up to those of both.

    Attributes:
        initial: (H,).
        transition: One tensor per factor: (H, H); or (a, b, b) and (b, a, a) for a Monarch.
        tokens: The tokens that are counted, in rising order, (U,).
        emission: Rows are tokens, (U, H).
        log_likelihood: The sum over sequences.
        num_sequences: The number of sequences.
        num_tokens: The number of observed positions.
    """

    initial: Tensor
    transition: tuple[Tensor, ...]
    tokens: Tensor
    emission: Tensor
    log_likelihood: float
    num_sequences: int
    num_tokens: int

    def emission_matrix(self, vocab_size: int) -> Tensor:
        """The emission's counts with all tokens, (H, V)."""
        result = self.emission.new_zeros(self.emission.shape[1], vocab_size)
        result[:, self.tokens] = self.emission.t()
        return result

    def __add__(self, other: Counts) -> Counts:
        """The counts of both batches."""
        tokens = torch.unique(torch.cat([self.tokens, other.tokens]))
        emission = self.emission.new_zeros(len(tokens), self.emission.shape[1])
        for part in (self, other):
            emission.index_add_(0, torch.searchsorted(tokens, part.tokens), part.emission)
        return Counts(
            self.initial + other.initial,
            tuple(a + b for a, b in zip(self.transition, other.transition)),
            tokens,
            emission,
            self.log_likelihood + other.log_likelihood,
            self.num_sequences + other.num_sequences,
            self.num_tokens + other.num_tokens,
        )


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """The floating type that messages have."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def checked_batch(batch: Tensor | np.ndarray, vocab_size: int, device: torch.device) -> Tensor:
    """A batch of sequences as integers on a device, after a check of its shape and tokens."""
    result = torch.as_tensor(batch)
    if result.dim() != 2 or result.shape[1] < 1 or result.is_floating_point():
        raise InvalidParameterError(
            "sequences must be integers (number, length), but have shape "
            f"{tuple(result.shape)} and type {result.dtype}"
        )
    result = result.to(device=device, dtype=torch.long)
    if result.numel():
        lowest, highest = (int(end) for end in result.aminmax())
        if lowest < -1 or highest >= vocab_size:
            wrong = lowest if lowest < -1 else highest
            raise VocabularyMismatchError(
                f"tokens must lie in 0..{vocab_size - 1} (or be -1, not observed), but {wrong} was "
                "found; are the sequences from another vocabulary?"
            )
    return result


def index_of(batch: Tensor, tokens: Tensor) -> Tensor:
    """The row of each token of a batch in ``tokens``; the number of rows where not observed."""
    index = torch.searchsorted(tokens, batch.contiguous())
    return index.masked_fill_(batch < 0, len(tokens))


def counts_of(
    steps: Steps,
    initial: Tensor,
    table: Tensor,
    tokens: Tensor,
    batch: Tensor,
    lengths: Tensor | None = None,
) -> Counts:
    """Expected counts, given the rows of the emission (tokens + 1, H) that the batch needs."""
    sums = Sums.zeros(steps, table)
    total = add_walks(steps, initial, table, index_of(batch, tokens), sums, lengths)
    for part, factor in zip(sums.transition, steps.factors):
        part.mul_(factor)
    return Counts(
        sums.initial,
        sums.transition,
        tokens,
        sums.emission[:-1],
        total,
        len(batch),
        int((batch >= 0).sum()),
    )


@torch.no_grad()
def expected_counts(hmm: HMM | MonarchHMM, batch: Tensor | np.ndarray) -> Counts:
    """The expected counts of a batch of sequences (Baum-Welch).

    Args:
        hmm: The model.
        batch: Tokens, (number, length); -1 where a position was not observed.

    Raises:
        ImpossibleEvidenceError: A sequence has probability zero under the model.

    >>> hmm = HMM(
    ...     torch.tensor([1.0, 0.0]),
    ...     torch.tensor([[0.5, 0.5], [0.0, 1.0]]),
    ...     torch.tensor([[1.0, 0.0], [0.0, 1.0]]),
    ... )
    >>> expected_counts(hmm, torch.tensor([[0, 0, 1, 1]])).transition[0]
    tensor([[1., 1.],
            [0., 1.]])
    """
    batch = checked_batch(batch, hmm.vocab_size, hmm.emission.device)
    dtype = working_dtype(hmm.emission.dtype)
    tokens = torch.unique(batch)
    tokens = tokens[tokens >= 0]
    table = torch.ones(len(tokens) + 1, hmm.num_hidden, dtype=dtype, device=batch.device)
    table[:-1] = hmm.emission.detach().index_select(1, tokens).t()
    initial = hmm.initial.detach().to(dtype)
    return counts_of(steps_of(hmm, dtype), initial, table, tokens, batch)
