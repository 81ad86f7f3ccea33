"""An HMM that has seen what the language model says to one prompt.

A distilled HMM is a model of all answers. A few dozen continuations of this prompt say more about
this answer: one or two steps of EM on them, with the distilled model as the prior of each row (a
Dirichlet distribution with the row as its mean), give its maximum a posteriori parameters

    theta'[i, j] = (count[i, j] + strength * theta[i, j]) / (count[i] + strength)

It stays an HMM, and what was impossible stays impossible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

from pcgcd.basics.numbers import check_whole_number
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError
from pcgcd.hmm.model import HiddenMarkovModel
from pcgcd.hmm.steps import steps_of
from pcgcd.hmm.walks import Sums, add_walks, index_of, log_likelihoods, token_table

Model = TypeVar("Model", bound=HiddenMarkovModel)


@torch.no_grad()
def adapted(
    hmm: Model, samples: Sequence[Sequence[int]], *, strength: float, steps: int = 2
) -> Model:
    """Take some steps of MAP-EM on samples; see :meth:`HiddenMarkovModel.adapted`."""
    if not 0 < strength < float("inf"):
        raise InvalidParameterError(
            "strength, how many observations the model itself is worth, must be a positive "
            f"number, but is {strength}"
        )
    check_whole_number("the number of EM steps", steps, 1)
    batch = _batch(samples, hmm.vocab_size, hmm.emission.device)
    model = hmm
    for _ in range(steps):
        lengths = (batch >= 0).sum(1)
        tokens, table = token_table(model, batch)
        walk, initial = steps_of(model, table.dtype), model.initial.detach().to(table.dtype)
        index = index_of(batch, tokens)
        possible = log_likelihoods(walk, initial, table, index, lengths) > -torch.inf
        batch, index, lengths = batch[possible], index[possible], lengths[possible]
        if not len(batch):
            return model
        sums = Sums.zeros(walk, table)
        for length in lengths.unique().tolist():
            # Together they would be counted to the end of the longest.
            add_walks(walk, initial, table, index[lengths == length, :length], sums)
        factors = [
            _posterior(factor, part * now, strength)
            for factor, part, now in zip(hmm.transition_factors, sums.transition, walk.factors)
        ]
        emission = _emission(hmm.emission, tokens, sums.emission[:-1], strength)
        first = _posterior(hmm.initial, sums.initial, strength)
        model = type(hmm)(first, *factors, emission, copying=hmm.copying, validate=False)
    return model


def _batch(samples: Sequence[Sequence[int]], vocab_size: int, device: torch.device) -> Tensor:
    """The samples that have tokens, filled up with -1, (N, n)."""
    rows = [list(sample) for sample in samples if len(sample)]
    result = torch.full((len(rows), max(map(len, rows), default=0)), -1, dtype=torch.long)
    for row, sample in enumerate(rows):
        result[row, : len(sample)] = torch.tensor(sample, dtype=torch.long)
        if min(sample) < 0 or max(sample) >= vocab_size:
            raise VocabularyMismatchError(
                f"tokens of samples must lie in 0..{vocab_size - 1}, but sample {row} has "
                f"{min(sample)} and {max(sample)}"
            )
    return result.to(device)


def _posterior(prior: Tensor, counts: Tensor, strength: float) -> Tensor:
    total = counts.sum(-1, keepdim=True)
    return ((counts + strength * prior.detach()) / (total + strength)).to(prior.dtype)


def _emission(prior: Tensor, tokens: Tensor, counts: Tensor, strength: float) -> Tensor:
    """The same with the counts (U, H) of some tokens only, without a matrix of all."""
    visits = counts.sum(0).unsqueeze(1)  # (H, 1)
    result = prior.detach() * (strength / (visits + strength)).to(prior.dtype)
    result[:, tokens] += (counts.t() / (visits + strength)).to(prior.dtype)
    return result
