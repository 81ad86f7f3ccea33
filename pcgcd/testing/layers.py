"""The laws of layers, to be inherited by the tests of each kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from pcgcd.circuits import Circuit, CircuitLike, Dense, InputLayer, Layer, Operator, SumLayer
from pcgcd.circuits.semirings import BOOLEAN, LINEAR, MAXIMUM, Semiring
from pcgcd.testing.circuits import REAL_VALUED, CircuitLaws

_ROWS = 20
_LINEAR, _MAXIMUM = LINEAR.with_dtype(torch.float64), MAXIMUM.with_dtype(torch.float64)
_REAL_VALUED = [semiring.with_dtype(torch.float64) for semiring in REAL_VALUED]


class LayerLaws(CircuitLaws):
    """What every kind of inner :class:`pcgcd.circuits.Layer` must satisfy.

    A circuit of the layer with one sum on top must satisfy the laws of circuits besides. A unit
    must be a sum of terms, each of them a weight times at most one unit of each child: that is
    what samples and best paths choose from. From the values that you provide, the laws find the
    weight of each term by themselves.

    >>> from pcgcd.circuits import ProductLayer
    >>> class TestProduct(LayerLaws):
    ...     length = 2
    ...
    ...     def create_layer(self):
    ...         coins = Dense(torch.tensor([[0.5, 0.5], [0.9, 0.1]]))
    ...         return ProductLayer(InputLayer(0, coins), InputLayer(1, coins))
    ...
    ...     def reference(self, layer, below):
    ...         return below[0] * below[1]
    >>> TestProduct().test_down_is_the_derivative()

    Attributes:
        length: The number of the layer's variables.
    """

    def create_layer(self) -> Layer:
        """Return a small layer over input layers of variables 0, 1, ..., which have few values."""
        raise NotImplementedError("return the layer to be tested")

    def reference(self, layer: Layer, below: Sequence[Tensor]) -> Tensor:
        """Return the units' values (batch, units), given the children's, made without the layer.

        Args:
            layer: The layer.
            below: For each child its values (batch, child's units), double.
        """
        raise NotImplementedError("return the values of the layer's units")

    def heaviest_terms(self, layer: Layer, below: Sequence[Tensor]) -> Tensor:
        """Return the units' values in the maximum semiring: their largest terms (batch, units).

        Override it where a term is a sum itself, as in a layer that multiplies two matrices.
        """
        return _terms(self._weights, below).flatten(1, -2).amax(1)

    def create_partners(self) -> list[CircuitLike]:
        """Circuits that the layer's circuit can be multiplied with.

        By default itself, with the tokens of its inputs in the opposite order.
        """
        turned = tuple(
            InputLayer(child.variable, Dense(child.emission.to_dense().flip(1)))
            for child in self._inputs()
        )
        return [_sum_of(self._layer.rebuilt(turned, lambda operator: operator))]

    def create_circuit(self) -> CircuitLike:
        """Return the sum of the layer's units."""
        return _sum_of(self._layer)

    def reference_log_value(self, strings: Tensor) -> Tensor:
        """See :class:`CircuitLaws`: from :meth:`reference`."""
        below = [
            child.emission.to_dense(torch.float64)[:, strings[:, child.variable]].mT
            for child in self._inputs()
        ]
        return self._reference(below).sum(-1).log()

    # -- values and derivatives ---------------------------------------------------------------

    def test_units_and_scope_are_those_of_the_layer(self) -> None:
        """``num_units`` counts the units, ``scope`` is all of the children's."""
        layer = self._layer
        expected = self._reference(self._below).shape[1]
        assert layer.num_units == expected, f"{layer.num_units} units, but {expected} values"
        scope = {variable for child in layer.children for variable in child.scope}
        assert set(layer.scope) == scope, f"the scope is {layer.scope}, not {scope}"

    def test_up_equals_the_reference(self) -> None:
        """``up`` is the value, whether plain, scaled or in logarithms; one row serves a batch."""
        below = self._below
        one_row_of_the_first = [below[0][:1], *below[1:]]
        for semiring in _REAL_VALUED:
            for rows in (below, one_row_of_the_first, _unit_vectors(self._layer)):
                lifted = [semiring.lift(value) for value in rows]
                found = semiring.to_log(self._layer.up(lifted, semiring))
                batch = max(len(value) for value in rows)
                expected = self._reference([value.expand(batch, -1) for value in rows])
                self._compare(found.expand(batch, -1), expected.log(), f"up in {semiring}")

    def test_up_finds_what_is_possible(self) -> None:
        """In the boolean semiring ``up`` says which units are positive, exactly."""
        for below in (self._below, _unit_vectors(self._layer)):
            found = self._layer.up([value > 0 for value in below], BOOLEAN)
            expected = self._reference(below) > 0
            same = torch.equal(found.expand(len(below[0]), -1), expected)
            assert same, "the wrong units are possible"

    def test_up_finds_the_heaviest_term(self) -> None:
        """In the maximum semiring ``up`` is the largest term of each unit."""
        found = self._layer.up([_MAXIMUM.lift(value) for value in self._below], _MAXIMUM)
        expected = self.heaviest_terms(self._layer, self._below).log()
        self._compare(found.expand(_ROWS, -1), expected, "the largest terms")

    def test_down_is_the_derivative(self) -> None:
        """``down`` is the derivative of ``up``: what a unit of one counts more than one of zero."""
        layer, below = self._layer, self._below
        flow = _numbers((_ROWS, layer.num_units), seed=100)
        for semiring in _REAL_VALUED:
            seen = [semiring.lift(v) if layer.down_needs_values else None for v in below]
            flows = layer.down(semiring.lift(flow), seen, semiring)
            assert len(flows) == len(below), f"{len(flows)} flows for {len(below)} children"
            for child, found in enumerate(flows):
                for unit in range(below[child].shape[1]):
                    at = [[value.clone() for value in below] for _ in range(2)]
                    for number in (0, 1):
                        at[number][child][:, unit] = number
                    slope = self._reference(at[1]) - self._reference(at[0])
                    expected = (slope * flow).sum(-1)
                    plain = semiring.to_log(found).exp().expand(_ROWS, -1)
                    self._compare(plain[:, unit], expected, f"down in {semiring}")

    # -- choices ------------------------------------------------------------------------------

    def test_trace_chooses_terms_by_their_weight(self) -> None:
        """Each walk of a sample goes on to a term of its unit, in proportion to its weight."""
        below = [value[:1] for value in self._below]
        terms = _terms(self._weights, below)[0]  # (a place for each child, units)
        generator = torch.Generator().manual_seed(0)

        def draw(weights: Tensor) -> Tensor:
            rows = len(weights)
            assert rows == self.num_samples, f"{self.num_samples} walks, {rows} rows of weights"
            return torch.multinomial(weights, 1, generator=generator).squeeze(1)

        for unit in range(self._layer.num_units):
            expected = terms[..., unit].flatten()
            if bool(expected.any()):
                places = self._trace([unit] * self.num_samples, below, _LINEAR, draw)
                counts = places.bincount(minlength=len(expected)).double()
                self._compare_counts(counts, expected / expected.sum())

    def test_best_trace_is_the_heaviest_term(self) -> None:
        """A best path goes on to the largest term of its unit."""
        terms = _terms(self._weights, self._below).flatten(1, -2)  # (rows, terms, units)
        heaviest = self.heaviest_terms(self._layer, self._below)
        for unit in range(self._layer.num_units):
            rows = heaviest[:, unit].nonzero().flatten()
            below = [value[rows] for value in self._below]
            places = self._trace([unit] * len(rows), below, _MAXIMUM, lambda w: w.argmax(-1))
            found = terms[rows, places, unit]
            lighter = found < heaviest[rows, unit] * (1 - self._tolerance)
            assert not bool(lighter.any()), "a best path does not follow the largest term"

    # -- other layers -------------------------------------------------------------------------

    def test_rebuilt_maps_every_operator(self) -> None:
        """``rebuilt`` is the same kind over the new children, each operator mapped once."""
        layer = self._layer
        mapped: dict[Operator, Operator] = {}

        def move(operator: Operator) -> Operator:
            return mapped.setdefault(operator, operator.to(dtype=torch.float64))

        children = tuple(child.rebuilt((), move) for child in layer.children)
        other = layer.rebuilt(children, move)
        assert type(other) is type(layer), f"a {type(layer).__name__} became {other!r}"
        assert other.children == children, "the children are not those given"
        moved = tuple(mapped.get(operator) for operator in layer.operators)
        assert other.operators == moved, "an operator was not mapped, or is not in `operators`"
        found, expected = (either.up(self._below, _LINEAR) for either in (other, layer))
        self._compare(found, expected, "up of the rebuilt layer")

    def test_products_are_pointwise(self) -> None:
        """The product with each partner is the product of the values, on every string."""
        circuit, world = self._circuit, self._world
        for partner in self.create_partners():
            product = circuit * partner
            expected = world.log_values + partner.log_value(world.strings).double()
            self._compare(product.log_value(world.strings), expected, "the product's value")
            total = expected.logsumexp(0)
            self._compare(product.log_partition(self.length), total, "the product's partition")

    # -- what the laws are checked on ---------------------------------------------------------

    @cached_property
    def _layer(self) -> Layer:
        return self.create_layer()

    def _inputs(self) -> list[InputLayer]:
        inputs = [child for child in self._layer.children if isinstance(child, InputLayer)]
        all_of_them = len(inputs) == len(self._layer.children)
        assert all_of_them, "create_layer must give it input layers only"
        return inputs

    @cached_property
    def _below(self) -> list[Tensor]:
        """Values of the children, some of them zero."""
        sizes = [child.num_units for child in self._layer.children]
        return [_numbers((_ROWS, size), seed) for seed, size in enumerate(sizes)]

    def _reference(self, below: Sequence[Tensor]) -> Tensor:
        return self.reference(self._layer, below).double()

    @cached_property
    def _weights(self) -> Tensor:
        """The weight of each term: an axis for each child (no unit, unit 0, ...), then the units.

        A function that is linear in each argument is known from its values at the unit vectors
        and at zero.
        """
        sizes = [child.num_units + 1 for child in self._layer.children]
        weights = self._reference(_unit_vectors(self._layer)).reshape(*sizes, -1)
        for axis in range(len(sizes)):
            nothing, something = weights.split([1, sizes[axis] - 1], axis)
            weights = torch.cat([nothing, something - nothing], axis)
        weights = weights.where(weights.abs() > 1e-12 * weights.abs().max(), 0.0)
        found, expected = _terms(weights, self._below), self._reference(self._below)
        total = found.flatten(1, -2).sum(1)
        self._compare(total, expected, "a sum of terms, one unit of each child")
        return weights

    def _trace(
        self,
        units: list[int],
        below: Sequence[Tensor],
        semiring: Semiring[Any],
        choose: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """The number, among all terms, of the one that each walk goes on to."""
        layer = self._layer
        seen = [semiring.lift(value) if layer.trace_needs_values else None for value in below]
        chosen = layer.trace(torch.tensor(units), seen, semiring, choose)
        assert len(chosen) == len(below), f"{len(chosen)} choices for {len(below)} children"
        places = torch.zeros_like(chosen[0])
        for child, value in zip(chosen, below):
            places = places * (value.shape[1] + 1) + child + 1
        return places


def _numbers(shape: tuple[int, int], seed: int) -> Tensor:
    """Positive numbers, with zeros among them except in the first row."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.rand(shape, generator=generator, dtype=torch.float64) + 0.1
    some = torch.rand(shape, generator=generator) > 0.2
    some[0] = True
    return numbers * some


def _sum_of(layer: Layer) -> Circuit:
    ones = Dense(torch.ones(1, layer.num_units, dtype=torch.bool))
    return Circuit(SumLayer([layer], [ones]))


def _unit_vectors(layer: Layer) -> list[Tensor]:
    """Every combination of the children's unit vectors, the zero vector among them."""
    sizes = [child.num_units + 1 for child in layer.children]
    places = torch.cartesian_prod(*(torch.arange(size) for size in sizes))
    vectors = [torch.eye(size, dtype=torch.float64)[:, 1:] for size in sizes]
    return [rows[i] for rows, i in zip(vectors, places.reshape(-1, len(sizes)).unbind(1))]


def _terms(weights: Tensor, below: Sequence[Tensor]) -> Tensor:
    """Each term's value: (batch, an axis for each child, units)."""
    terms = weights.unsqueeze(0)
    for axis, value in enumerate(below):
        values = torch.cat([torch.ones_like(value[:, :1]), value], 1)
        shape = [1] * terms.dim()
        shape[0], shape[axis + 1] = values.shape
        terms = terms * values.reshape(shape)
    return terms
