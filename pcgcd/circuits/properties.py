"""Structural properties of circuits: what makes queries tractable and products possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcgcd.circuits.base import CircuitLike
    from pcgcd.circuits.circuit import Circuit
    from pcgcd.circuits.layers import Layer

__all__ = ["first_undecomposable", "first_unsmooth", "is_decomposable", "is_smooth"]


def first_unsmooth(circuit: Circuit) -> Layer | None:
    """A layer that adds up over different scopes, if there is one."""
    return next((layer for layer in circuit.layers if not layer.is_smooth), None)


def first_undecomposable(circuit: Circuit) -> Layer | None:
    """A layer whose factors share a variable, if there is one."""
    return next((layer for layer in circuit.layers if not layer.is_decomposable), None)


def is_smooth(circuit: CircuitLike) -> bool:
    """Whether the children of every sum have one scope: needed to sum out variables."""
    return first_unsmooth(circuit.sample_graph()) is None


def is_decomposable(circuit: CircuitLike) -> bool:
    """Whether the children of every product share no variable: sums then pass through products."""
    return first_undecomposable(circuit.sample_graph()) is None
