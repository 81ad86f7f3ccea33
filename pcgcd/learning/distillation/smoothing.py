"""Emissions smoothed with what the language model predicts, so that few samples go a long way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from pcgcd.errors import InvalidParameterError
from pcgcd.hmm import HMM, MonarchHMM
from pcgcd.learning.distillation.embeddings import next_token_probabilities, token_states
from pcgcd.learning.distillation.shards import num_tokens
from pcgcd.learning.em.fit import log_likelihood_per_token

if TYPE_CHECKING:
    from pcgcd.lm import LanguageModel

__all__ = ["Predictions", "Smoothed", "normalised", "posteriors", "predictions", "smooth"]

_ROWS = 64
STRENGTHS = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, 1e5)


@dataclass(frozen=True, eq=False)
class Predictions:
    """What the language model predicts where an HMM is in each hidden state.

    Attributes:
        emission: The mean of its predictions, (H, V); rows sum to one.
        visits: How often the samples visit each hidden state, in expectation, (H,).
    """

    emission: Tensor
    visits: Tensor


def posteriors(hmm: HMM | MonarchHMM, tokens: Tensor) -> Tensor:
    """``p(z_t | x_{1:n})`` of each position of each sequence, (N, n, H).

    >>> hmm = HMM(torch.tensor([0.5, 0.5]), torch.eye(2), torch.tensor([[0.5, 0.5], [0.0, 1.0]]))
    >>> posteriors(hmm, torch.tensor([[1, 1]]))
    tensor([[[0.2000, 0.8000],
             [0.2000, 0.8000]]])
    """
    transition = hmm.operators.transition
    columns = [hmm.emission.index_select(1, column).mT for column in tokens.long().unbind(1)]
    message, forward = hmm.initial.expand(len(tokens), -1), []
    for column in columns:
        forward.append(normalised(message * column))
        message = transition.rmatvec(forward[-1])
    later, result = torch.ones_like(message), []
    for seen, column in zip(reversed(forward), reversed(columns)):
        result.append(normalised(seen * later))
        later = normalised(transition.matvec(normalised(later * column)))
    return torch.stack(result[::-1], 1)


def predictions(
    hmms: Sequence[HMM | MonarchHMM],
    lm: LanguageModel,
    prompts: Sequence[tuple[int, ...]],
    tokens: Tensor,
    eos_ids: Iterable[int],
    *,
    progress: Callable[[int], None] | None = None,
) -> tuple[Predictions, ...]:
    """Read samples once more, and average the language model's predictions by hidden state.

        B(z, v) ~ sum_t p(z_t = z | x) p_lm(v | x_{<t})

    Args:
        hmms: Models that were fitted to the samples; all for one reading.
        lm: The language model, one of transformers.
        prompts: The tokens of the prompt of each sample.
        tokens: The samples, (N, n), padded with EOS.
        eos_ids: The tokens that end a text.
        progress: Called with the number of samples that were read, again and again.
    """
    ends = tuple(eos_ids)
    sums = [torch.zeros(hmm.num_hidden, hmm.vocab_size) for hmm in hmms]
    visits = [torch.zeros(hmm.num_hidden, dtype=torch.float64) for hmm in hmms]
    for start in range(0, len(tokens), _ROWS):
        rows = tokens[start : start + _ROWS]
        lengths = num_tokens(rows, ends)
        states = token_states(lm, prompts[start : start + _ROWS], rows, lengths, progress=progress)
        inside = torch.arange(rows.shape[1]) < lengths.unsqueeze(1)
        predicted = next_token_probabilities(lm, states.before)
        for hmm, total, count in zip(hmms, sums, visits, strict=True):
            weights = posteriors(hmm, rows)[inside]  # (tokens, H)
            total.addmm_(weights.mT.float(), predicted)
            count += weights.sum(0, dtype=torch.float64)
    return tuple(Predictions(_within(t, hmm), c) for hmm, t, c in zip(hmms, sums, visits))


def _within(sums: Tensor, hmm: HMM | MonarchHMM) -> Tensor:
    """Where the HMM has zeros, nothing is predicted; what was never visited stays as it is."""
    sums = torch.where(hmm.emission > 0, sums, 0.0)
    total = sums.sum(-1, keepdim=True)
    return torch.where(total > 0, sums / total.clamp(min=1e-30), hmm.emission)


class Smoothed(NamedTuple):
    """A smoothed HMM.

    Attributes:
        hmm: The model.
        strength: How many visits the predictions are worth.
        held_out: Nats per token of the held-out samples.
    """

    hmm: Any
    strength: float
    held_out: float


def smooth(
    hmm: HMM | MonarchHMM,
    predicted: Predictions,
    held_out: Tensor,
    strengths: Sequence[float] = STRENGTHS,
) -> Smoothed:
    """The HMM with smoothed emissions, with the strength that suits held-out samples best.

        B'(z, v) = (visits(z) B(z, v) + strength * predicted(z, v)) / (visits(z) + strength)

    Args:
        hmm: The model.
        predicted: The language model's predictions.
        held_out: Samples that the model was not fitted to, (N, n); read by this process alone.
        strengths: How many visits the predictions may be worth.
    """
    if not len(held_out) or not strengths:
        raise InvalidParameterError("choosing a strength needs held-out samples, and strengths")
    best: Smoothed | None = None
    for strength in strengths:
        visits = predicted.visits.to(hmm.emission.dtype).unsqueeze(1)
        share = strength / (visits + strength).clamp(min=1e-30)
        emission = normalised(torch.lerp(hmm.emission, predicted.emission, share))
        model = hmm.with_emission(emission)
        value = log_likelihood_per_token(model, held_out, alone=True)
        if best is None or value > best.held_out:
            best = Smoothed(model, strength, value)
    if best is None:
        raise InvalidParameterError("there must be at least one strength")
    return best


def normalised(weights: Tensor) -> Tensor:
    """Weights as distributions along the last axis."""
    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-30)
