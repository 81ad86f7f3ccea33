"""pcgcd: constrained generation from language models with probabilistic circuits.

``hmm * fa`` is a circuit; ask it for values, marginals, next tokens and samples.
"""

from __future__ import annotations

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

__all__ = [
    "HMM",
    "Circuit",
    "FiniteAutomaton",
    "MonarchHMM",
    "PcgcdError",
    "circuit_product",
    "condition",
    "expectation",
    "is_compatible",
    "mixture",
]

__version__ = "0.1.0"
