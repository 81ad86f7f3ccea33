"""How many units a block has.

pyjuice stores the units of a node in blocks of 2^k. A product has the blocks of its factors, and
all products below a sum have the same; tied nodes too. So the layers fall into groups with one size
each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from pcgcd.circuits.layers import InputLayer, Layer, ProductLayer, SumLayer
from pcgcd.circuits.operators import Operator
from pcgcd.circuits.pyjuice.entries import Entries
from pcgcd.circuits.pyjuice.selections import Gather

# The largest blocks that the structures of pyjuice use themselves.
_LARGEST_BLOCK = 1024
# Blocks grow as long as what is stored, with the zeros in them, is at most this times the weights.
_FILL = 1.75


class Term(NamedTuple):
    """One factor of a product: for each unit of the product, a unit of an input or a sum."""

    base: Layer
    units: Tensor


def product_terms(layer: Layer) -> tuple[Term, ...]:
    """Write a layer as a product of inputs and sums, opening nested products and gathers."""
    terms: list[Term] = []
    stack = [(layer, torch.arange(layer.num_units))]
    while stack:
        top, units = stack.pop()
        if isinstance(top, Gather):
            stack.append((top.children[0], top.index[units]))
        elif isinstance(top, ProductLayer):
            stack.extend((child, units) for child in reversed(top.children))
        else:
            terms.append(Term(top, units))
    return tuple(terms)


def tie_key(layer: SumLayer) -> tuple[int, ...]:
    """What tied sums have in common: the very operators, not equal ones."""
    return tuple(id(w) for w in layer.weights)


def _power_of_two(number: int) -> int:
    """The largest power of two that divides a number, at most the largest block."""
    return min(number & -number, _LARGEST_BLOCK)


class _Groups:
    """Disjoint sets of layers that need one block size (union-find), and the most it may be."""

    def __init__(self) -> None:
        self._parent: dict[Layer, Layer] = {}
        self._most: dict[Layer, int] = {}

    def find(self, layer: Layer) -> Layer:
        if layer not in self._parent:
            self._parent[layer] = layer
            self._most[layer] = _power_of_two(layer.num_units)
        while self._parent[layer] is not layer:
            self._parent[layer] = self._parent[self._parent[layer]]
            layer = self._parent[layer]
        return layer

    def join(self, a: Layer, b: Layer) -> None:
        a, b = self.find(a), self.find(b)
        self._parent[a] = b
        self._most[b] = min(self._most[a], self._most[b])

    def limit(self, layer: Layer, num_units: int) -> None:
        root = self.find(layer)
        self._most[root] = min(self._most[root], _power_of_two(num_units))

    def most(self, layer: Layer) -> int:
        return self._most[self.find(layer)]


@dataclass
class _Pattern:
    """Which blocks of an operator hold weights, for growing blocks."""

    row: Tensor  # the block row of each block
    column: Tensor  # its block column
    groups: tuple[Layer, Layer]  # the groups of layers that the rows and the columns belong to
    num_weights: int  # how many weights there are, whatever the blocks

    def doubled(self, group: Layer) -> _Pattern:
        """Return the pattern with the blocks of one group twice as large."""
        row, column = (
            index // 2 if mine is group else index
            for index, mine in zip((self.row, self.column), self.groups)
        )
        width = int(column.max()) + 1 if len(column) else 1
        places = (row * width + column).unique()
        return replace(self, row=places // width, column=places % width)

    def stored(self, size: dict[Layer, int]) -> int:
        """How many weights there are with the zeros in between."""
        return len(self.row) * size[self.groups[0]] * size[self.groups[1]]


def block_sizes(
    sums: list[SumLayer],
    products: dict[SumLayer, tuple[tuple[Term, ...], ...]],
    found: dict[Operator, Entries],
) -> dict[Layer, int]:
    """Return the largest powers of two that divide the units and keep stored zeros few."""
    groups = _Groups()
    first_with: dict[tuple[int, ...], tuple[SumLayer, Layer]] = {}
    bases: dict[Layer, None] = {}
    for layer in sums:
        below = products[layer][0][0].base
        for child, terms in zip(layer.children, products[layer]):
            for term in terms:
                groups.join(term.base, below)
                bases[term.base] = None
            groups.limit(below, child.num_units)
        other, other_below = first_with.setdefault(tie_key(layer), (layer, below))
        groups.join(layer, other)
        groups.join(below, other_below)
    emissions: dict[int, Layer] = {}
    for base in bases:
        if isinstance(base, InputLayer):
            groups.join(base, emissions.setdefault(id(base.emission), base))
    patterns = [
        _Pattern(
            found[w].row,
            found[w].column,
            (groups.find(layer), groups.find(below)),
            len(found[w].value),
        )
        for layer, below in first_with.values()
        for w in layer.weights
    ]
    size = _grown(patterns, groups)
    return {layer: size[groups.find(layer)] for layer in [*sums, *bases]}


def _grown(patterns: list[_Pattern], groups: _Groups) -> dict[Layer, int]:
    """Double the blocks of each group while few zeros come in."""
    touching: dict[Layer, list[int]] = {}
    for k, pattern in enumerate(patterns):
        for group in dict.fromkeys(pattern.groups):
            touching.setdefault(group, []).append(k)
    size = dict.fromkeys(touching, 1)
    for group, mine in touching.items():
        allowed = _FILL * sum(patterns[k].num_weights for k in mine)
        while size[group] < groups.most(group):
            larger = size | {group: 2 * size[group]}
            coarser = [patterns[k].doubled(group) for k in mine]
            if sum(pattern.stored(larger) for pattern in coarser) > allowed:
                break
            size = larger
            for k, pattern in zip(mine, coarser):
                patterns[k] = pattern
    # The backward kernels of pyjuice 2.6.3 refuse some sums with blocks of two.
    return {group: 1 if found == 2 else found for group, found in size.items()}
