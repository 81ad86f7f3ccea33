"""pcgcd: constrained generation from language models with probabilistic circuits.

``hmm * fa`` is a circuit; ask it for values, marginals, next tokens and samples.
"""

from __future__ import annotations

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
from pcgcd.errors import PcgcdError
from pcgcd.hmm import HMM, MonarchHMM

if TYPE_CHECKING:
    from pcgcd.automata import Vocabulary

__all__ = [
    "HMM",
    "Circuit",
    "FiniteAutomaton",
    "MonarchHMM",
    "PcgcdError",
    "Vocabulary",
    "circuit_product",
    "condition",
    "expectation",
    "is_compatible",
    "mixture",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "Vocabulary":  # needs numba, which takes a second to import
        from pcgcd.automata import Vocabulary

        return Vocabulary
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
