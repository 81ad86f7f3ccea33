"""Layers of a user's own: the laws hold for those that are right, and fail for the others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from pcgcd.circuits import (
    Circuit,
    Dense,
    Identity,
    InputLayer,
    Layer,
    Operator,
    ProductLayer,
    SumLayer,
    is_decomposable,
    is_smooth,
    product_rule,
)
from pcgcd.circuits.semirings import LOG, Maximum
from pcgcd.errors import InvalidParameterError, StructuralPropertyError
from pcgcd.testing import LayerLaws

F64 = torch.float64


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class CPLayer(Layer):
    """``sum_r W[k, r] a[r] b[r]``: a sum over a product in one layer."""

    def __init__(self, left: Layer, right: Layer, weights: Operator) -> None:
        self.children = (left, right)
        self.weights = weights

    @property
    def num_units(self) -> int:
        return self.weights.shape[0]

    @property
    def operators(self) -> tuple[Operator, ...]:
        return (self.weights,)

    def up(self, below, semiring):
        return self.weights.matvec(semiring.mul(*below), semiring)

    def down(self, flow, below, semiring):
        share = self.weights.rmatvec(flow, semiring)
        return [semiring.mul(share, below[1]), semiring.mul(share, below[0])]

    @property
    def down_needs_values(self) -> bool:
        return True

    def rebuilt(self, children, operator_map):
        return type(self)(*children, operator_map(self.weights))

    def trace(self, units, below, semiring, choose):
        rows = self.weights.rows(units, semiring)
        term = choose(semiring.mul(rows, semiring.mul(*below)))
        return [term, term]


@product_rule(CPLayer, CPLayer)
def multiply_cp_layers(a, b, run):
    left = yield a.children[0], b.children[0]
    right = yield a.children[1], b.children[1]
    return CPLayer(left, right, run.kronecker(a.weights, b.weights))


class CPLaws(LayerLaws):
    length = 2
    num_samples = 5000
    kind: type[CPLayer] = CPLayer

    def create_layer(self) -> Layer:
        generator = seeded()
        numbers = torch.rand(2, 3, 3, generator=generator, dtype=F64) ** 4
        inputs = [InputLayer(v, Dense(numbers[v])) for v in (0, 1)]
        weights = torch.rand(2, 3, generator=generator, dtype=F64)
        weights[0, 1] = 0
        return self.kind(*inputs, Dense(weights))

    def reference(self, layer: Layer, below: Sequence[Tensor]) -> Tensor:
        (weights,) = layer.operators
        return torch.einsum("br,br,kr->bk", *below, weights.weights.double())


class TestCPLayer(CPLaws):
    """A layer of a user's own: the laws of circuits hold for it, too."""


class TestSumLayer(LayerLaws):
    length = 1

    def create_layer(self) -> Layer:
        inputs = [InputLayer(0, Dense(torch.rand(k, 3, generator=seeded(k)))) for k in (2, 3)]
        weights = [torch.rand(2, k, generator=seeded(k + 10)) for k in (2, 3)]
        weights[0][1] = 0
        return SumLayer(inputs, [Dense(w) for w in weights])

    def reference(self, layer: Layer, below: Sequence[Tensor]) -> Tensor:
        return sum(v @ w.weights.double().T for v, w in zip(below, layer.operators))


class TestProductLayer(LayerLaws):
    def create_layer(self) -> Layer:
        inputs = [InputLayer(v, Dense(torch.rand(2, 3, generator=seeded(v)))) for v in range(3)]
        return ProductLayer(*inputs)

    def reference(self, layer: Layer, below: Sequence[Tensor]) -> Tensor:
        return below[0] * below[1] * below[2]


class ForgetsAFactor(CPLayer):
    def up(self, below, semiring):
        return self.weights.matvec(below[0], semiring)


class SwappedFlows(CPLayer):
    def down(self, flow, below, semiring):
        return super().down(flow, below, semiring)[::-1]


class ClampedUp(CPLayer):
    """Zeros become small numbers."""

    def up(self, below, semiring):
        return super().up(
            [semiring.add(v, semiring.lift(torch.tensor(1e-7))) for v in below], semiring
        )


class SumInPlaceOfMaximum(CPLayer):
    def up(self, below, semiring):
        if isinstance(semiring, Maximum):
            log = LOG.with_dtype(semiring.dtype)
            return super().up(below, log)
        return super().up(below, semiring)


class IndependentChoices(CPLayer):
    """Each child's unit is drawn by itself."""

    def trace(self, units, below, semiring, choose):
        rows = self.weights.rows(units, semiring)
        terms = semiring.mul(rows, semiring.mul(*below))
        return [choose(terms), choose(terms)]


