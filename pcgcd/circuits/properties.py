"""Structural properties of circuits: what makes queries tractable and products possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcgcd.circuits.layers import Layer, ProductLayer, SumLayer
from pcgcd.circuits.scope import Scope

if TYPE_CHECKING:
    from pcgcd.circuits.base import CircuitLike
    from pcgcd.circuits.circuit import Circuit

__all__ = ["first_undecomposable", "first_unsmooth", "is_decomposable", "is_smooth"]


def first_unsmooth(circuit: Circuit) -> Layer | None:
    """A sum layer whose children have different scopes, if there is one."""
    for layer in circuit.layers:
        if isinstance(layer, SumLayer) and any(c.scope != layer.scope for c in layer.children):
            return layer
    return None


def first_undecomposable(circuit: Circuit) -> Layer | None:
    """A product layer whose children share a variable, if there is one."""
    for layer in circuit.layers:
        if isinstance(layer, ProductLayer):
            seen = Scope()
            for child in layer.children:
                if not seen.isdisjoint(child.scope):
                    return layer
                seen = seen | child.scope
    return None


def is_smooth(circuit: CircuitLike) -> bool:
    """Whether the children of every sum have one scope: needed to sum out variables."""
    return first_unsmooth(circuit.sample_graph()) is None


def is_decomposable(circuit: CircuitLike) -> bool:
    """Whether the children of every product share no variable: sums then pass through products."""
    return first_undecomposable(circuit.sample_graph()) is None
