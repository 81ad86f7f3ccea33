"""How answers repeat their prompts, learnt from samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pcgcd.errors import InvalidParameterError
from pcgcd.hmm import Copying, HiddenMarkovModel
from pcgcd.hmm.steps import steps_of
from pcgcd.hmm.walks import posterior_walks, working_dtype
from pcgcd.learning.sequences import inside, num_tokens

_ROWS = 256
# What is believed before any sample: one token in twenty is copied, worth this many tokens, and
# tokens of a prompt are alike, worth this many copies.
_RATE, _RATE_TOKENS = 0.05, 5.0
_WEIGHT_COPIES = 2.0


class _Statistics(NamedTuple):
    log_likelihood: float
    copies: Tensor  # of each hidden state, (H,)
    visits: Tensor  # of each hidden state, (H,)
    copied: Tensor  # of each token, (V,)
    exposed: Tensor  # expected copies of each token if its weight were one, (V,)


def learn_copying(
    hmm: HiddenMarkovModel,
    tokens: Tensor,
    prompts: Sequence[Iterable[int]],
    eos_ids: Iterable[int],
    *,
    rounds: int = 8,
) -> Copying:
    """Rates and weights of copying that make answers likely, by EM; the HMM stays as it is.

    The samples should be ones that the HMM was not fitted to: it knows the words of the others, and
    would not need their prompts.

    Args:
        hmm: The model.
        tokens: Answers, (N, n), padded with EOS.
        prompts: The tokens of the prompt of each answer.
        eos_ids: The tokens that end a text. They are never copied, and a hidden state that emits
            nothing else never copies.
        rounds: How often the parameters are improved.
    """
    if len(tokens) != len(prompts) or not len(tokens):
        raise InvalidParameterError(
            f"copying is learnt from answers with a prompt each, but there are {len(tokens)} "
            f"answers and {len(prompts)} prompts"
        )
    ends, sets = _without_ends(prompts, eos_ids)
    emission = hmm.emission
    copies = emission.index_fill(1, torch.tensor(ends, dtype=torch.long), 0).any(1)
    rates = torch.where(copies, _RATE, 0.0).to(emission)
    weights = torch.ones(hmm.vocab_size).to(emission)
    weights[list(ends)] = 0.0
    for _ in range(rounds):
        found = _statistics(hmm, Copying(rates, weights), tokens, sets, ends)
        rates = (found.copies + _RATE * _RATE_TOKENS) / (found.visits + _RATE_TOKENS)
        rates = torch.where(copies, rates, 0.0).to(emission)
        weights = (found.copied + _WEIGHT_COPIES) / (found.exposed + _WEIGHT_COPIES)
        weights[list(ends)] = 0.0
        weights = weights.to(emission)
    return Copying(rates, weights)


def copying_log_likelihood(
    hmm: HiddenMarkovModel,
    copying: Copying,
    tokens: Tensor,
    prompts: Sequence[Iterable[int]],
    eos_ids: Iterable[int],
) -> float:
    """Return the mean log-likelihood of a token of answers given their prompts, in nats."""
    ends, sets = _without_ends(prompts, eos_ids)
    total = _statistics(hmm, copying, tokens, sets, ends).log_likelihood
    return total / int(num_tokens(tokens, ends).sum())


def cross_fitted_log_likelihood(
    hmm: HiddenMarkovModel,
    tokens: Tensor,
    prompts: Sequence[Iterable[int]],
    numbers: Tensor,
    eos_ids: Iterable[int],
) -> float | None:
    """Rate each half of the prompts with what was learnt from the other half.

    The number of each answer's prompt, (N,), says which half it belongs to. None if there is one
    prompt only.
    """
    ends = tuple(sorted(set(eos_ids)))
    second = torch.isin(numbers, numbers.unique()[1::2])
    if not bool(second.any()):
        return None
    total, lengths = 0.0, num_tokens(tokens, ends)
    for half in (second, ~second):
        known, asked = (~half).nonzero().flatten().tolist(), half.nonzero().flatten().tolist()
        learnt = learn_copying(hmm, tokens[known], [prompts[i] for i in known], ends)
        rated = [prompts[i] for i in asked]
        mean = copying_log_likelihood(hmm, learnt, tokens[asked], rated, ends)
        total += mean * float(lengths[asked].sum())
    return total / float(lengths.sum())


def _without_ends(
    prompts: Sequence[Iterable[int]], eos_ids: Iterable[int]
) -> tuple[tuple[int, ...], list[Tensor]]:
    ends = tuple(sorted(set(eos_ids)))
    return ends, [torch.tensor(sorted(set(p) - set(ends)), dtype=torch.long) for p in prompts]


def _statistics(
    hmm: HiddenMarkovModel,
    copying: Copying,
    tokens: Tensor,
    prompts: Sequence[Tensor],
    eos_ids: tuple[int, ...],
) -> _Statistics:
    """Expected counts of copies; the emissions of a token are those given its prompt."""
    dtype = working_dtype(hmm.emission.dtype)
    steps, initial = steps_of(hmm, dtype), hmm.initial.to(dtype)
    num_hidden, vocab_size = hmm.num_hidden, hmm.vocab_size
    result = _Statistics(
        0.0, *(torch.zeros(size).double() for size in [num_hidden] * 2 + [vocab_size] * 2)
    )
    log_likelihood = 0.0
    for first in range(0, len(tokens), _ROWS):
        rows = tokens[first : first + _ROWS].long()
        asked = prompts[first : first + _ROWS]
        text = inside(rows, num_tokens(rows, eos_ids))
        copied, normal, totals = _emitted(hmm, copying, rows, asked)
        # Each place has emissions of its own; what follows an EOS is not observed.
        table = (copied + normal).flatten(0, 1)
        table = torch.cat([table, torch.ones_like(table[:1])]).to(dtype)
        index = torch.arange(len(table) - 1).view(rows.shape).masked_fill(~text, len(table) - 1)
        found = posterior_walks(steps, initial, table, index)
        log_likelihood += float(found.log_likelihoods.sum())
        visits = torch.where(text.unsqueeze(-1), found.states, 0)
        share = torch.where(copied > 0, visits * copied / (copied + normal), 0).double()
        result.copies.add_(share.sum((0, 1)))
        result.visits.add_(visits.sum((0, 1)))
        count = share.sum(-1)  # (N, n)
        result.copied.index_add_(0, rows.flatten(), count.flatten())
        for prompt, copies, total in zip(asked, count.sum(1), totals, strict=True):
            if total > 0:
                result.exposed[prompt] += copies / total
    return result._replace(log_likelihood=log_likelihood)


def _emitted(
    hmm: HiddenMarkovModel, copying: Copying, rows: Tensor, prompts: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return each token's chances, copied and not, (N, n, H), and the prompts' weights, (N,)."""
    totals = torch.stack([copying.weights[prompt].sum() for prompt in prompts])
    weights = torch.stack(
        [
            torch.where(torch.isin(row, prompt), copying.weights[row], 0.0)
            for row, prompt in zip(rows, prompts, strict=True)
        ]
    )
    chances = weights / torch.where(totals > 0, totals, 1).unsqueeze(1)
    rates = torch.where(totals.unsqueeze(1) > 0, copying.rates, 0.0).unsqueeze(1)  # (N, 1, H)
    return rates * chances.unsqueeze(-1), (1 - rates) * hmm.emission.mT[rows], totals
