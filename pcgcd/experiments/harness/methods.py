"""The methods that are compared, all behind one interface."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pcgcd.circuits import CircuitLike
from pcgcd.decoding import SMC, Generation, Generator, Request
from pcgcd.errors import InvalidParameterError
from pcgcd.lm import LanguageModel

ESS_THRESHOLD = 0.5
ATTEMPTS = 64


@dataclass(frozen=True)
class Method:
    """How texts are made.

    Attributes:
        name: What it is called in tables.
        options: Arguments of :class:`~pcgcd.decoding.Generator`.
        resampled: Whether SMC resamples; without it texts are independent, and count equally.
        weighted: Whether it has a parameter w.
    """

    name: str
    options: Mapping[str, Any]
    resampled: bool = True
    weighted: bool = False

    @property
    def needs_guide(self) -> bool:
        """Whether it needs an HMM."""
        return self.options["method"] in ("pgcd", "twisted")

    @property
    def is_constrained(self) -> bool:
        """Whether it knows of the constraint."""
        return bool(self.options["method"] != "unconstrained")

    @property
    def is_rejection(self) -> bool:
        """Whether it is rejection sampling."""
        return bool(self.options["method"] == "rejection")

    def run(
        self,
        lm: LanguageModel,
        requests: Sequence[Request],
        *,
        k: int,
        seed: int,
        hmm: CircuitLike | None = None,
        w: float | None = None,
        attempts: int = ATTEMPTS,
    ) -> list[Generation]:
        """Generate k texts for each request; the requests share the model's batches."""
        options = dict(self.options)
        if self.weighted and w is not None:
            options["w"] = w
        generator = Generator(
            lm,
            hmm=hmm if self.needs_guide else None,
            smc=SMC(k, "systematic" if self.resampled else None, ESS_THRESHOLD),
            max_attempts=max(attempts, k),
            **options,
        )
        return generator.run(requests, seed=seed)

    def shares(self, result: Generation) -> tuple[float, ...]:
        """How much each text counts: its weight, or equally much where nothing is weighed."""
        if self.resampled or not len(result):
            return result.weights
        return (1 / len(result),) * len(result)

    def expectation(self, result: Generation, values: Sequence[float]) -> float:
        """Return the expectation of a number of each text; 0 where no text has any weight."""
        return math.fsum(s * v for s, v in zip(self.shares(result), values, strict=True))


# As in the paper: the guide alone.
_P_GCD = {"method": "pgcd", "gcd_share": 0.0}
_TWISTED = {"method": "twisted", "w": 0.5, "spelling": False}
METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        Method("LM", {"method": "unconstrained"}, resampled=False),
        Method("LCD", {"method": "lcd"}, resampled=False),
        Method("LCD+SMC", {"method": "lcd"}),
        Method("GCD", {"method": "gcd"}, resampled=False),
        Method("GCD+SMC", {"method": "gcd"}),
        Method("P-GCD+SMC", {**_P_GCD, "potential": "prefix"}, weighted=True),
        Method("P-GCD+SMC+potential", {**_P_GCD, "potential": "pgcd"}, weighted=True),
        Method("twisted+SMC", {**_TWISTED, "gcd_share": 0.0}),
        Method("twisted+GCD+SMC", {**_TWISTED, "gcd_share": 0.5}),
        Method("spelled+SMC", {"method": "gcd", "spelling": True}),  # the default without an HMM
        Method("twisted+spelled+SMC", {"method": "twisted"}),  # the default with one
        Method("rejection", {"method": "rejection"}, resampled=False),
    )
}


def methods_of(names: Sequence[str]) -> list[Method]:
    """Return the methods of these names.

    Raises:
        InvalidParameterError: A name is unknown.
    """
    unknown = [name for name in names if name not in METHODS]
    if unknown:
        raise InvalidParameterError(
            f"there is no method {unknown[0]!r}; the methods are {'; '.join(METHODS)}"
        )
    return [METHODS[name] for name in names]