class ChoosesByWeightAlone(CPLayer):
    """As if all the children's values were one."""

    def trace(self, units, below, semiring, choose):
        term = choose(self.weights.rows(units, semiring))
        return [term, term]


class OneChoiceForAll(CPLayer):
    def trace(self, units, below, semiring, choose):
        rows = self.weights.rows(units[:1], semiring)
        term = choose(semiring.mul(rows, semiring.mul(*below))).expand(len(units))
        return [term, term]


class KeepsItsOperators(CPLayer):
    def rebuilt(self, children, operator_map):
        return type(self)(*children, self.weights)


class WrongScope(CPLayer):
    @property
    def scope(self):
        return self.children[0].scope


class SquaresOfTheFirst(CPLayer):
    """Multiplied by a wrong rule."""


@product_rule(SquaresOfTheFirst, SquaresOfTheFirst)
def multiply_wrongly(a, b, run):
    left = yield a.children[0], b.children[0]
    right = yield a.children[1], a.children[1]
    return CPLayer(left, right, run.kronecker(a.weights, b.weights))


BROKEN_LAYERS = [
    (ForgetsAFactor, "up_equals_the_reference"),
    (ForgetsAFactor, "value_equals_the_reference"),
    (SwappedFlows, "down_is_the_derivative"),
    (SwappedFlows, "next_tokens_after_all_prefixes"),
    (ClampedUp, "up_finds_what_is_possible"),
    (ClampedUp, "up_equals_the_reference"),
    (SumInPlaceOfMaximum, "up_finds_the_heaviest_term"),
    (IndependentChoices, "trace_chooses_terms_by_their_weight"),
    (ChoosesByWeightAlone, "trace_chooses_terms_by_their_weight"),
    (ChoosesByWeightAlone, "samples_follow_the_distribution"),
    (ChoosesByWeightAlone, "best_trace_is_the_heaviest_term"),
    (OneChoiceForAll, "trace_chooses_terms_by_their_weight"),
    (KeepsItsOperators, "rebuilt_maps_every_operator"),
    (WrongScope, "units_and_scope_are_those_of_the_layer"),
    (SquaresOfTheFirst, "products_are_pointwise"),
]


@pytest.mark.parametrize(("kind", "law"), BROKEN_LAYERS)
def test_broken_layers_break_a_law(kind: type[CPLayer], law: str) -> None:
    getattr(CPLaws(), f"test_{law}")()
    suite = type("Suite", (CPLaws,), {"kind": kind})()
    with pytest.raises(AssertionError):
        getattr(suite, f"test_{law}")()


def test_a_layer_without_a_trace_is_told_what_to_implement() -> None:
    class Untraced(CPLayer):
        trace = Layer.trace

    circuit = type("Suite", (CPLaws,), {"kind": Untraced})().create_circuit()
    with pytest.raises(StructuralPropertyError, match=r"implement Untraced\.trace"):
        circuit.sample(1)
    with pytest.raises(StructuralPropertyError, match=r"implement Untraced\.trace"):
        circuit.best_path(torch.tensor([[0, 0]]))
    assert circuit.log_partition().isfinite()

    class Short(CPLayer):
        def trace(self, units, below, semiring, choose):
            return super().trace(units, below, semiring, choose)[:1]

    circuit = type("Suite", (CPLaws,), {"kind": Short})().create_circuit()
    with pytest.raises(InvalidParameterError, match="each of the 2 children, but returned 1"):
        circuit.sample(1)


def test_a_layer_of_an_unknown_kind_is_shown_and_checked() -> None:
    circuit = CPLaws().create_circuit()
    assert "CPLayer" in str(circuit)
    assert "CPLayer" in circuit._repr_svg_()
    assert is_smooth(circuit)
    assert is_decomposable(circuit)
    coin = Dense(torch.ones(1, 2, dtype=F64))
    x, y = InputLayer(0, coin), InputLayer(1, coin)
    overlapping = Circuit(CPLayer(ProductLayer(x, y), y, Identity(1)))
    assert not is_decomposable(overlapping)
    with pytest.raises(StructuralPropertyError, match="overlapping scopes"):
        overlapping.log_partition()


def test_a_layer_without_its_members_says_which() -> None:
    with pytest.raises(TypeError, match=r"abstract.*rebuilt"):
        type("Lacking", (Layer,), {"num_units": 1, "up": None, "down": None})()

    class Childless(CPLayer):
        def __init__(self) -> None:
            self.weights = Identity(1)

    with pytest.raises(InvalidParameterError, match=r"no children: set `self\.children`"):
        Circuit(Childless())
