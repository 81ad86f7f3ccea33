"""The conformance suites: they hold for what is right, and fail for what is wrong."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from pcgcd import HMM, FiniteAutomaton
from pcgcd.circuits import (
    PLAIN,
    BestPath,
    Circuit,
    CircuitLike,
    Dense,
    Identity,
    Incidence,
    InputLayer,
    Operator,
    ProductLayer,
    RowwiseKronecker,
    SumLayer,
)
from pcgcd.circuits.semirings import (
    BOOLEAN,
    LINEAR,
    LOG,
    MAXIMUM,
    REAL,
    Boolean,
    Counting,
    Log,
    Maximum,
    Real,
    Semiring,
)
from pcgcd.circuits.semirings.tensors import safe_log
from pcgcd.errors import CircuitTooLargeError
from pcgcd.testing import (
    CircuitLaws,
    OperatorLaws,
    SemiringLaws,
    all_strings,
    brute_force_best_path,
    brute_force_unit_posteriors,
    enumerate_values,
    partial_strings,
    run_laws,
)

F32, F64 = torch.float32, torch.float64


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# -- broken operators -------------------------------------------------------------------------

MATRIX = torch.tensor([[0.5, 0.0, 0.25], [0.0, 2.0, 0.0], [1.0, 0.75, 0.0]])


class WrongTranspose(Dense):
    def rmatvec(self, x, semiring=LINEAR):
        return semiring.matmul(x, self.weights)


class ClampedInputs(Dense):
    def matvec(self, x, semiring=LINEAR):
        plain = semiring.to_log(x).exp().clamp(min=1e-30)
        return semiring.matmul(semiring.lift(plain), self.weights)


class FalseZeros(Dense):
    def matvec(self, x, semiring=LINEAR):
        return semiring.matmul(x, self.weights, positive=True)


class RowsOffByOne(Dense):
    def rows(self, index, semiring=LINEAR):
        return super().rows((index + 1) % self.shape[0], semiring)


class ColumnsNotTransposed(Dense):
    def columns(self, index, semiring=LINEAR):
        return self.rows(index, semiring)


class AveragedTotal(Dense):
    def total(self, semiring=LINEAR):
        third = semiring.lift(torch.full((1, 1), 0.25))
        return semiring.mul(super().total(semiring), third)


class WrongSelection(Dense):
    def selection(self, rows):
        return rows


class WrongFactors(Dense):
    @property
    def factors(self):
        return (self, self)


class NegativeCost(Dense):
    @property
    def cost(self) -> int:
        return -1


class SwappedShape(Dense):
    @property
    def shape(self) -> tuple[int, int]:
        return self.weights.shape[0], self.weights.shape[0] + 1


class HalfPrecision(Dense):
    def matvec(self, x, semiring=LINEAR):
        return semiring.matmul(x, self.weights.half().to(self.weights.dtype))


class WithoutGradient(Dense):
    def matvec(self, x, semiring=LINEAR):
        return semiring.matmul(x, self.weights.detach())


class DoubledGradient(Dense):
    def rmatvec(self, x, semiring=LINEAR):
        weights = 2 * self.weights - self.weights.detach()
        return semiring.matmul(x, weights.mT)


class UndefinedGradient(Dense):
    def matvec(self, x, semiring=LINEAR):
        return semiring.matmul(x, self.weights.sqrt() ** 2)


class LosesDigitsOnTheWay(Dense):
    def to(self, device=None, dtype=None):
        return type(self)(self.weights.half().to(dtype or self.weights.dtype))


class KeepsItsType(Dense):
    def to(self, device=None, dtype=None):
        return self


class FirstRowForAll(Dense):
    def matvec(self, x, semiring=LINEAR):
        y = super().matvec(x, semiring)
        if len(semiring.shape(y)) != 2:
            return y
        return semiring.take_rows(y, torch.zeros(semiring.shape(y)[0], dtype=torch.long))


class RoundsCounts(Dense):
    def matvec(self, x, semiring=LINEAR):
        return semiring.matmul(x, self.weights.round())

    def rmatvec(self, x, semiring=LINEAR):
        return semiring.matmul(x, self.weights.round().mT)


class DenseLaws(OperatorLaws):
    kind: type[Dense] = Dense

    def create_operator(self, dtype: torch.dtype) -> Operator:
        return self.kind((MATRIX + 1 / 3 * (MATRIX > 0)).to(dtype))

    def dense_operator(self, operator: Operator) -> Tensor:
        return operator.weights


BROKEN_OPERATORS = [
    (WrongTranspose, "rmatvec_equals_transposed_product", (REAL, F64)),
    (WrongTranspose, "matvec_and_rmatvec_are_adjoint", (MAXIMUM, F32)),
    (ClampedInputs, "matvec_equals_dense_product", (REAL, F32)),
    (ClampedInputs, "zeros_stay_exact", (LOG, F64)),
    (ClampedInputs, "no_false_zeros_over_a_wide_range", (REAL, F64)),
    (FalseZeros, "no_false_zeros_over_a_wide_range", (REAL, F32)),
    (FalseZeros, "no_false_zeros_over_a_wide_range", (LOG, F64)),
    (FalseZeros, "gradients_pass_through_a_wide_range", ()),
    (RowsOffByOne, "rows_are_the_rows", (BOOLEAN, F32)),
    (ColumnsNotTransposed, "columns_are_the_columns", (LINEAR, F32)),
    (AveragedTotal, "total_is_the_sum_of_the_columns", (MAXIMUM, F32)),
    (WrongSelection, "selection_names_unit_vectors", (F32,)),
    (WrongFactors, "factors_compose_to_the_operator", (F32,)),
    (NegativeCost, "cost_is_a_number_of_multiplications", (F32,)),
    (SwappedShape, "shape_is_that_of_the_matrix", (F32,)),
    (HalfPrecision, "matvec_equals_dense_product", (LINEAR, F32)),
    (HalfPrecision, "plain_calls_keep_the_precision", (F64,)),
    (WithoutGradient, "gradients_are_the_derivatives", (LINEAR,)),
    (DoubledGradient, "gradients_are_the_derivatives", (LOG,)),
    (UndefinedGradient, "gradients_at_zeros_are_defined", (LINEAR, F32)),
    (LosesDigitsOnTheWay, "another_type_keeps_the_values", (F64,)),
    (KeepsItsType, "another_type_keeps_the_values", (F64,)),
    (FirstRowForAll, "matvec_equals_dense_product", (REAL, F64)),
    (RoundsCounts, "counting_refuses_fractional_weights", ()),
]


@pytest.mark.parametrize(("kind", "law", "arguments"), BROKEN_OPERATORS)
def test_broken_operators_break_a_law(kind: type[Dense], law: str, arguments: tuple) -> None:
    suite = type("Suite", (DenseLaws,), {"kind": kind})()
    getattr(DenseLaws(), f"test_{law}")(*arguments)
    with pytest.raises(AssertionError):
        getattr(suite, f"test_{law}")(*arguments)


def test_one_broken_method_leaves_the_other_laws_alone() -> None:
    suite = type("Suite", (DenseLaws,), {"kind": RowsOffByOne})()
    suite.test_matvec_equals_dense_product(REAL, F32)
    suite.test_rmatvec_equals_transposed_product(REAL, F32)
    suite.test_columns_are_the_columns(REAL, F32)


def test_false_zeros_show_only_over_a_wide_range() -> None:
    suite = type("Suite", (DenseLaws,), {"kind": FalseZeros})()
    suite.test_matvec_equals_dense_product(REAL, F32)
    suite.test_zeros_stay_exact(LOG, F32)


# -- broken semirings -------------------------------------------------------------------------


class ClampedLog(Log):
    def lift(self, weights):
        return weights.to(self.dtype).clamp(min=1e-30).log()


class LogOfPlainSums(Log):
    def sum(self, x):
        return safe_log(x.exp().sum(-1))


class LogWithoutRescue(Log):
    def matmul(self, x, weights, positive=False):
        return super().matmul(x, weights, positive=True)


class LogWithOneShift(Log):
    def scatter(self, x, index, size):
        shift = x.amax(-1, keepdim=True)
        total = x.new_zeros((*x.shape[:-1], size)).index_add(-1, index, (x - shift).exp())
        return safe_log(total) + shift


class RealWithoutRescue(Real):
    def matmul(self, x, weights, positive=False):
        return super().matmul(x, weights, positive=True)


class RealOfHalves(Real):
    def mul(self, x, y):
        mantissa, exponent = super().mul(x, y)
        return type(x)(mantissa.half().to(mantissa.dtype), exponent)


class ShortRange(Real):
    def mul(self, x, y):
        mantissa, exponent = super().mul(x, y)
        return type(x)(mantissa * (exponent > -1000), exponent)


class ExclusiveOr(Boolean):
    def add(self, x, y):
        return x ^ y


class SummedMaximum(Maximum):
    def scatter(self, x, index, size):
        return LOG.scatter(x, index, size)


class FloatingCounts(Counting):
    def add(self, x, y):
        return super().add(x, y) // 2**60 * 2**60 if (x > 2**60).any() else super().add(x, y)


class ReversedConcat(Log):
    def concat(self, parts):
        return super().concat(list(reversed(parts)))


class WhereTheOtherWay(Log):
    def where(self, mask, x, y):
        return super().where(mask.any(), x, y)


class GatherOffByOne(Log):
    def gather(self, x, index):
        return super().gather(x, (index + 1) % x.shape[-1])


class FixedType(Log):
    def with_dtype(self, dtype):
        return FixedType()


def semiring_suite(kind: type[Semiring]) -> SemiringLaws:
    class Suite(SemiringLaws):
        if issubclass(kind, Counting):
            elements = ((0.0, 0), (1.0, 0), (3.0, 0), (7.0, 5000))
            weights = (0.0, 1.0, 2.0)

        def create_semiring(self, dtype: torch.dtype) -> Semiring:
            return kind(dtype)

    return Suite()


BROKEN_SEMIRINGS = [
    (Log, ClampedLog, "zero_annihilates_exactly"),
    (Log, ClampedLog, "elements_are_what_they_should_be"),
    (Log, LogOfPlainSums, "sum_adds_the_last_axis_up"),
    (Log, LogOfPlainSums, "multiplication_distributes_over_addition"),
    (Log, LogWithoutRescue, "matmul_adds_products"),
    (Log, LogWithoutRescue, "matmul_with_three_axes_goes_block_by_block"),
    (Log, LogWithOneShift, "scatter_adds_by_target"),
    (Real, RealWithoutRescue, "matmul_adds_products"),
    (Real, RealWithoutRescue, "matmul_with_three_axes_goes_block_by_block"),
    (Real, RealOfHalves, "multiplication_means_multiplication"),
    (Real, ShortRange, "elements_are_what_they_should_be"),
    (Boolean, ExclusiveOr, "addition_means_addition"),
    (Boolean, ExclusiveOr, "lift_is_a_homomorphism"),
    (Maximum, SummedMaximum, "scatter_adds_by_target"),
    (Counting, FloatingCounts, "addition_means_addition"),
    (Log, ReversedConcat, "concat_joins_and_broadcasts"),
    (Log, WhereTheOtherWay, "where_chooses"),
    (Log, GatherOffByOne, "moving_moves_elements_only"),
    (Log, FixedType, "with_dtype_changes_the_type_alone"),
]


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize(("intact", "broken", "law"), BROKEN_SEMIRINGS)
def test_broken_semirings_break_a_law(
    intact: type[Semiring], broken: type[Semiring], law: str, dtype: torch.dtype
) -> None:
    getattr(semiring_suite(intact), f"test_{law}")(dtype)
    with pytest.raises(AssertionError):
        getattr(semiring_suite(broken), f"test_{law}")(dtype)


# -- operators that implement what they must, and no more -------------------------------------


class Pair(NamedTuple):
    """Two operators with a name for each, as an attribute may be."""

    first: Operator
    second: Operator


class Minimal(Operator):
    """``scale * (first + permuted second)``: a tensor, an index, and operators in a tuple."""

    def __init__(self, scale: Tensor, order: Tensor, pair: Pair) -> None:
        self.scale, self.order, self.pair = scale, order, pair

    @property
    def shape(self) -> tuple[int, int]:
        return self.pair.first.shape

    def matvec(self, x, semiring=PLAIN):
        second = semiring.gather(self.pair.second.matvec(x, semiring), self.order)
        total = semiring.add(self.pair.first.matvec(x, semiring), second)
        return semiring.mul(total, semiring.lift(self.scale))

    def rmatvec(self, x, semiring=PLAIN):
        x = semiring.mul(x, semiring.lift(self.scale))
        permuted = semiring.scatter(x, self.order, len(self.order))
        second = self.pair.second.rmatvec(permuted, semiring)
        return semiring.add(self.pair.first.rmatvec(x, semiring), second)


class TestMinimalOperator(OperatorLaws):
    def create_operator(self, dtype: torch.dtype) -> Operator:
        one, two = (torch.rand(3, 4, generator=seeded(seed), dtype=dtype) for seed in (0, 1))
        one[1], two[:, 2] = 0, 0
        scale = torch.tensor([0.5, 1.5, 2.0], dtype=dtype)
        return Minimal(scale, torch.tensor([2, 0, 1]), Pair(Dense(one), Dense(two)))

    def dense_operator(self, operator: Operator) -> Tensor:
        assert isinstance(operator, Minimal)
        one, two = (part.weights for part in operator.pair)
        return operator.scale[:, None] * (one + two[operator.order])

    def heaviest_terms(self, operator: Operator) -> Tensor:
        assert isinstance(operator, Minimal)
        one, two = (part.weights for part in operator.pair)
        return operator.scale[:, None] * torch.maximum(one, two[operator.order])


def test_type_device_gradient_and_moving_follow_from_the_attributes() -> None:
    operator = TestMinimalOperator().create_operator(F32)
    assert operator.parts == (operator.pair.first, operator.pair.second)
    assert [id(t) for t in operator.tensors] == [id(operator.scale), id(operator.order)]
    assert (operator.dtype, operator.device) == (F32, torch.device("cpu"))
    assert not operator.requires_grad
    operator.pair.second.weights.requires_grad_()
    assert operator.requires_grad
    moved = operator.to(dtype=F64)
    assert moved.scale.dtype == moved.pair.first.weights.dtype == F64
    assert moved.order.dtype == torch.int64
    assert isinstance(moved.pair, Pair)
    assert operator.to("meta").pair.second.device == operator.to("meta").order.device
    assert operator.to("meta").device == torch.device("meta")
    mixed = Minimal(operator.scale.double(), operator.order, operator.pair)
    assert mixed.dtype == F64, "the widest type"
    assert Identity(3).to("meta", F64) == Identity(3)


def test_what_was_cached_is_not_moved() -> None:
    left, right = Dense(torch.rand(2, 5)), Dense(torch.rand(3, 5))
    product = RowwiseKronecker(left, right)
    before = product.total(REAL).mantissa
    moved = product.to(dtype=F64)
    assert moved.total(REAL.with_dtype(F64)).mantissa.dtype == F64
    assert product.total(REAL).mantissa is before


@pytest.mark.parametrize("missing", ["shape", "matvec", "rmatvec"])
def test_an_operator_without_a_member_cannot_be_made(missing: str) -> None:
    members = {name: getattr(Minimal, name) for name in ("shape", "matvec", "rmatvec")}
    del members[missing]
    with pytest.raises(TypeError, match=rf"abstract.*{missing}"):
        type("Lacking", (Operator,), members)()


# -- circuits ---------------------------------------------------------------------------------


def automaton(ambiguous: bool = False) -> FiniteAutomaton:
    """Some 0s, then a 1 or a 2, then a tail; with a shortcut, some strings in two ways."""
    shortcut = [(0, 2, {1})] if ambiguous else []
    edges = [(0, 0, {0}), (0, 1, {1, 2}), (1, 2, {0, 1}), (2, 2, {0}), *shortcut]
    return FiniteAutomaton.from_edges(
        num_states=3, vocab_size=3, initial=0, accepting={1, 2}, edges=edges
    )


class TestHMM(CircuitLaws):
    def create_circuit(self) -> CircuitLike:
        return HMM.random(2, 3, generator=seeded(), dtype=F64)

    def reference_log_value(self, strings: Tensor) -> Tensor:
        hmm = self.create_circuit()
        alpha = hmm.initial * hmm.emission[:, strings[:, 0]].T
        for token in strings[:, 1:].T:
            alpha = alpha @ hmm.transition * hmm.emission[:, token].T
        return alpha.sum(1).log()


class TestAmbiguousAutomaton(CircuitLaws):
    length = 4

    def create_circuit(self) -> CircuitLike:
        return automaton(ambiguous=True)


class TestProductWithAutomaton(CircuitLaws):
    def create_circuit(self) -> CircuitLike:
        return HMM.random(2, 3, generator=seeded()) * automaton(ambiguous=True)


class TestMixture(CircuitLaws):
    def create_circuit(self) -> CircuitLike:
        hmm = HMM.random(2, 3, generator=seeded(1))
        return 0.3 * HMM.random(3, 3, generator=seeded()) + 2.0 * (hmm * automaton())


class TestSharedLayers(CircuitLaws):
    """A graph that is no tree: two products share an input layer."""

    length = 2

    def create_circuit(self) -> CircuitLike:
        first, second, third = (
            InputLayer(variable, Dense(torch.rand(2, 3, generator=seeded(seed)) + 0.1))
            for seed, variable in enumerate((0, 1, 1))
        )
        products = [ProductLayer(first, second), ProductLayer(first, third)]
        weights = [Dense(torch.tensor([[0.2, 0.5]])), Dense(torch.tensor([[0.7, 0.0]]))]
        return Circuit(SumLayer(products, weights))


class TestUnrolledOneStep(CircuitLaws):
    length = 1

    def create_circuit(self) -> CircuitLike:
        return HMM.random(2, 3, generator=seeded()).unroll(1)


# -- broken circuits --------------------------------------------------------------------------


class UnnormalisedNextToken(HMM):
    def next_token_log_probs(self, prefix, length=None):
        return super().next_token_log_probs(prefix, length) + 0.01


class NextTokenOfTheShorterString(HMM):
    """Normalised, but looks one token too early."""

    def next_token_log_probs(self, prefix, length=None):
        return super().next_token_log_probs(prefix[:, :-1], length)


class ScaledPartition(HMM):
    def log_partition(self, length=None):
        return super().log_partition(length) + 0.01


class MissingIsZero(HMM):
    def log_marginal(self, x, length=None):
        return super().log_marginal(x.clamp(min=0), length)


class MarginalsIgnoreTheLength(HMM):
    def log_marginal(self, x, length=None):
        found = super().log_marginal(x, length)
        return found if x.shape[1] == length or length is None else found - 0.01


class JointForConditional(HMM):
    def log_conditional(self, x, evidence, length=None):
        return self.log_marginal(torch.where(evidence < 0, x, evidence), length)


class MarginalsWithoutEvidence(HMM):
    def token_marginals(self, evidence, length=None):
        return super().token_marginals(torch.full_like(evidence, -1), length)


class CountsOfHalf(HMM):
    def expected_token_counts(self, evidence, length=None):
        return super().expected_token_counts(evidence, length) / 2


class PosteriorsOfTheOtherUnit(HMM):
    def unit_posteriors(self, evidence, length=None):
        return [p.flip(-1) for p in super().unit_posteriors(evidence, length)]


class UnnormalisedPosteriors(HMM):
    def unit_posteriors(self, evidence, length=None):
        return [2 * p for p in super().unit_posteriors(evidence, length)]


class UniformSamples(HMM):
    def sample(self, num_samples, length=None, *, evidence=None, generator=None):
        if evidence is None:
            return torch.randint(3, (num_samples, length), generator=generator)
        drawn = torch.randint(3, (len(evidence), num_samples, 3), generator=generator)
        return torch.where(evidence[:, None] < 0, drawn, evidence[:, None])


class SamplesWithoutEvidence(HMM):
    def sample(self, num_samples, length=None, *, evidence=None, generator=None):
        if evidence is None:
            return super().sample(num_samples, length, generator=generator)
        drawn = super().sample(num_samples * len(evidence), 3, generator=generator)
        return drawn.reshape(len(evidence), num_samples, 3)


class HeavyPath(HMM):
    def best_path(self, evidence, length=None):
        tokens, units, log_weight = super().best_path(evidence, length)
        return BestPath(tokens, units, log_weight + 100)


class PathOfAnotherString(HMM):
    def best_path(self, evidence, length=None):
        tokens, units, log_weight = super().best_path(evidence, length)
        return BestPath((tokens + 1) % 3, units, log_weight - 100)


class AlwaysPossible(HMM):
    def value(self, x, semiring=REAL):
        value = super().value(x, semiring)
        return torch.ones_like(value) if semiring == BOOLEAN else value


class UnderflowingLog(HMM):
    def value(self, x, semiring=REAL):
        value = super().value(x, semiring)
        return value.clamp(min=-3) if semiring == LOG else value


class TypeChangesValues(HMM):
    def to(self, device=None, dtype=None):
        return super().to(device, dtype) * super().to(device, dtype)


class UnnormalisedProbabilities(HMM):
    def log_prob(self, x):
        return super().log_prob(x) - 0.01


class ForgivesImpossibleEvidence(HMM):
    def token_marginals(self, evidence, length=None):
        return torch.zeros(len(evidence), 3, 3)


class HMMLaws(CircuitLaws):
    """An HMM in which the token 0 can only be first."""

    kind: type[HMM] = HMM

    def create_circuit(self) -> CircuitLike:
        return self.kind(
            torch.tensor([0.3, 0.7, 0.0]),
            torch.tensor([[0.0, 0.8, 0.2], [0.0, 0.4, 0.6], [0.0, 0.1, 0.9]]),
            torch.tensor([[0.6, 0.2, 0.2], [0.0, 0.3, 0.7], [0.0, 0.9, 0.1]]),
            validate=False,
        )

    def reference_log_value(self, strings: Tensor) -> Tensor:
        return enumerate_values(HMMLaws().create_circuit(), self.length).log_values


class WrongValues(HMM):
    def log_value(self, x):
        return super().log_value(x.flip(1))


BROKEN_CIRCUITS = [
    (WrongValues, "value_equals_the_reference"),
    (WrongValues, "value_follows_the_definition"),
    (UnderflowingLog, "values_agree_in_every_semiring"),
    (AlwaysPossible, "boolean_value_is_the_support"),
    (ScaledPartition, "partition_is_the_sum_of_the_values"),
    (UnnormalisedProbabilities, "probabilities_sum_to_one"),
    (TypeChangesValues, "another_type_keeps_the_values"),
    (MissingIsZero, "marginals_of_all_partial_strings"),
    (MarginalsIgnoreTheLength, "tokens_past_the_end_are_missing"),
    (JointForConditional, "conditionals_of_pairs_of_partial_strings"),
    (UnnormalisedNextToken, "next_tokens_after_all_prefixes"),
    (NextTokenOfTheShorterString, "next_tokens_after_all_prefixes"),
    (MarginalsWithoutEvidence, "token_marginals_given_all_evidence"),
    (CountsOfHalf, "token_marginals_given_all_evidence"),
    (PosteriorsOfTheOtherUnit, "unit_posteriors_sum_to_one"),
    (UnnormalisedPosteriors, "unit_posteriors_sum_to_one"),
    (ForgivesImpossibleEvidence, "impossible_evidence_is_refused"),
    (UniformSamples, "samples_follow_the_distribution"),
    (UniformSamples, "samples_given_evidence_follow_the_conditional"),
    (SamplesWithoutEvidence, "samples_given_evidence_follow_the_conditional"),
    (HeavyPath, "best_path_is_a_path"),
    (PathOfAnotherString, "best_path_is_a_path"),
]


@pytest.mark.parametrize(("kind", "law"), BROKEN_CIRCUITS)
def test_broken_circuits_break_a_law(kind: type[HMM], law: str) -> None:
    getattr(HMMLaws(), f"test_{law}")()
    suite = type("Suite", (HMMLaws,), {"kind": kind})()
    with pytest.raises(AssertionError):
        getattr(suite, f"test_{law}")()


def test_slightly_wrong_samples_are_noticed() -> None:
    class Biased(HMM):
        def sample(self, num_samples, length=None, *, evidence=None, generator=None):
            drawn = super().sample(num_samples, length, generator=generator)
            drawn[: num_samples // 20] = torch.tensor([0, 2, 2])
            return drawn

    suite = type("Suite", (HMMLaws,), {"kind": Biased})()
    with pytest.raises(AssertionError, match="do not follow the distribution"):
        suite.test_samples_follow_the_distribution()


# -- the oracles ------------------------------------------------------------------------------


def test_all_strings_are_all_different_and_in_order() -> None:
    strings = all_strings(3, 4)
    assert strings.shape == (81, 4)
    assert strings.unique(dim=0).equal(strings)
    assert all_strings(5, 0).shape == (1, 0)
    assert partial_strings(2, 3).shape == (27, 3)


def test_too_many_strings_are_refused_with_their_number() -> None:
    with pytest.raises(CircuitTooLargeError, match=r"10\*\*9 = 1,000,000,000 strings"):
        all_strings(10, 9)
    assert len(all_strings(2, 21, limit=2**21)) == 2**21


def test_a_world_counts_by_hand() -> None:
    # 1 and 2 end the zeros: 01, 02, 10, 11, 20, 21 of the nine strings of two tokens.
    world = enumerate_values(automaton(), 2)
    strings = world.strings[world.support].tolist()
    assert strings == [[0, 1], [0, 2], [1, 0], [1, 1], [2, 0], [2, 1]]
    assert world.log_partition.item() == pytest.approx(math.log(6))
    first = world.next_token_log_probs(torch.zeros(1, 0, dtype=torch.long)).exp()
    assert first.tolist() == [pytest.approx([1 / 3, 1 / 3, 1 / 3])]
    evidence = torch.tensor([[-1, 1], [0, -1]])
    assert world.log_marginal(evidence).exp().tolist() == pytest.approx([1 / 2, 1 / 3])
    conditional = world.log_conditional(torch.tensor([[0, -1]]), torch.tensor([[-1, 1]]))
    assert conditional.exp().item() == pytest.approx(1 / 3)
    marginals = world.token_marginals(torch.tensor([[-1, 1]]))[0]
    assert marginals.tolist() == [pytest.approx([1 / 3] * 3), pytest.approx([0, 1, 0])]
    counts = world.expected_token_counts(torch.tensor([[-1, -1]]))
    assert counts.tolist() == [pytest.approx([4 / 6, 5 / 6, 3 / 6])]


def test_brute_force_paths_follow_the_definition() -> None:
    hmm = HMM(
        torch.tensor([0.9, 0.1]),
        torch.tensor([[0.9, 0.1], [0.5, 0.5]]),
        torch.tensor([[0.8, 0.2], [0.1, 0.9]]),
    )
    best = brute_force_best_path(hmm, torch.tensor([[1, 1], [-1, 0]]))
    # 00: .9*.2*.9*.2, 01: .9*.2*.1*.9, 10: .1*.9*.5*.2, 11: .1*.9*.5*.9
    assert best.units.tolist() == [[1, 1], [0, 0]]
    assert best.tokens.tolist() == [[1, 1], [0, 0]]
    expected = [0.1 * 0.9 * 0.5 * 0.9, 0.9 * 0.8 * 0.9 * 0.8]
    assert best.log_weight.exp().tolist() == pytest.approx(expected)
    weights = torch.tensor([0.0324, 0.0162, 0.009, 0.0405])
    posterior = brute_force_unit_posteriors(hmm, torch.tensor([[1, 1]]))
    first = float((weights[0] + weights[1]) / weights.sum())
    assert posterior[0, 0].tolist() == pytest.approx([first, 1 - first], rel=1e-5)


# -- how the suites are used ------------------------------------------------------------------


class Metafunc:
    """What pytest passes to ``pytest_generate_tests``."""

    def __init__(self, *names: str) -> None:
        self.fixturenames = names
        self.found: dict[str, list] = {}

    def parametrize(self, name: str, values: list, ids: list[str]) -> None:
        self.found[name] = list(ids)


def test_counting_is_left_out_where_weights_are_fractional() -> None:
    class WholeLaws(DenseLaws):
        def create_operator(self, dtype: torch.dtype) -> Operator:
            return Incidence(torch.arange(2), torch.tensor([1, 0]), (2, 2))

        def dense_operator(self, operator: Operator) -> Tensor:
            return torch.eye(2).flip(0)

    for laws, counted in ((DenseLaws(), False), (WholeLaws(), True)):
        metafunc = Metafunc("semiring", "dtype")
        laws.pytest_generate_tests(metafunc)
        assert ("Counting" in metafunc.found["semiring"]) == counted
        assert metafunc.found["dtype"] == ["float32", "float64"]


@pytest.mark.parametrize("laws", [OperatorLaws, SemiringLaws])
def test_what_must_be_implemented_says_so(laws: type) -> None:
    create = getattr(laws(), "create_operator", None) or laws().create_semiring
    with pytest.raises(NotImplementedError, match="to be tested"):
        create(F32)
    with pytest.raises(NotImplementedError, match="to be tested"):
        CircuitLaws().create_circuit()


def test_importing_the_suites_needs_no_test_package() -> None:
    code = "import sys, pcgcd.testing; print({'pytest', 'hypothesis'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "set()", result.stderr


def test_laws_run_without_pytest() -> None:
    """All of them, for every type and semiring; the first that does not hold is raised."""

    class TestRight(DenseLaws):
        dtypes = (F32,)
        batch_shapes = ((),)

    class TestWrong(TestRight):
        kind = RowsOffByOne

    laws = [name for name in dir(TestRight) if name.startswith("test_")]
    assert run_laws(TestRight) > len(laws)
    with pytest.raises(AssertionError, match="rows"):
        run_laws(TestWrong)
