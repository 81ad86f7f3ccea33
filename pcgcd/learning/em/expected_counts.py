"""Expected counts: what the E step of EM computes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from pcgcd.hmm.model import HiddenMarkovModel
from pcgcd.hmm.steps import Steps, steps_of
from pcgcd.hmm.walks import Sums, add_walks, index_of, token_table
from pcgcd.learning.processes import Processes
from pcgcd.learning.sequences import checked_batch


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each parameter is expected to have been used; equals theta * d log p / d theta.

    Counts of two batches under one model add up to those of both.
    """

    initial: Tensor  # (H,)
    # One tensor per factor: (H, H); or (a, b, b) and (b, a, a) for a Monarch.
    transition: tuple[Tensor, ...]
    tokens: Tensor  # the tokens that are counted, in rising order, (U,)
    emission: Tensor  # rows are tokens, (U, H)
    log_likelihood: float  # the sum over sequences
    num_sequences: int  # the number of sequences
    num_tokens: int  # the number of observed positions

    def emission_matrix(self, vocab_size: int) -> Tensor:
        """Return the emission's counts with all tokens, (H, V)."""
        result = self.emission.new_zeros(self.emission.shape[1], vocab_size)
        result[:, self.tokens] = self.emission.t()
        return result

    def summed(self, processes: Processes) -> Counts:
        """Return the counts of all processes, which must count the same tokens; uses these up."""
        likelihood, sequences, tokens = processes.total(
            self.log_likelihood, self.num_sequences, self.num_tokens
        )
        processes.sum_((self.initial, *self.transition, self.emission))
        return replace(
            self,
            log_likelihood=likelihood,
            num_sequences=round(sequences),
            num_tokens=round(tokens),
        )

    def __add__(self, other: Counts) -> Counts:
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
def expected_counts(hmm: HiddenMarkovModel, batch: Tensor | np.ndarray) -> Counts:
    """Return the expected counts of a batch of sequences (Baum-Welch).

    Args:
        hmm: The model.
        batch: Tokens, (number, length); -1 where a position was not observed.

    Raises:
        ImpossibleEvidenceError: A sequence has probability zero under the model.

    >>> from pcgcd import HMM
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
    tokens, table = token_table(hmm, batch)
    initial = hmm.initial.detach().to(table.dtype)
    return counts_of(steps_of(hmm, table.dtype), initial, table, tokens, batch)
