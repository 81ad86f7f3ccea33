"""Hypothesis strategies for random circuits over a small world."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st

from pcgcd.circuits import (
    Circuit,
    Dense,
    Incidence,
    InputLayer,
    LabelSets,
    Layer,
    Operator,
    ProductLayer,
    SumLayer,
    compose,
)

VOCAB_SIZE = 2

# A vtree: a variable, or a tuple of vtrees.
Vtree = "int | tuple[Vtree, ...]"


@dataclass
class Builder:
    """Random layers from one seed."""

    rng: np.random.Generator

    def vtree(self, variables: list[int]) -> object:
        """A random division of the variables, again and again."""
        if len(variables) == 1:
            return variables[0]
        variables = list(self.rng.permutation(variables))
        cuts = sorted(
            self.rng.choice(
                range(1, len(variables)), size=self.rng.integers(1, len(variables)), replace=False
            )
        )
        parts = np.split(np.array(variables), cuts)
        return tuple(self.vtree([int(v) for v in part]) for part in parts)

    def weights(self, rows: int, columns: int) -> Operator:
        """Dense non-negative weights, some of them zero."""
        w = self.rng.random((rows, columns)) * (self.rng.random((rows, columns)) < 0.8)
        return Dense(torch.tensor(w))

    def emission(self, units: int) -> Operator:
        """Dense emissions, or edges with label sets."""
        if self.rng.random() < 0.5:
            return self.weights(units, VOCAB_SIZE)
        labels = int(self.rng.integers(1, 4))
        sets = LabelSets(
            torch.tensor(self.rng.random((labels, 2)) < 0.7),
            torch.tensor(self.rng.integers(0, 2, VOCAB_SIZE)),
        )
        edges = torch.tensor(self.rng.integers(0, labels, units))
        return compose(Incidence(torch.arange(units), edges, (units, labels)), sets)

    def units(self) -> int:
        """A small number of units."""
        return int(self.rng.integers(1, 4))

    def layer(self, vtree: object, units: int, sums: int = 2) -> Layer:
        """A layer over the vtree, with sums and products in no fixed alternation."""
        kind = self.rng.random()
        if sums and kind < 0.5:  # a sum over one or two layers, and perhaps over sums again
            widths = [self.units() for _ in range(1 + (self.rng.random() < 0.25))]
            children = [self.layer(vtree, width, sums - 1) for width in widths]
            return SumLayer(children, [self.weights(units, width) for width in widths])
        if not isinstance(vtree, tuple):
            return InputLayer(vtree, self.emission(units))
        if kind > 0.85:  # fully factorised: finer than the vtree
            return ProductLayer(*(self.layer(v, units, sums=1) for v in leaves(vtree)))
        return ProductLayer(*(self.layer(part, units) for part in vtree))

    def circuit(self, vtree: object) -> Circuit:
        """A circuit over the vtree."""
        return Circuit(self.layer(vtree, 1))


def leaves(vtree: object) -> list[int]:
    """The variables of a vtree."""
    if not isinstance(vtree, tuple):
        return [vtree]  # type: ignore[list-item]
    return [v for part in vtree for v in leaves(part)]


def builders() -> st.SearchStrategy[Builder]:
    """Builders with a seed that hypothesis chooses."""
    return st.integers(0, 2**32 - 1).map(lambda seed: Builder(np.random.default_rng(seed)))
