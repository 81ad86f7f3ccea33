"""pcgcd: constrained generation from language models with probabilistic circuits.

``hmm * fa`` is a circuit; ask it for values, marginals, next tokens and samples.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pcgcd.automata import FiniteAutomaton, Vocabulary
    from pcgcd.circuits import (
        Circuit,
        circuit_product,
        condition,
        expectation,
        is_compatible,
        mixture,
    )
    from pcgcd.decoding import SMC, Generation, Generator, Request, agenerate, generate
    from pcgcd.engine import PrefixState, compile_circuit
    from pcgcd.errors import PcgcdError
    from pcgcd.hmm import HMM, MonarchHMM, default_hmm
    from pcgcd.lm import default_model

__all__ = [
    "HMM",
    "SMC",
    "Circuit",
    "FiniteAutomaton",
    "Generation",
    "Generator",
    "MonarchHMM",
    "PcgcdError",
    "PrefixState",
    "Request",
    "Vocabulary",
    "agenerate",
    "circuit_product",
    "compile_circuit",
    "condition",
    "default_hmm",
    "default_model",
    "expectation",
    "generate",
    "is_compatible",
    "mixture",
]

__version__ = "0.2.0"


# Where each name comes from. Nothing is imported before it is asked for: torch and numba take
# seconds, and the command line decides how many threads torch gets before it is imported.
_HOMES = {
    "automata": ("FiniteAutomaton", "Vocabulary"),
    "circuits": (
        *("Circuit", "circuit_product", "condition", "expectation", "is_compatible", "mixture"),
    ),
    "decoding": ("SMC", "Generation", "Generator", "Request", "agenerate", "generate"),
    "engine": ("PrefixState", "compile_circuit"),
    "errors": ("PcgcdError",),
    "hmm": ("HMM", "MonarchHMM", "default_hmm"),
    "lm": ("default_model",),
}
_HOME = {name: f"{__name__}.{part}" for part, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
