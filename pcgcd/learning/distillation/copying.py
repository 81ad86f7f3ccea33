"""How answers repeat their prompts, learnt from samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pcgcd.errors import InvalidParameterError
from pcgcd.hmm import HMM, Copying, MonarchHMM
from pcgcd.learning.distillation.shards import num_tokens
from pcgcd.learning.distillation.smoothing import normalised

__all__ = ["copying_log_likelihood", "cross_fitted_log_likelihood", "learn_copying"]

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
    hmm: HMM | MonarchHMM,
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
    ends = tuple(sorted(set(eos_ids)))
    sets = [torch.tensor(sorted(set(prompt) - set(ends)), dtype=torch.long) for prompt in prompts]
    emission = hmm.emission
    copies = emission.sum(1) - emission[:, list(ends)].sum(1) > 1e-6
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
    hmm: HMM | MonarchHMM,
    copying: Copying,
    tokens: Tensor,
    prompts: Sequence[Iterable[int]],
    eos_ids: Iterable[int],
) -> float:
    """The mean log-likelihood of a token of answers given their prompts, in nats."""
    ends = tuple(sorted(set(eos_ids)))
    sets = [torch.tensor(sorted(set(prompt) - set(ends)), dtype=torch.long) for prompt in prompts]
    total = _statistics(hmm, copying, tokens, sets, ends).log_likelihood
    return total / int(num_tokens(tokens, ends).sum())


def cross_fitted_log_likelihood(
    hmm: HMM | MonarchHMM,
    tokens: Tensor,
    prompts: Sequence[Iterable[int]],
    numbers: Tensor,
    eos_ids: Iterable[int],
) -> float | None:
    """The same where each half of the prompts is rated with what was learnt from the other half.

    Args:
        hmm: The model.
        tokens: Answers, (N, n), padded with EOS.
        prompts: The tokens of the prompt of each answer.
        numbers: The number of the prompt of each answer, (N,).
        eos_ids: The tokens that end a text.

    Returns:
        Nats per token; None if there is one prompt only.
    """
    ends = tuple(sorted(set(eos_ids)))
    second = torch.isin(numbers, numbers.unique()[1::2])
    if not bool(second.any()):
        return None
    total = 0.0
    for half in (second, ~second):
        known, asked = (~half).nonzero().flatten().tolist(), half.nonzero().flatten().tolist()
        learnt = learn_copying(hmm, tokens[known], [prompts[i] for i in known], ends)
        count = float(num_tokens(tokens[asked], ends).sum())
        total += count * copying_log_likelihood(
            hmm, learnt, tokens[asked], [prompts[i] for i in asked], ends
        )
    return total / float(num_tokens(tokens, ends).sum())


def _statistics(
    hmm: HMM | MonarchHMM,
    copying: Copying,
    tokens: Tensor,
    prompts: Sequence[Tensor],
    eos_ids: tuple[int, ...],
) -> _Statistics:
    """Expected counts of copies; the emissions of a token are those given its prompt."""
    transition = hmm.operators.transition
    result = _Statistics(
        0.0, *(torch.zeros(n).double() for n in (*[hmm.num_hidden] * 2, *[hmm.vocab_size] * 2))
    )
    log_likelihood = 0.0
    for first in range(0, len(tokens), _ROWS):
        rows = tokens[first : first + _ROWS].long()
        asked = prompts[first : first + _ROWS]
        inside = torch.arange(rows.shape[1]) < num_tokens(rows, eos_ids).unsqueeze(1)
        totals = torch.stack([copying.weights[prompt].sum() for prompt in asked])
        chances = torch.stack(
            [
                torch.where(torch.isin(row, prompt), copying.weights[row], 0.0)
                for row, prompt in zip(rows, asked, strict=True)
            ]
        ) / totals.clamp(min=1e-30).unsqueeze(1)
        rates = torch.where(totals.unsqueeze(1) > 0, copying.rates, 0.0).unsqueeze(1)  # (N, 1, H)
        copied = rates * chances.unsqueeze(-1)  # (N, n, H)
        emitted = (1 - rates) * hmm.emission.mT[rows] + copied
        message, forward = hmm.initial.expand(len(rows), -1), []
        for step in range(rows.shape[1]):
            joint = message * emitted[:, step]
            mass = joint.sum(-1, keepdim=True)
            log_likelihood += float(mass.log().flatten()[inside[:, step]].double().sum())
            forward.append(joint / mass)
            message = transition.rmatvec(forward[-1])
        later = torch.ones_like(message)
        for step in reversed(range(rows.shape[1])):
            posterior = normalised(forward[step] * later) * inside[:, step : step + 1]
            share = posterior * copied[:, step] / emitted[:, step].clamp(min=1e-30)
            result.copies.add_(share.sum(0))
            result.visits.add_(posterior.sum(0))
            count = share.sum(1).double()
            result.copied.index_add_(0, rows[:, step], count)
            for prompt, value in zip(asked, count / totals.clamp(min=1e-30), strict=True):
                result.exposed[prompt] += value
            later = normalised(transition.matvec(normalised(later * emitted[:, step])))
    return result._replace(log_likelihood=log_likelihood)
