"""Emissions smoothed with what the language model predicts, so that few samples go a long way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from pcgcd.basics.numbers import normalised
from pcgcd.errors import InvalidParameterError
from pcgcd.hmm import HiddenMarkovModel
from pcgcd.hmm.walks import posteriors
from pcgcd.learning.distillation.embeddings import next_token_probabilities, token_states
from pcgcd.learning.em.fit import log_likelihood_per_token
from pcgcd.learning.sequences import inside, num_tokens

if TYPE_CHECKING:
    from pcgcd.lm import LanguageModel

_ROWS = 64
STRENGTHS = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, 1e5)


@dataclass(frozen=True, eq=False)
class Predictions:
    """What the language model predicts where an HMM is in each hidden state."""

    emission: Tensor  # the mean of its predictions, (H, V); rows sum to one
    visits: Tensor  # how often the samples visit each hidden state, in expectation, (H,)

    def scaled(self, factor: float) -> Predictions:
        """Return the same predictions for so many times as many samples."""
        return Predictions(self.emission, self.visits * factor)


def predictions(
    hmms: Sequence[HiddenMarkovModel],
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
        read = inside(rows, lengths)
        predicted = next_token_probabilities(lm, states.before)
        for hmm, total, count in zip(hmms, sums, visits, strict=True):
            weights = posteriors(hmm, rows).states[read]  # (tokens, H)
            total.addmm_(weights.mT.float(), predicted)
            count += weights.sum(0, dtype=torch.float64)
    return tuple(Predictions(_within(t, hmm), c) for hmm, t, c in zip(hmms, sums, visits))


def _within(sums: Tensor, hmm: HiddenMarkovModel) -> Tensor:
    """Where the HMM has zeros, nothing is predicted; what was never visited stays as it is."""
    sums = torch.where(hmm.emission > 0, sums, 0.0)
    return torch.where(sums.any(-1, keepdim=True), normalised(sums), hmm.emission)


class Smoothed(NamedTuple):
    """A smoothed HMM."""

    hmm: Any  # the model
    strength: float  # how many visits the predictions are worth
    held_out: float  # nats per token of the held-out samples


def smooth(
    hmm: HiddenMarkovModel,
    predicted: Predictions,
    held_out: Tensor,
    strengths: Sequence[float] = STRENGTHS,
) -> Smoothed:
    """Return the HMM with smoothed emissions, with the strength that suits held-out samples best.

        B'(z, v) = (visits(z) B(z, v) + strength * predicted(z, v)) / (visits(z) + strength)

    Args:
        hmm: The model.
        predicted: The language model's predictions.
        held_out: Samples that the model was not fitted to, (N, n); read by this process alone.
        strengths: How many visits the predictions may be worth.
    """
    if not len(held_out) or not strengths:
        raise InvalidParameterError("choosing a strength needs held-out samples, and strengths")
    visits = predicted.visits.to(hmm.emission.dtype).unsqueeze(1)
    tried = []
    for strength in strengths:
        share = torch.where(visits > 0, strength / (visits + strength), float(strength > 0))
        emission = normalised(torch.lerp(hmm.emission, predicted.emission, share))
        model = hmm.with_emission(emission)
        value = log_likelihood_per_token(model, held_out, alone=True)
        tried.append(Smoothed(model, strength, value))
    return max(tried, key=lambda found: found.held_out)
