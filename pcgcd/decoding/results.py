"""What a generation returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from pcgcd.circuits.tables import table_html
from pcgcd.decoding.genealogy import Genealogy
from pcgcd.decoding.randomness import Randomness
from pcgcd.errors import DeadEndError, PcgcdError

_SHOWN_TEXTS = 20


@dataclass(frozen=True)
class Sample:
    """One text of a generation.

    Attributes:
        text: The text.
        weight: Its normalised weight.
        log_prob: log p_lm of its tokens.
        token_ids: Its tokens.
        satisfied: Whether it satisfies the constraint.
        reader: From the text to its value.
    """

    text: str
    weight: float
    log_prob: float
    token_ids: tuple[int, ...]
    satisfied: bool
    reader: Callable[[str], Any] | None = field(default=None, compare=False, repr=False)

    @property
    def parsed(self) -> Any:
        """The value that the text stands for; see :attr:`Generation.parsed`."""
        return self.text if self.reader is None else self.reader(self.text)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Generation:
    """Weighted texts: together they stand for p_lm(x | C).

    Attributes:
        texts: The generated texts, without the prompt; bytes that are no UTF-8 are replaced.
        token_ids: Their tokens, the one that ended them included; where a prompt ended in the
            middle of a token, those of its end come first.
        log_weights: Their log-weights, not normalised.
        log_probs: log p_lm of the tokens, after temperature, top-k and top-p.
        log_values: log p_lm(x) f(x): the same where the constraint is satisfied, or with its
            weight; -inf for other texts.
        log_evidence: The estimate of log p_lm(C), the logarithm of the probability that the model
            alone satisfies the constraint within the budget; at temperature 0 a lower bound of it,
            the probability of the texts found.
        prompt_ids: The tokens of the prompt that the texts continue.
        effective_sample_sizes: After each step, before resampling.
        satisfied: Whether each text satisfies the constraint: checked again, byte by byte.
        ended: Whether each text ended, by a token or at the end of the budget.
        genealogy: What each particle drew and which one it was copied from, step by step; empty
            for rejection sampling and at temperature 0.
        method: How they were made.
        acceptance_rate: The share of samples that were accepted; rejection sampling only.
        seconds: The time taken without the language model.
        model_seconds: The time that the language model took.
        error: Why no text has any weight, if none has.
        reader: From a text to the value that it stands for; without one, that is the text.

    ``generation[i]`` is the text i with all that belongs to it, and a loop gives all of them.
    """

    texts: tuple[str, ...]
    token_ids: tuple[tuple[int, ...], ...]
    log_weights: tuple[float, ...]
    log_probs: tuple[float, ...]
    log_values: tuple[float, ...]
    log_evidence: float
    prompt_ids: tuple[int, ...]
    effective_sample_sizes: tuple[float, ...]
    satisfied: tuple[bool, ...]
    ended: tuple[bool, ...]
    genealogy: Genealogy
    method: str
    acceptance_rate: float | None = None
    seconds: float = 0.0
    model_seconds: float = 0.0
    error: PcgcdError | None = None
    reader: Callable[[str], Any] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def failed(cls, error: PcgcdError, method: str) -> Generation:
        """Return the result of a request that could not be started."""
        return cls(
            texts=(),
            token_ids=(),
            log_weights=(),
            log_probs=(),
            log_values=(),
            log_evidence=-math.inf,
            prompt_ids=(),
            effective_sample_sizes=(),
            satisfied=(),
            ended=(),
            genealogy=Genealogy(()),
            method=method,
            error=error,
        )

    @property
    def ancestors(self) -> tuple[tuple[int, ...] | None, ...]:
        """The ancestor of each particle at each step; None where nothing was resampled."""
        return tuple(move.ancestors for move in self.genealogy.moves)

    @property
    def weights(self) -> tuple[float, ...]:
        """The normalised weights; all zero if no text has any."""
        top = max(self.log_weights, default=-math.inf)
        if top == -math.inf:
            return (0.0,) * len(self.log_weights)
        raw = [math.exp(value - top) for value in self.log_weights]
        total = sum(raw)
        return tuple(value / total for value in raw)

    @property
    def effective_sample_size(self) -> float:
        """The number of equally weighted texts that these are worth, equal ones counted each.

        Copies of one text count as often as they are there: see :attr:`distinct_texts`.
        """
        weights = self.weights
        return 1 / sum(w * w for w in weights) if any(weights) else 0.0

    @property
    def distinct_texts(self) -> int:
        """The number of different texts that have a weight."""
        return len(self._values_of_texts())

    @property
    def best(self) -> str:
        """The most probable text under the model among those that have a weight.

        The tokenizations of a text that were found count together. What the weights say is
        :meth:`posterior`.

        Raises:
            DeadEndError: No text has any weight.
        """
        self._require_weight()
        values = self._values_of_texts()
        return max(values, key=values.__getitem__)

    def _values_of_texts(self) -> dict[str, float]:
        """Log p_lm(x) f(x) of each different text that has a weight, over its tokenizations."""
        values: dict[str, float] = {}
        known = set()
        for i, ids in enumerate(self.token_ids):
            if self.log_weights[i] > -math.inf and ids not in known:
                known.add(ids)
                text = self.texts[i]
                values[text] = float(np.logaddexp(values.get(text, -np.inf), self.log_values[i]))
        return values

    @property
    def parsed(self) -> Any:
        """The value of :attr:`best`: of JSON, of the type that was asked for, a call of a function.

        Raises:
            DeadEndError: No text has any weight.
        """
        return self.best if self.reader is None else self.reader(self.best)

    def sample(self, seed: int | None = None) -> str:
        """Draw one text by weight: of p_lm(x | C) when there are many particles.

        Raises:
            DeadEndError: No text has any weight.
        """
        self._require_weight()
        weights = torch.tensor([self.log_weights], dtype=torch.float64)
        return self.texts[int(Randomness(seed).categorical(weights).column)]

    def _require_weight(self) -> None:
        if any(self.weights):
            return
        if self.error is not None:
            raise self.error
        raise DeadEndError(
            f"none of the {len(self.texts)} texts satisfies the constraint, so none can be chosen; "
            'use method="gcd", which keeps to it, more particles or a larger budget'
        )

    def posterior(self) -> dict[str, float]:
        """Return the weight of each different text, largest first."""
        total: dict[str, float] = {}
        for text, weight in zip(self.texts, self.weights, strict=True):
            total[text] = total.get(text, 0.0) + weight
        return dict(sorted(total.items(), key=lambda item: -item[1]))

    def to_dict(self) -> dict[str, Any]:
        """Convert everything to plain data for JSON; infinite numbers become None."""
        return {
            "method": self.method,
            "texts": list(self.texts),
            "token_ids": [list(ids) for ids in self.token_ids],
            "satisfied": list(self.satisfied),
            "ended": list(self.ended),
            "weights": list(self.weights),
            "log_weights": [_finite(value) for value in self.log_weights],
            "log_probs": [_finite(value) for value in self.log_probs],
            "log_values": [_finite(value) for value in self.log_values],
            "log_evidence": _finite(self.log_evidence),
            "distinct_texts": self.distinct_texts,
            "effective_sample_size": self.effective_sample_size,
            "effective_sample_sizes": list(self.effective_sample_sizes),
            "acceptance_rate": self.acceptance_rate,
            "seconds": self.seconds,
            "model_seconds": self.model_seconds,
        }

    def _repr_html_(self) -> str:
        """The texts by weight, the heaviest first."""
        order = sorted(range(len(self)), key=lambda i: (-self.log_weights[i], -self.log_probs[i]))
        weights = self.weights
        rows = [
            (
                f"{weights[i]:.3f}",
                "yes" if self.satisfied[i] else "no",
                f"{self.log_probs[i]:.2f}",
                self.texts[i],
            )
            for i in order[:_SHOWN_TEXTS]
        ]
        if len(self) > _SHOWN_TEXTS:
            rows.append(("...", "", "", f"and {len(self) - _SHOWN_TEXTS} more"))
        return table_html(repr(self), ("weight", "satisfies", "log p", "text"), rows)

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> Sample:
        return Sample(
            self.texts[index],
            self.weights[index],
            self.log_probs[index],
            self.token_ids[index],
            self.satisfied[index],
            self.reader,
        )

    def __iter__(self) -> Iterator[Sample]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        if not self.texts and self.error is not None:
            return f"Generation({self.method}: failed: {self.error})"
        return (
            f"Generation({self.method}: {len(self)} texts, {self.distinct_texts} different, "
            f"{sum(self.satisfied)} satisfy the constraint, log evidence {self.log_evidence:.4g}, "
            f"effective sample size {self.effective_sample_size:.3g})"
        )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
