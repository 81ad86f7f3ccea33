"""pcgcd: constrained generation from language models with probabilistic circuits.

``hmm * fa`` is a circuit; ask it for values, marginals, next tokens and samples.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pcgcd.automata import FiniteAutomaton
from pcgcd.circuits import (
    Circuit,
    circuit_product,
    condition,
    expectation,
    is_compatible,
    mixture,
)
from pcgcd.engine import PrefixState, compile_circuit
from pcgcd.errors import PcgcdError
from pcgcd.hmm import HMM, MonarchHMM, default_hmm

if TYPE_CHECKING:
    from pcgcd.automata import Vocabulary
    from pcgcd.decoding import SMC, Generation, Generator, Request, agenerate, generate
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


# These need numba, which takes a second to import.
_LATER = {
    "Vocabulary": "pcgcd.automata",
    "SMC": "pcgcd.decoding",
    "Generation": "pcgcd.decoding",
    "Generator": "pcgcd.decoding",
    "Request": "pcgcd.decoding",
    "agenerate": "pcgcd.decoding",
    "generate": "pcgcd.decoding",
    "default_model": "pcgcd.lm",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
