"""Sums whose rows repeat, written as a gather over a sum without repetition.

An automaton's ``T_in T_out`` gathers edges from states and then sums edges by state; its emission
gathers edges from labels. pyjuice can gather in its products for free, so what is written out is
H x H weights per edge, not per pair of adjacent edges, and one emission per label.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from pcgcd.circuits.circuit import Circuit
from pcgcd.circuits.layers import InputLayer, Layer, ProductLayer, SumLayer
from pcgcd.circuits.operators import (
    Composition,
    Dense,
    Identity,
    Incidence,
    Kronecker,
    Operator,
    compose,
    kronecker,
)
from pcgcd.errors import StructuralPropertyError


class Gather(SumLayer):
    """Unit k is unit ``index[k]`` of the child."""

    def __init__(self, child: Layer, index: Tensor) -> None:
        shape = (len(index), child.num_units)
        super().__init__([child], [Incidence(torch.arange(len(index)), index, shape)])
        self.index = index


def split_selection(operator: Operator) -> tuple[Tensor | None, Operator]:
    """An index of rows (None for all in order) and a core: ``operator[k] = core[index[k]]``."""
    index = operator.selection(torch.arange(operator.shape[0]))
    if index is not None:
        return index, Identity(operator.shape[1])
    if isinstance(operator, Composition):
        index, first = split_selection(operator.operators[0])
        if index is None:
            return None, operator
        inner, core = split_selection(compose(first, *operator.operators[1:]))
        return (index if inner is None else inner[index]), core
    if isinstance(operator, Kronecker):
        (left, left_core), (right, right_core) = map(
            split_selection, (operator.left, operator.right)
        )
        if left is None and right is None:
            return None, operator
        left = torch.arange(operator.left.shape[0]) if left is None else left
        right = torch.arange(operator.right.shape[0]) if right is None else right
        index = (left[:, None] * right_core.shape[0] + right).flatten()
        return index, kronecker(left_core, right_core)
    return None, operator


def with_gathers(circuit: Circuit) -> Circuit:
    """Return an equal circuit with a sum at the root and a gather over each sum whose rows repeat.

    Operators that were shared stay shared.
    """
    parts = cache(split_selection)
    rebuilt: dict[Layer, Layer] = {}
    for layer in circuit.layers:
        children = [rebuilt[child] for child in layer.children]
        if isinstance(layer, InputLayer):
            index, emission = parts(layer.emission)
            core: Layer = InputLayer(layer.variable, emission)
            rebuilt[layer] = core if index is None else Gather(core, index)
        elif isinstance(layer, ProductLayer):
            rebuilt[layer] = ProductLayer(*children)
        elif isinstance(layer, SumLayer):
            weights = layer.weights
            rebuilt[layer] = (
                SumLayer(children, weights)
                if layer is circuit.root
                else _sum_with_gather(children, weights, [parts(w) for w in weights])
            )
        else:
            raise StructuralPropertyError(
                f"pyjuice knows input, product and sum nodes, and nothing like {layer!r}"
            )
    root = rebuilt[circuit.root]
    if not isinstance(circuit.root, SumLayer):
        root = SumLayer([root], [Dense(torch.ones(1, 1, dtype=circuit.dtype))])
    return Circuit(root)


def _sum_with_gather(
    children: list[Layer],
    weights: tuple[Operator, ...],
    split: list[tuple[Tensor | None, Operator]],
) -> Layer:
    index = split[0][0]
    if index is None or not all(i is not None and torch.equal(i, index) for i, _ in split):
        return SumLayer(children, weights)
    cores = [core for _, core in split]
    if len(children) == 1 and isinstance(cores[0], Identity):
        return Gather(children[0], index)
    return Gather(SumLayer(children, cores), index)
