"""The three kinds of layer: inputs, products and sums, each a vector of units over one scope."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, reduce

import torch
from torch import Tensor

from pcgcd.circuits.frozen import Frozen
from pcgcd.circuits.operators import Operator
from pcgcd.circuits.scope import Scope
from pcgcd.circuits.semirings import Semiring, Value
from pcgcd.errors import InvalidParameterError, StructuralPropertyError

OperatorMap = Callable[[Operator], Operator]
# The values of each child, where a layer needs them.
Below = Sequence[Value | None]
# Picks an index for each row of weights (walks, terms).
Choose = Callable[[Value], Tensor]


class Layer(Frozen, ABC):
    """A vector of units over a scope, computed from the layers below it.

    Layers are immutable and compared by identity; a layer used in two places is computed once.
    A kind of your own sets :attr:`children` and implements :attr:`num_units`, :meth:`up`,
    :meth:`down` and :meth:`rebuilt`; to be sampled and to have best paths, :meth:`trace`; to be
    multiplied with others, it registers rules with :func:`pcgcd.circuits.product_rule`.
    :class:`pcgcd.testing.LayerLaws` checks all of it. One that reads tokens inherits from
    :class:`InputLayer`.
    """

    children: tuple[Layer, ...] = ()

    @property
    @abstractmethod
    def num_units(self) -> int:
        """How many units the vector has."""

    @cached_property
    def scope(self) -> Scope:
        """The variables that the units depend on."""
        return Scope.union(child.scope for child in self.children)

    @property
    def operators(self) -> tuple[Operator, ...]:
        """The weights that the layer holds."""
        return ()

    @abstractmethod
    def up(self, below: Sequence[Value], semiring: Semiring[Value]) -> Value:
        """Return the units' values (batch, units), given the children's."""

    @abstractmethod
    def down(self, flow: Value, below: Below[Value], semiring: Semiring[Value]) -> list[Value]:
        """What flows to each child: the derivative of the root with respect to its units.

        Args:
            flow: The derivative with respect to this layer's units, (batch, units).
            below: The children's values, where :attr:`down_needs_values` says so, else None.
            semiring: The semiring to compute in.
        """

    @property
    def down_needs_values(self) -> bool:
        """Whether :meth:`down` looks at the children's values."""
        return False

    @abstractmethod
    def rebuilt(self, children: tuple[Layer, ...], operator_map: OperatorMap) -> Layer:
        """Return the same layer over other children, with its operators mapped."""

    def trace(
        self, units: Tensor, below: Below[Value], semiring: Semiring[Value], choose: Choose[Value]
    ) -> Sequence[Tensor]:
        """Choose one term of each unit: the unit of each child that it is made of.

        Args:
            units: The units of this layer that some walks have come to, (walks,).
            below: For each child its values for each walk, (walks or 1, child's units), where
                :attr:`trace_needs_values` says so, else None.
            semiring: The semiring of the values.
            choose: Picks an index for each row of weights (walks, terms): at random for a sample,
                the largest for a best path.

        Returns:
            For each child the unit that each walk goes on to (walks,); -1 where it does not.
        """
        kind = type(self).__name__
        raise StructuralPropertyError(
            f"{self!r} has no samples and no best paths: implement {kind}.trace, which chooses "
            "the children's units that a unit is made of"
        )

    @property
    def trace_needs_values(self) -> bool:
        """Whether :meth:`trace` looks at the children's values."""
        return True

    @property
    def is_smooth(self) -> bool:
        """Whether what this layer adds up depends on the same variables."""
        return True

    @property
    def is_decomposable(self) -> bool:
        """Whether what this layer multiplies depends on different variables.

        Of a kind that is not known: whether its children have one scope, or share no variable.
        """
        return len({child.scope for child in self.children}) <= 1 or self._has_disjoint_children

    @property
    def _has_disjoint_children(self) -> bool:
        return sum(len(child.scope) for child in self.children) == len(self.scope)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_units} units, scope {self.scope})"


class InputLayer(Layer):
    """Units over one variable: unit k maps token v to ``emission[k, v]``, (units, tokens)."""

    def __init__(self, variable: int, emission: Operator) -> None:
        self.variable = variable
        self.emission = emission
        self.scope = Scope.of(variable)

    @property
    def num_units(self) -> int:
        return self.emission.shape[0]

    @property
    def num_tokens(self) -> int:
        """How many values the variable has."""
        return self.emission.shape[1]

    @property
    def operators(self) -> tuple[Operator, ...]:
        return (self.emission,)

    def up(self, below: Sequence[Value], semiring: Semiring[Value]) -> Value:
        """Return the units with their token summed out (1, units)."""
        return self.emission.total(semiring)

    def observed(self, tokens: Tensor, semiring: Semiring[Value]) -> Value:
        """Return the units' values at the given tokens (batch,), (batch, units)."""
        return self.emission.columns(tokens, semiring)

    def down(self, flow: Value, below: Below[Value], semiring: Semiring[Value]) -> list[Value]:
        return []

    def rebuilt(self, children: tuple[Layer, ...], operator_map: OperatorMap) -> InputLayer:
        return InputLayer(self.variable, operator_map(self.emission))


