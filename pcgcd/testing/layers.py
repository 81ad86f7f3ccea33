"""The laws of layers, to be inherited by the tests of each kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pcgcd.circuits import Circuit, CircuitLike, Dense, InputLayer, Layer, Operator, SumLayer
from pcgcd.circuits.semirings import BOOLEAN, LINEAR, LOG, MAXIMUM, REAL, Semiring
from pcgcd.testing.circuits import CircuitLaws

__all__ = ["LayerLaws"]

_ROWS = 20


class LayerLaws(CircuitLaws):
    """What every kind of inner :class:`pcgcd.circuits.Layer` must satisfy.

    Inherit from it in a test class whose name starts with ``Test``, and implement two methods;
    pytest does the rest. Without pytest, use :func:`run_laws`. A circuit of the layer with one
    sum on top must satisfy the laws of circuits besides.

    A unit must be a sum of terms, each of them a weight times at most one unit of each child:
    that is what samples and best paths choose from. From the values that you provide, the laws
    find the weight of each term by themselves.

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

    # -- to be implemented --------------------------------------------------------------------

    def create_layer(self) -> Layer:
        """A small layer over input layers, whose variables are 0, 1, ... and have few values."""
        raise NotImplementedError("return the layer to be tested")

    def reference(self, layer: Layer, below: Sequence[Tensor]) -> Tensor:
        """The units' values (batch, units), given the children's, made without the layer.

        Args:
            layer: The layer.
            below: For each child its values (batch, child's units), double.
        """
        raise NotImplementedError("return the values of the layer's units")

    def heaviest_terms(self, layer: Layer, below: Sequence[Tensor]) -> Tensor:
        """The units' values in the maximum semiring: of each unit, its largest term (batch, units).

        Override it where a term is a sum itself, as in a layer that multiplies two matrices.
        """
        terms = _terms(self._weights(layer), below)
        return terms.flatten(1, -2).amax(1)

    def create_partners(self) -> list[CircuitLike]:
        """Circuits that the layer's circuit can be multiplied with.

        By default itself, with the tokens of its inputs in the opposite order.
        """
        layer = self.create_layer()
        turned = [
            InputLayer(child.variable, Dense(child.emission.to_dense().flip(1)))
            for child in self._inputs(layer)
        ]
        return [_sum_of(layer.rebuilt(tuple(turned), lambda operator: operator))]

    def create_circuit(self) -> CircuitLike:
        """The sum of the layer's units."""
        return _sum_of(self.create_layer())

    def reference_log_value(self, strings: Tensor) -> Tensor:
        """See :class:`CircuitLaws`: from :meth:`reference`."""
        layer = self.create_layer()
        below = [
            child.emission.to_dense(torch.float64)[:, strings[:, child.variable]].mT
            for child in self._inputs(layer)
        ]
        return self.reference(layer, below).double().sum(-1).log()

    # -- values and derivatives ---------------------------------------------------------------

    def test_units_and_scope_are_those_of_the_layer(self) -> None:
        """``num_units`` counts the units, ``scope`` is all of the children's."""
        layer = self.create_layer()
        expected = self.reference(layer, self._below(layer)).shape[1]
        assert layer.num_units == expected, f"{layer.num_units} units, but {expected} values"
        scope = {variable for child in layer.children for variable in child.scope}
        assert set(layer.scope) == scope, f"the scope is {layer.scope}, not {scope}"

    def test_up_equals_the_reference(self) -> None:
        """``up`` is the value, whether plain, scaled or in logarithms; one row serves a batch."""
        layer = self.create_layer()
        below = self._below(layer)
        one_row_of_the_first = [below[0][:1], *below[1:]]
        for semiring in self._semirings():
            for rows in (below, one_row_of_the_first, _unit_vectors(layer)):
                lifted = [semiring.lift(value) for value in rows]
                found = semiring.to_log(layer.up(lifted, semiring))
                batch = max(len(value) for value in rows)
                expected = self.reference(layer, [v.expand(batch, -1) for v in rows]).double()
                self._compare(found.expand(batch, -1), expected.log(), f"up in {semiring}")

    def test_up_finds_what_is_possible(self) -> None:
        """In the boolean semiring ``up`` says which units are positive, exactly."""
        layer = self.create_layer()
        for below in (self._below(layer), _unit_vectors(layer)):
            found = layer.up([value > 0 for value in below], BOOLEAN)
            expected = self.reference(layer, below) > 0
            same = torch.equal(found.expand(len(below[0]), -1), expected)
            assert same, "the wrong units are possible"

    def test_up_finds_the_heaviest_term(self) -> None:
        """In the maximum semiring ``up`` is the largest term of each unit."""
        layer = self.create_layer()
        below = self._below(layer)
        maximum = MAXIMUM.with_dtype(torch.float64)
        found = layer.up([maximum.lift(value) for value in below], maximum)
        expected = self.heaviest_terms(layer, below).log()
        self._compare(found.expand(_ROWS, -1), expected, "the largest terms")

    def test_down_is_the_derivative(self) -> None:
        """``down`` is the derivative of ``up``: what a unit of one counts more than one of zero."""
        layer = self.create_layer()
        below = self._below(layer)
        flow = self._numbers((_ROWS, layer.num_units), seed=100)
        for semiring in self._semirings():
            seen = [semiring.lift(v) if layer.down_needs_values else None for v in below]
            flows = layer.down(semiring.lift(flow), seen, semiring)
            assert len(flows) == len(below), f"{len(flows)} flows for {len(below)} children"
            for child, found in enumerate(flows):
                for unit in range(below[child].shape[1]):
                    zero, one = (list(below), list(below))
                    for rows, number in ((zero, 0.0), (one, 1.0)):
                        rows[child] = below[child].clone()
                        rows[child][:, unit] = number
                    slope = self.reference(layer, one) - self.reference(layer, zero)
                    expected = (slope.double() * flow).sum(-1)
                    plain = semiring.to_log(found).exp().expand(_ROWS, -1)
                    self._compare(plain[:, unit], expected, f"down in {semiring}")

    # -- choices ------------------------------------------------------------------------------

    def test_trace_chooses_terms_by_their_weight(self) -> None:
        """Each walk of a sample goes on to a term of its unit, in proportion to its weight."""
        layer = self.create_layer()
        below = [value[:1] for value in self._below(layer)]
        linear = LINEAR.with_dtype(torch.float64)
        terms = _terms(self._weights(layer), below)[0]  # (a place for each child, units)
        generator = torch.Generator().manual_seed(0)

        def draw(weights: Tensor) -> Tensor:
            rows = len(weights)
            assert rows == self.num_samples, f"{self.num_samples} walks, {rows} rows of weights"
            return torch.multinomial(weights, 1, generator=generator).squeeze(1)

        for unit in range(layer.num_units):
            expected = terms[..., unit]
            if not bool(expected.any()):
                continue
            seen = [linear.lift(v) if layer.trace_needs_values else None for v in below]
            chosen = layer.trace(torch.full((self.num_samples,), unit), seen, linear, draw)
            places = self._places(chosen, expected.shape)
            counts = places.bincount(minlength=expected.numel()).double()
            self._compare_counts(counts, expected.flatten() / expected.sum())

    def test_best_trace_is_the_heaviest_term(self) -> None:
        """A best path goes on to the largest term of its unit."""
        layer = self.create_layer()
        below = self._below(layer)
        maximum = MAXIMUM.with_dtype(torch.float64)
        terms, heaviest = _terms(self._weights(layer), below), self.heaviest_terms(layer, below)
        for unit in range(layer.num_units):
            rows = heaviest[:, unit].nonzero().flatten()
            chosen = layer.trace(
                torch.full((len(rows),), unit),
                [maximum.lift(v[rows]) if layer.trace_needs_values else None for v in below],
                maximum,
                lambda weights: weights.argmax(-1),
            )
            places = self._places(chosen, terms.shape[1:-1])
            found = terms[rows, ..., unit].flatten(1).gather(1, places.unsqueeze(1)).squeeze(1)
            lighter = found < heaviest[rows, unit] * (1 - self._tolerance())
            assert not bool(lighter.any()), "a best path does not follow the largest term"

    # -- other layers -------------------------------------------------------------------------

    def test_rebuilt_maps_every_operator(self) -> None:
        """``rebuilt`` is the same kind over the new children, each operator mapped once."""
        layer = self.create_layer()
        mapped: dict[Operator, Operator] = {}

        def move(operator: Operator) -> Operator:
            return mapped.setdefault(operator, operator.to(dtype=torch.float64))

        children = tuple(child.rebuilt((), move) for child in layer.children)
        other = layer.rebuilt(children, move)
        assert type(other) is type(layer), f"a {type(layer).__name__} became {other!r}"
        assert other.children == children, "the children are not those given"
        moved = tuple(mapped.get(operator) for operator in layer.operators)
        assert other.operators == moved, "an operator was not mapped, or is not in `operators`"
        below = self._below(layer)
        linear = LINEAR.with_dtype(torch.float64)
        self._compare(other.up(below, linear), layer.up(below, linear), "up of the rebuilt layer")

    def test_products_are_pointwise(self) -> None:
        """The product with each partner is the product of the values, on every string."""
        circuit, world = self._circuit(), self._world()
        for partner in self.create_partners():
            product = circuit * partner
            expected = world.log_values + partner.log_value(world.strings).double()
            self._compare(product.log_value(world.strings), expected, "the product's value")
            total = expected.logsumexp(0)
            self._compare(product.log_partition(self.length), total, "the product's partition")

    # -- what the laws are checked on ---------------------------------------------------------

    def _inputs(self, layer: Layer) -> list[InputLayer]:
        inputs = [child for child in layer.children if isinstance(child, InputLayer)]
        assert len(inputs) == len(layer.children), "create_layer must give it input layers only"
        return inputs

    def _semirings(self) -> list[Semiring[Any]]:
        return [semiring.with_dtype(torch.float64) for semiring in (LINEAR, REAL, LOG)]

    def _below(self, layer: Layer) -> list[Tensor]:
        """Values of the children, some of them zero."""
        return [
            self._numbers((_ROWS, child.num_units), seed=i)
            for i, child in enumerate(layer.children)
        ]

    def _numbers(self, shape: tuple[int, int], seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        numbers = torch.rand(shape, generator=generator, dtype=torch.float64) + 0.1
        some = torch.rand(shape, generator=generator) > 0.2
        some[0] = True
        return numbers * some

    def _weights(self, layer: Layer) -> Tensor:
        """The weight of each term: an axis for each child (no unit, unit 0, ...), then the units.

        A function that is linear in each argument is known from its values at the unit vectors
        and at zero.
        """
        sizes = [child.num_units + 1 for child in layer.children]
        weights = self.reference(layer, _unit_vectors(layer)).double().reshape(*sizes, -1)
        for axis in range(len(sizes)):
            nothing, something = weights.split([1, sizes[axis] - 1], axis)
            weights = torch.cat([nothing, something - nothing], axis)
        weights = weights.where(weights.abs() > 1e-12 * weights.abs().max(), 0.0)
        below = self._below(layer)
        found = _terms(weights, below).flatten(1, -2).sum(1)
        self._compare(found, self.reference(layer, below), "a sum of terms, one unit of each child")
        return weights

    def _places(self, chosen: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:
        """The number of each walk's term among all."""
        assert len(chosen) == len(sizes), f"{len(chosen)} choices for {len(sizes)} children"
        places = torch.zeros_like(chosen[0])
        for units, size in zip(chosen, sizes):
            places = places * size + units + 1
        return places


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
