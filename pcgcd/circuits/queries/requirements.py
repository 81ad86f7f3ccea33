"""What queries require of circuits, and the errors when it is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcgcd.circuits.properties import first_undecomposable, first_unsmooth
from pcgcd.errors import EmptyLanguageError, StructuralPropertyError

if TYPE_CHECKING:
    from pcgcd.circuits.circuit import Circuit

__all__ = ["no_mass", "require_tractable"]


def require_tractable(circuit: Circuit, query: str) -> None:
    """Raise unless the circuit is smooth and decomposable, as every sum over tokens needs."""
    if circuit.is_tractable:
        return
    layer = first_unsmooth(circuit)
    if layer is not None:
        raise StructuralPropertyError(
            f"{query} needs a smooth circuit, but the children of {layer!r} have the scopes "
            f"{[child.scope for child in layer.children]}; give them all one scope"
        )
    layer = first_undecomposable(circuit)
    if layer is not None:
        raise StructuralPropertyError(
            f"{query} needs a decomposable circuit, but the children of {layer!r} have the "
            f"overlapping scopes {[child.scope for child in layer.children]}; to multiply "
            "circuits over the same variables, use a * b"
        )


def no_mass(circuit: Circuit) -> EmptyLanguageError:
    """The error for a circuit whose value is zero on every string."""
    length = circuit.num_variables
    shortest = circuit.family.shortest_length() if circuit.family is not None else None
    if shortest is not None:
        advice = f"the smallest length that works is {shortest}"
    elif circuit.family is not None:
        advice = "no other length works either: the constraint cannot be met"
    else:
        advice = "use another length, or a constraint that can be met"
    return EmptyLanguageError(
        f"no string of length {length} has positive weight under this circuit; {advice}",
        length=length,
        shortest_length=shortest,
    )
