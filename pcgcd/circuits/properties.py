"""What queries require of circuits and of evidence, and the errors where it is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from pcgcd.errors import EmptyLanguageError, ImpossibleEvidenceError, StructuralPropertyError

if TYPE_CHECKING:
    from pcgcd.circuits.base import CircuitLike
    from pcgcd.circuits.circuit import Circuit
    from pcgcd.circuits.layers import Layer


def first_unsmooth(circuit: Circuit) -> Layer | None:
    """Return a layer that adds up over different scopes, if there is one."""
    return next((layer for layer in circuit.layers if not layer.is_smooth), None)


def first_undecomposable(circuit: Circuit) -> Layer | None:
    """Return a layer whose factors share a variable, if there is one."""
    return next((layer for layer in circuit.layers if not layer.is_decomposable), None)


def is_smooth(circuit: CircuitLike) -> bool:
    """Return whether the children of every sum have one scope: needed to sum out variables."""
    return first_unsmooth(circuit.sample_graph()) is None


def is_decomposable(circuit: CircuitLike) -> bool:
    """Return whether the children of every product share no variable."""
    return first_undecomposable(circuit.sample_graph()) is None


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


def require_possible(possible: Tensor, what: str) -> None:
    """Raise unless all rows of some evidence are possible, (batch,)."""
    rows = (~possible).nonzero().flatten().tolist()
    if rows:
        raise ImpossibleEvidenceError(
            f"the {what} in row(s) {rows[:10]} has probability zero, so nothing can be "
            "conditioned on it; leave these rows out"
        )


def no_mass(circuit: Circuit) -> EmptyLanguageError:
    """Make the error for a circuit whose value is zero on every string."""
    length, family = circuit.num_variables, circuit.family
    shortest = None if family is None else family.shortest_length()
    if shortest is not None:
        advice = f"the smallest length that works is {shortest}"
    elif family is not None:
        advice = "no other length works either: the constraint cannot be met"
    else:
        advice = "use another length, or a constraint that can be met"
    return EmptyLanguageError(
        f"no string of length {length} has positive weight under this circuit; {advice}",
        length=length,
        shortest_length=shortest,
    )