class ProductLayer(Layer):
    """Unit k is the product of the k-th units of all children."""

    def __init__(self, *children: Layer) -> None:
        if not children:
            raise InvalidParameterError("a product layer needs at least one child")
        if len({child.num_units for child in children}) > 1:
            raise InvalidParameterError(
                "the children of a product layer must have equally many units, but have "
                f"{[child.num_units for child in children]}"
            )
        self.children = children

    @property
    def num_units(self) -> int:
        return self.children[0].num_units

    def up(self, below: Sequence[Value], semiring: Semiring[Value]) -> Value:
        return reduce(semiring.mul, below)

    def down(self, flow: Value, below: Below[Value], semiring: Semiring[Value]) -> list[Value]:
        """Products of siblings are taken from both ends: no division."""
        values = [value for value in below if value is not None]
        after: list[Value | None] = [None] * len(values)
        for i in range(len(values) - 2, -1, -1):
            rest = after[i + 1]
            after[i] = values[i + 1] if rest is None else semiring.mul(values[i + 1], rest)
        flows, before = [], flow
        for value, rest in zip(values, after):
            flows.append(before if rest is None else semiring.mul(before, rest))
            before = semiring.mul(before, value)
        return flows

    @property
    def down_needs_values(self) -> bool:
        return len(self.children) > 1

    def trace(
        self, units: Tensor, below: Below[Value], semiring: Semiring[Value], choose: Choose[Value]
    ) -> Sequence[Tensor]:
        """Return a product is made of all its factors."""
        return [units] * len(self.children)

    @property
    def trace_needs_values(self) -> bool:
        return False

    @property
    def is_decomposable(self) -> bool:
        return self._has_disjoint_children

    def rebuilt(self, children: tuple[Layer, ...], operator_map: OperatorMap) -> ProductLayer:
        return ProductLayer(*children)


class SumLayer(Layer):
    """Weighted sums of the children's units: ``sum_c weights[c] @ children[c]``."""

    def __init__(self, children: Sequence[Layer], weights: Sequence[Operator]) -> None:
        if not children or len(children) != len(weights):
            raise InvalidParameterError(
                f"a sum layer needs one operator per child, but got {len(children)} children "
                f"and {len(weights)} operators"
            )
        for child, operator in zip(children, weights):
            if operator.shape != (weights[0].shape[0], child.num_units):
                raise InvalidParameterError(
                    f"the weights over a child of {child.num_units} units must have shape "
                    f"({weights[0].shape[0]}, {child.num_units}), but have {operator.shape}"
                )
        self.children = tuple(children)
        self.weights = tuple(weights)

    @property
    def num_units(self) -> int:
        return self.weights[0].shape[0]

    @property
    def operators(self) -> tuple[Operator, ...]:
        return self.weights

    def up(self, below: Sequence[Value], semiring: Semiring[Value]) -> Value:
        return reduce(
            semiring.add, (w.matvec(value, semiring) for w, value in zip(self.weights, below))
        )

    def down(self, flow: Value, below: Below[Value], semiring: Semiring[Value]) -> list[Value]:
        return [w.rmatvec(flow, semiring) for w in self.weights]

    def trace(
        self, units: Tensor, below: Below[Value], semiring: Semiring[Value], choose: Choose[Value]
    ) -> Sequence[Tensor]:
        """One unit of one child."""
        terms = [
            semiring.mul(weights.rows(units, semiring), value)
            for weights, value in zip(self.weights, below)
            if value is not None
        ]
        index = choose(semiring.concat(terms) if len(terms) > 1 else terms[0])
        chosen = []
        for child in self.children:
            chosen.append(torch.where(index < child.num_units, index.clamp(min=-1), -1))
            index = index - child.num_units
        return chosen

    @property
    def is_smooth(self) -> bool:
        return all(child.scope == self.scope for child in self.children)

    @property
    def is_decomposable(self) -> bool:
        return True

    def rebuilt(self, children: tuple[Layer, ...], operator_map: OperatorMap) -> SumLayer:
        return SumLayer(children, [operator_map(w) for w in self.weights])
