"""Finite automata."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.labels import Labels

if TYPE_CHECKING:
    from pcgcd.automata.expressions.compilation import compile_expression
    from pcgcd.automata.lifting import lift
    from pcgcd.automata.preferences import length_preference, preferring
    from pcgcd.automata.vocabulary import Vocabulary

__all__ = [
    "FiniteAutomaton",
    "Labels",
    "Vocabulary",
    "compile_expression",
    "length_preference",
    "lift",
    "preferring",
]

# These need numba, which takes a second to import.
_LATER = {
    "Vocabulary": "vocabulary",
    "compile_expression": "expressions.compilation",
    "length_preference": "preferences",
    "lift": "lifting",
    "preferring": "preferences",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
