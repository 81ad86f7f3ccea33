"""Every semiring against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pcgcd.circuits import Dense, Diagonal, Incidence
from pcgcd.circuits.semirings import (
    BOOLEAN,
    COUNTING,
    LINEAR,
    LOG,
    MAXIMUM,
    REAL,
    Scaled,
    Semiring,
)
from pcgcd.errors import StructuralPropertyError
from pcgcd.testing import SemiringLaws
from pcgcd.testing.exact import assert_same_elements, exact, exact_power, exact_product


class TestReal(SemiringLaws):
    def create_semiring(self, dtype: torch.dtype) -> Semiring:
        return REAL.with_dtype(dtype)


class TestLog(SemiringLaws):
    def create_semiring(self, dtype: torch.dtype) -> Semiring:
        return LOG.with_dtype(dtype)


class TestMaximum(SemiringLaws):
    def create_semiring(self, dtype: torch.dtype) -> Semiring:
        return MAXIMUM.with_dtype(dtype)


class TestBoolean(SemiringLaws):
    def create_semiring(self, dtype: torch.dtype) -> Semiring:
        return BOOLEAN.with_dtype(dtype)


class TestCounting(SemiringLaws):
    elements = ((0.0, 0), (1.0, 0), (2.0, 0), (3.0, 0), (1e6, 0), (5.0, 64), (7.0, 5000))
    weights = (0.0, 1.0, 2.0, 3.0)

    def create_semiring(self, dtype: torch.dtype) -> Semiring:
        return COUNTING.with_dtype(dtype)


class TestLinear(SemiringLaws):
    """No protection against underflow, so nothing of unusual size."""

    elements = ((0.0, 0), (1.0, 0), (0.3, 0), (3.0, 0), (1e-8, 0), (1e8, 0), (0.7, -20))
    weights = (0.0, 1.0, 0.25, 3.0)

    def create_semiring(self, dtype: torch.dtype) -> Semiring:
        return LINEAR.with_dtype(dtype)


WIDE = [REAL, LOG]
WIDE_IDS = ["Real", "Log"]


# -- counting ---------------------------------------------------------------------------------


def test_counts_beyond_every_float_are_exact() -> None:
    branch = Dense(torch.tensor([[2.0, 1.0], [1.0, 1.0]]))
    counts = COUNTING.lift(torch.tensor([1, 1]))
    a, b = 1, 1
    for _ in range(5000):
        counts = branch.matvec(counts, COUNTING)
        a, b = 2 * a + b, a + b
    assert counts.tolist() == [a, b]
    assert a > 2**4096
    log = COUNTING.with_dtype(torch.float64).to_log(counts)
    assert log.tolist() == pytest.approx([math.log(a), math.log(b)])


def test_numbers_of_edges_are_counted_with_their_multiplicity() -> None:
    pairs = torch.tensor([0, 0, 0, 1])
    doubled = Incidence(pairs, torch.tensor([1, 1, 0, 1]), (2, 2))
    assert doubled.matvec(COUNTING.lift(torch.tensor([10, 100])), COUNTING).tolist() == [210, 100]


@pytest.mark.parametrize("weight", [0.5, 1 / 3, math.inf, math.nan])
def test_counting_refuses_weights_that_are_no_whole_numbers(weight: float) -> None:
    with pytest.raises(StructuralPropertyError, match="whole-number weights"):
        COUNTING.lift(torch.tensor([1.0, weight]))
    with pytest.raises(StructuralPropertyError, match="whole-number weights"):
        Diagonal(torch.tensor([weight])).matvec(COUNTING.lift(torch.tensor([1])), COUNTING)


def test_counting_lifts_large_whole_numbers_exactly() -> None:
    weights = torch.tensor([2.0**52, 2.0**63, 2.0**70, 1e300], dtype=torch.float64)
    assert COUNTING.lift(weights).tolist() == [2**52, 2**63, 2**70, int(1e300)]
    assert COUNTING.lift(torch.tensor([2**62, 2**63 - 1])).tolist() == [2**62, 2**63 - 1]


# -- long products ----------------------------------------------------------------------------


@pytest.mark.parametrize("semiring", WIDE, ids=WIDE_IDS)
def test_ten_thousand_factors_do_not_underflow_in_float32(semiring: Semiring) -> None:
    factors = torch.rand(10_000, generator=torch.Generator().manual_seed(0)) * 1e-4 + 1e-6
    product = semiring.lift(torch.ones(1))
    for factor in factors:
        product = semiring.mul(product, semiring.lift(factor.reshape(1)))
    expected = factors.double().log().sum()
    # The sum is near -100,000: adding ten thousand logarithms rounds each time, products do not.
    assert float(semiring.to_log(product)) == pytest.approx(float(expected), rel=1e-5)


def test_real_products_keep_their_digits_where_logarithms_cannot() -> None:
    factors = torch.rand(10_000, generator=torch.Generator().manual_seed(0)) + 1e-3
    product, expected = REAL.lift(torch.ones(1)), Fraction(1)
    for factor in factors:
        product = REAL.mul(product, REAL.lift(factor.reshape(1)))
        expected *= Fraction(float(factor))
    found = Fraction(float(product.mantissa)) * Fraction(2) ** int(product.exponent)
    # Each of 10,000 roundings is off by 2^-24 at most, and they go both ways.
    assert abs(float(found / expected) - 1) < 10_000**0.5 * 2**-22


@pytest.mark.parametrize("semiring", WIDE, ids=WIDE_IDS)
def test_a_chain_of_ten_thousand_matrices_does_not_underflow(semiring: Semiring) -> None:
    generator = torch.Generator().manual_seed(0)
    weights = torch.rand(3, 3, generator=generator) * 1e-3
    operator = Dense(weights)
    x, scaled, log_scale = semiring.lift(torch.ones(3)), torch.ones(3).double(), 0.0
    for _ in range(10_000):
        x = operator.matvec(x, semiring)
        scaled = weights.double() @ scaled
        log_scale += float(scaled.sum().log())
        scaled = scaled / scaled.sum()
    expected = scaled.log() + log_scale
    # Near -66,000 float32 has a spacing of 0.008, which the logarithms meet in every step.
    tolerance = 1e-4 if semiring is LOG else 1e-6
    torch.testing.assert_close(semiring.to_log(x).double(), expected, rtol=tolerance, atol=0.0)


def test_linear_underflows_where_real_does_not() -> None:
    small = torch.tensor([1e-30])
    assert LINEAR.mul(LINEAR.lift(small), LINEAR.lift(small)).item() == 0
    square = REAL.mul(REAL.lift(small), REAL.lift(small))
    assert REAL.to_log(square).item() == pytest.approx(-60 * math.log(10), rel=1e-6)


# -- real -------------------------------------------------------------------------------------


def test_real_goes_far_beyond_the_floating_range() -> None:
    element = REAL.lift(torch.tensor([0.5, 3.0, 0.0]))
    for _ in range(20):
        element = REAL.mul(element, element)
    n = 2**20
    found = [int(e) for e in element.exponent[:2]]
    assert found == [1 - n, math.floor(n * math.log2(3)) + 1]
    assert element.mantissa[2] == 0
    back = REAL.div(element, REAL.lift(torch.tensor([0.5, 3.0, 1.0])))
    assert_same_elements(
        REAL, REAL.mul(back, REAL.lift(torch.tensor([0.5, 3.0, 1.0]))), reference(element), "a/b*b"
    )


def reference(element: Scaled) -> np.ndarray:
    """The exact numbers that a scaled array stands for."""
    return exact_power(element.mantissa, element.exponent)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_real_mantissas_are_normalised(dtype: torch.dtype) -> None:
    info = torch.finfo(dtype)
    numbers = torch.tensor([info.max, info.tiny, 1.0, 0.75, 0.0], dtype=dtype)
    mantissa, exponent = REAL.with_dtype(dtype).lift(numbers)
    assert bool(((mantissa >= 0.5) & (mantissa < 1))[:4].all())
    assert mantissa[4] == 0
    assert torch.equal(torch.ldexp(mantissa.double(), exponent), numbers.double())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("semiring", [*WIDE, MAXIMUM], ids=[*WIDE_IDS, "Maximum"])
def test_numbers_below_the_normal_range_are_no_zeros(
    semiring: Semiring, dtype: torch.dtype
) -> None:
    info = torch.finfo(dtype)
    numbers = torch.tensor([info.tiny / 8, info.tiny * info.eps, 0.0], dtype=dtype)
    lifted = semiring.with_dtype(dtype).lift(numbers)
    assert_same_elements(semiring.with_dtype(dtype), lifted, exact(numbers), "subnormal numbers")


def test_normalised_rows_sum_to_one_and_zero_rows_stay_zero() -> None:
    exponents = torch.tensor([[-4000, -4001, -9000], [0, 0, 0]], dtype=torch.int32)
    rows = Scaled(torch.tensor([[0.5, 0.5, 0.5], [0.0, 0.0, 0.0]]), exponents)
    expected = torch.tensor([[2 / 3, 1 / 3, 0.0], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(REAL.normalised(rows), expected)


def test_small_weights_lose_no_terms() -> None:
    # The products of 2,000 small terms are below the normal range; their sum is not negligible.
    weights = torch.full((1, 2001), 1e-20)
    weights[0, 0] = torch.finfo(torch.float32).tiny
    x = torch.full((2001,), 1e-25)
    x[0] = 1.0
    expected = exact_product(exact(weights), exact(x), REAL)
    y = Dense(weights).matvec(REAL.lift(x), REAL)
    assert_same_elements(REAL, y, expected, "small weights")


@st.composite
def wide_sums(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Inputs (value and exponent) and weights, over a range that no float has."""
    size = draw(st.integers(1, 5))
    values = st.floats(0.5, 1.0, width=32) | st.just(0.0)
    row = st.lists(values, min_size=size, max_size=size)
    exponents = draw(st.lists(st.integers(-6000, 6000), min_size=size, max_size=size))
    weight = st.just(0.0) | st.floats(2.0**-126, 2.0**100, width=32)
    weights = draw(st.lists(weight, min_size=2 * size, max_size=2 * size))
    matrix = torch.tensor(weights, dtype=torch.float32).reshape(2, size)
    return torch.tensor(draw(row)), torch.tensor(exponents), matrix


@settings(max_examples=100)
@given(wide_sums())
def test_real_sums_of_products_are_exact_to_the_last_digits(
    case: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> None:
    values, exponents, weights = case
    zero = torch.where(values == 0, -(1 << 28), exponents.int())
    x = Scaled(values, zero.int())
    y = Dense(weights).matvec(x, REAL)
    expected = exact_product(exact(weights), exact_power(values, exponents), REAL)
    assert_same_elements(REAL, y, expected, "a sum of products")
