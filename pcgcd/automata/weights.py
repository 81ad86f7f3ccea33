"""The weights of edges: checked, and kept from getting lost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from pcgcd.automata.arrays import Weights
from pcgcd.errors import InvalidParameterError

if TYPE_CHECKING:
    from pcgcd.automata.automaton import FiniteAutomaton


def weight_array(weights: Iterable[float], num_edges: int) -> Weights:
    """The weights of edges as an array, checked."""
    try:
        array = np.array([float(weight) for weight in weights], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(
            f"weights must be numbers, one for each edge, but {weights!r:.60} was given"
        ) from error
    if len(array) != num_edges:
        raise InvalidParameterError(
            f"weights must be one number for each of the {num_edges} edges, but there are "
            f"{len(array)}"
        )
    wrong = array[~(np.isfinite(array) & (array >= 0))]
    if len(wrong):
        raise InvalidParameterError(
            f"weights must be finite and not negative, but {wrong[0]} was given"
        )
    return array


def positive_weight(weight: float) -> float:
    """A weight that is finite and above zero, checked."""
    value = float(weight_array([weight], 1)[0])
    if not value:
        raise InvalidParameterError("the weight must be above zero; zero would forbid, not prefer")
    return value


def language_only(operation: str, *automata: FiniteAutomaton) -> None:
    """Raise if an automaton has weights, for an operation that would lose them."""
    if any(fa.is_weighted for fa in automata):
        raise InvalidParameterError(
            f"{operation} keeps words only, and would lose the weights of this automaton; if "
            f"that is meant, use fa.support(), the automaton of the same words without weights"
        )
