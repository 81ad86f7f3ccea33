"""The experiments by name."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from pcgcd.errors import InvalidParameterError
from pcgcd.experiments.harness.runner import Experiment

EXPERIMENTS = {
    "function-calling": "function_calling",
    "commongen": "commongen",
    "spider": "spider",
    "runtime": "runtime",
    "hmm-size": "hmm_size",
    "nfa-dfa": "nfa_dfa",
    "bias": "bias",
    "budget": "budget",
}


def experiment(name: str) -> Experiment:
    """Return the experiment of that name.

    Raises:
        InvalidParameterError: There is none.
    """
    if name not in EXPERIMENTS:
        raise InvalidParameterError(
            f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}"
        )
    return cast("Experiment", import_module(f"pcgcd.experiments.{EXPERIMENTS[name]}"))
