"""The laws of semirings, to be inherited by the tests of each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pcgcd.circuits.semirings import Log, Maximum, Semiring
from pcgcd.testing.exact import (
    Exact,
    assert_same_elements,
    exact,
    exact_power,
    exact_sum,
    log_of,
    powers_of_two,
)

__all__ = ["SemiringLaws"]


class SemiringLaws:
    """What every :class:`pcgcd.circuits.semirings.Semiring` must satisfy.

    Inherit from it in a test class whose name starts with ``Test``, and say what the semiring is;
    pytest does the rest. Without pytest, use :func:`run_laws`. Elements are compared with
    exact fractions.

    >>> from pcgcd.circuits.semirings import LOG
    >>> class TestLog(SemiringLaws):
    ...     def create_semiring(self, dtype):
    ...         return LOG.with_dtype(dtype)
    >>> TestLog().test_multiplication_distributes_over_addition(torch.float32)

    Attributes:
        elements: The elements that the laws are checked on, as pairs (value, exponent) for
            ``value * 2 ** exponent``. The exponents may be far outside the floating range; narrow
            them for a semiring that has no room for that.
        weights: The real weights that elements are multiplied with.
        dtypes: The floating types.
    """

    elements: Sequence[tuple[float, int]] = (
        (0.0, 0),
        (1.0, 0),
        (0.3, 0),
        (3.0, 0),
        (1e-37, 0),
        (1e37, 0),
        (0.7, -140),
        (0.7, -1100),
        (0.9, -5000),
        (1.1, 5000),
    )
    weights: Sequence[float] = (0.0, 1.0, 0.25, 3.0, 1e-30)
    dtypes: Sequence[torch.dtype] = (torch.float32, torch.float64)

    # -- to be implemented --------------------------------------------------------------------

    def create_semiring(self, dtype: torch.dtype) -> Semiring[Any]:
        """The semiring in the given floating type."""
        raise NotImplementedError("return the semiring to be tested")

    def lift_exactly(self, semiring: Semiring[Any], values: Tensor, exponents: Tensor) -> Exact:
        """The numbers that ``values * 2 ** exponents`` become: themselves, or truth values."""
        return exact_power(values, exponents, semiring)

    def add_exactly(self, semiring: Semiring[Any], terms: Exact) -> Exact:
        """What the sum over the last axis means: a sum, or a maximum."""
        return exact_sum(terms, semiring)

    # -- the axioms ---------------------------------------------------------------------------

    def test_elements_are_what_they_should_be(self, dtype: torch.dtype) -> None:
        """``lift`` and ``to_log`` invert each other, up to the rounding of a logarithm."""
        semiring, x, numbers = self._elements(dtype)
        assert_same_elements(semiring, x, numbers, "the elements")
        logs = torch.tensor([log_of(number) for number in numbers], dtype=torch.float64)
        eps = torch.finfo(dtype).eps
        found = semiring.to_log(x).double()
        torch.testing.assert_close(found, logs, rtol=64 * eps, atol=64 * eps)

    def test_addition_means_addition(self, dtype: torch.dtype) -> None:
        """``add`` gives the right number for all pairs of elements."""
        semiring, x, numbers = self._elements(dtype)
        left, right = self._columns(semiring, x), self._rows(semiring, x)
        pairs = np.stack(np.broadcast_arrays(numbers[:, None], numbers), axis=-1)
        expected = self.add_exactly(semiring, pairs)
        assert_same_elements(semiring, semiring.add(left, right), expected, "a + b")

    def test_multiplication_means_multiplication(self, dtype: torch.dtype) -> None:
        """``mul`` gives the right number for all pairs of elements."""
        semiring, x, numbers = self._elements(dtype)
        product = semiring.mul(self._columns(semiring, x), self._rows(semiring, x))
        assert_same_elements(semiring, product, numbers[:, None] * numbers, "a * b")

    def test_addition_is_a_commutative_monoid(self, dtype: torch.dtype) -> None:
        """``a + b = b + a``, ``(a + b) + c = a + (b + c)``, ``a + 0 = a`` exactly."""
        semiring, a, b, c = self._triples(dtype)
        add = semiring.add
        self._assert_equal(semiring, add(a, b), add(b, a), "a + b = b + a")
        left, right = add(add(a, b), c), add(a, add(b, c))
        self._assert_equal(semiring, left, right, "(a + b) + c = a + (b + c)")
        zero = semiring.lift(torch.zeros(1, 1, 1))
        self._assert_identical(semiring, add(a, zero), a, "a + 0 = a")

    def test_multiplication_is_a_commutative_monoid(self, dtype: torch.dtype) -> None:
        """``a b = b a``, ``(a b) c = a (b c)``, ``a 1 = a`` exactly."""
        semiring, a, b, c = self._triples(dtype)
        mul = semiring.mul
        self._assert_equal(semiring, mul(a, b), mul(b, a), "a b = b a")
        self._assert_equal(semiring, mul(mul(a, b), c), mul(a, mul(b, c)), "(a b) c = a (b c)")
        one = semiring.lift(torch.ones(1, 1, 1))
        self._assert_identical(semiring, mul(a, one), a, "a 1 = a")

    def test_multiplication_distributes_over_addition(self, dtype: torch.dtype) -> None:
        """``a (b + c) = a b + a c``."""
        semiring, a, b, c = self._triples(dtype)
        left = semiring.mul(a, semiring.add(b, c))
        right = semiring.add(semiring.mul(a, b), semiring.mul(a, c))
        self._assert_equal(semiring, left, right, "a (b + c) = a b + a c")

    def test_zero_annihilates_exactly(self, dtype: torch.dtype) -> None:
        """``0 a`` is zero however large a is, sums of zeros are zero, and nothing else is."""
        semiring, x, numbers = self._elements(dtype)
        zero = semiring.lift(torch.zeros(1))
        for product in (semiring.mul(zero, x), semiring.mul(x, zero), semiring.mul(zero, zero)):
            assert bool(torch.isneginf(semiring.to_log(product)).all()), "0 a is not zero"
        total = semiring.sum(semiring.mul(zero, x))
        assert bool(torch.isneginf(semiring.to_log(total))), "a sum of zeros is not zero"
        found = torch.isneginf(semiring.to_log(x)).tolist()
        assert found == [not number for number in numbers], "an element is zero without reason"

    def test_lift_is_a_homomorphism(self, dtype: torch.dtype) -> None:
        """``lift`` of 0 and 1 are zero and one; it keeps products, and sums in their meaning."""
        semiring = self.create_semiring(dtype)
        # Without the smallest: the product of two of them is no float any more.
        plain = torch.tensor([w for w in self.weights if not 0 < w < 1e-9], dtype=dtype)
        bits = semiring.to_log(semiring.lift(torch.tensor([0.0, 1.0])))
        assert bits.tolist() == [float("-inf"), 0.0], f"0 and 1 have the logarithms {bits}"
        truth = semiring.to_log(semiring.lift(torch.tensor([False, True])))
        assert torch.equal(truth, bits), "false and true are not lifted to zero and one"
        lifted = semiring.lift(plain)
        left, right = self._columns(semiring, lifted), self._rows(semiring, lifted)
        whole = torch.zeros_like(plain, dtype=torch.long)
        numbers = self.lift_exactly(semiring, plain, whole)
        product = semiring.lift(plain[:, None] * plain)
        self._assert_equal(semiring, semiring.mul(left, right), product, "lift(a) lift(b)")
        pairs = np.stack(np.broadcast_arrays(numbers[:, None], numbers), axis=-1)
        expected = self.add_exactly(semiring, pairs)
        assert_same_elements(semiring, semiring.add(left, right), expected, "lift(a) + lift(b)")

    # -- sums of many terms -------------------------------------------------------------------

    def test_sum_adds_the_last_axis_up(self, dtype: torch.dtype) -> None:
        """``sum`` is ``add`` again and again, along the last axis only."""
        semiring, x, numbers = self._table(dtype)
        total = semiring.sum(x)
        assert_same_elements(semiring, total, self.add_exactly(semiring, numbers), "sum")
        columns = [self._column(semiring, x, j) for j in range(numbers.shape[-1])]
        self._assert_equal(semiring, reduce(semiring.add, columns), total, "one by one")

    def test_sums_of_vectors_are_elements(self, dtype: torch.dtype) -> None:
        """An array without axes can be added, multiplied, and read like any other."""
        semiring, x, numbers = self._elements(dtype)
        total = semiring.sum(x)
        expected = self.add_exactly(semiring, numbers)
        assert_same_elements(semiring, total, expected, "the sum of a vector")
        square = semiring.mul(total, total)
        assert_same_elements(semiring, square, np.asarray(expected * expected), "its square")
        double = semiring.add(total, total)
        pair = np.stack([expected, expected], axis=-1)
        assert_same_elements(semiring, double, self.add_exactly(semiring, pair), "its double")

    def test_matmul_adds_products(self, dtype: torch.dtype) -> None:
        """``matmul`` is ``mul`` by the lifted weights and ``add``, for weights of two axes."""
        semiring, x, numbers = self._table(dtype)
        weights = self._weights((4, numbers.shape[-1]), dtype)
        zero = torch.zeros_like(weights, dtype=torch.long)
        matrix = self.lift_exactly(semiring, weights, zero)
        y = semiring.matmul(x, weights)
        terms = matrix * numbers[..., None, :]
        assert_same_elements(semiring, y, self.add_exactly(semiring, terms), "matmul")
        wide = semiring.reshape(x, (*numbers.shape[:-1], 1, numbers.shape[-1]))
        products = semiring.mul(wide, semiring.lift(weights))
        self._assert_equal(semiring, semiring.sum(products), y, "one by one")

    def test_matmul_with_three_axes_goes_block_by_block(self, dtype: torch.dtype) -> None:
        """Each block of the weights (B, I, J) multiplies its own row of x (..., B, J)."""
        semiring, x, numbers = self._table(dtype)  # (2, 3, n)
        weights = self._weights((3, 4, numbers.shape[-1]), dtype)
        zero = torch.zeros_like(weights, dtype=torch.long)
        blocks = self.lift_exactly(semiring, weights, zero)
        terms = blocks * numbers[..., None, :]  # (2, 3, 4, n)
        expected = self.add_exactly(semiring, terms)
        assert_same_elements(semiring, semiring.matmul(x, weights), expected, "matmul by blocks")

    def test_a_promise_of_positive_weights_changes_nothing(self, dtype: torch.dtype) -> None:
        """``positive=True`` saves a check; the result is the same."""
        semiring, x, numbers = self._table(dtype)
        weights = torch.ones(2, numbers.shape[-1], dtype=dtype)
        found = semiring.matmul(x, weights, positive=True)
        self._assert_identical(semiring, found, semiring.matmul(x, weights), "positive weights")

    def test_scatter_adds_by_target(self, dtype: torch.dtype) -> None:
        """``scatter`` adds up what has one target, in any order; no term means exactly zero."""
        semiring, x, numbers = self._table(dtype)
        size = numbers.shape[-1]
        for index in ((torch.arange(size) * 7) % 4 + 1, torch.zeros(size).long()):
            y = semiring.scatter(x, index, 6)
            one_hot = exact(torch.nn.functional.one_hot(index, 6).mT)
            terms = one_hot * numbers[..., None, :]
            assert_same_elements(semiring, y, self.add_exactly(semiring, terms), "scatter")
        nothing = semiring.gather(x, torch.arange(0))
        empty = semiring.scatter(nothing, torch.arange(0), 2)
        expected = exact(torch.zeros(*numbers.shape[:-1], 2))
        assert_same_elements(semiring, empty, expected, "scatter of nothing")

    # -- moving elements ----------------------------------------------------------------------

    def test_moving_moves_elements_only(self, dtype: torch.dtype) -> None:
        """``gather``, ``take_rows``, ``swap``, ``reshape`` move elements and change none."""
        semiring, x, numbers = self._table(dtype)  # (2, 3, n)
        size = numbers.shape[-1]
        index, rows = torch.tensor([size - 1, 0, 0, 2]), torch.tensor([1, 1, 0])
        log = semiring.to_log(x)
        swapped = semiring.swap(x)
        moves: dict[str, tuple[Any, Tensor]] = {
            "gather": (semiring.gather(x, index), log[..., index]),
            "take_rows": (semiring.take_rows(x, rows), log[rows]),
            "swap": (swapped, log.mT),
            "reshape": (semiring.reshape(x, (3, 2 * size)), log.reshape(3, 2 * size)),
            "flatten": (semiring.flatten(x), log.reshape(2, 3 * size)),
            "unflatten": (semiring.unflatten(semiring.flatten(x), 3, size), log),
            "flatten after swap": (semiring.flatten(swapped), log.mT.reshape(2, 3 * size)),
        }
        for name, (moved, expected) in moves.items():
            shape = tuple(semiring.shape(moved))
            assert shape == tuple(expected.shape), f"{name} gave shape {shape}"
            assert torch.equal(semiring.to_log(moved), expected), f"{name} changed elements"

    def test_where_chooses(self, dtype: torch.dtype) -> None:
        """``where`` takes elements of one or the other, with broadcasting of all three."""
        semiring, x, numbers = self._table(dtype)
        backwards = torch.arange(numbers.shape[-1]).flip(0)
        other = semiring.gather(semiring.take_rows(x, torch.tensor([1])), backwards)  # (1, 3, n)
        for mask in (torch.tensor([True, False])[:, None, None], torch.tensor([[True]])):
            chosen = semiring.to_log(semiring.where(mask, x, other))
            expected = torch.where(mask, semiring.to_log(x), semiring.to_log(other))
            assert torch.equal(chosen, expected), "where changed elements"

    def test_concat_joins_and_broadcasts(self, dtype: torch.dtype) -> None:
        """``concat`` joins along the last axis and broadcasts the others."""
        semiring, x, _ = self._table(dtype)
        other = semiring.gather(semiring.take_rows(x, torch.tensor([1])), torch.arange(2))
        found = semiring.to_log(semiring.concat([x, other, other, x, x]))
        log, part = semiring.to_log(x), semiring.to_log(other).expand(2, 3, 2)
        expected = torch.cat([log, part, part, log, log], dim=-1)
        assert torch.equal(found, expected), "concat changed elements"

    def test_outer_is_the_kronecker_product(self, dtype: torch.dtype) -> None:
        """``outer(x, y)[i * J + j] = x[i] y[j]``."""
        semiring, x, numbers = self._elements(dtype)
        few = semiring.gather(x, torch.arange(3))
        assert_same_elements(
            semiring, semiring.outer(x, few), np.outer(numbers, numbers[:3]).ravel(), "outer"
        )

    def test_with_dtype_changes_the_type_alone(self, dtype: torch.dtype) -> None:
        """``with_dtype`` gives the same semiring in another type, equal to one made that way."""
        semiring = self.create_semiring(dtype)
        assert semiring.dtype == dtype, f"asked for {dtype}, found {semiring.dtype}"
        assert semiring.with_dtype(dtype) is semiring, "the same type gave another semiring"
        for other in self.dtypes:
            changed = semiring.with_dtype(other)
            assert changed == self.create_semiring(other), f"{changed} is another semiring"
            assert hash(changed) == hash(self.create_semiring(other)), "equal, but hashed apart"

    # -- what the laws are checked on ---------------------------------------------------------

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Run each law for every floating type."""
        if "dtype" in metafunc.fixturenames:
            metafunc.parametrize("dtype", self.dtypes, ids=[str(d)[6:] for d in self.dtypes])

    def _elements(
        self, dtype: torch.dtype, order: Tensor | None = None
    ) -> tuple[Semiring[Any], Any, Exact]:
        """The semiring, its elements (n,) or in a given order, and their exact meaning."""
        semiring = self.create_semiring(dtype)
        order = torch.arange(len(self.elements)) if order is None else order
        values = torch.tensor([value for value, _ in self.elements], dtype=dtype)[order]
        exponents = torch.tensor([exponent for _, exponent in self.elements])[order]
        x = powers_of_two(semiring, values, exponents)
        return semiring, x, self.lift_exactly(semiring, values, exponents)

    def _table(self, dtype: torch.dtype) -> tuple[Semiring[Any], Any, Exact]:
        """Elements in many orders, so that sums have largest terms everywhere: (2, 3, n)."""
        generator = torch.Generator().manual_seed(0)
        orders = [torch.randperm(len(self.elements), generator=generator) for _ in range(6)]
        table = torch.stack(orders).reshape(2, 3, -1)
        # The largest elements would hide the others: leave them out of every second row.
        largest = max(range(len(self.elements)), key=lambda i: self._size(i))
        table[:, 1] = torch.where(table[:, 1] == largest, 0, table[:, 1])
        return self._elements(dtype, table)

    def _size(self, i: int) -> tuple[int, float]:
        value, exponent = self.elements[i]
        return (exponent, value) if value else (-(10**9), 0.0)

    def _weights(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        choice = torch.randint(len(self.weights), shape, generator=generator)
        return torch.tensor(self.weights, dtype=dtype)[choice]

    def _triples(self, dtype: torch.dtype) -> tuple[Semiring[Any], Any, Any, Any]:
        """All triples of elements, on three axes."""
        semiring, x, numbers = self._elements(dtype)
        size = len(numbers)
        shapes = ((size, 1, 1), (1, size, 1), (1, 1, size))
        a, b, c = (semiring.reshape(x, shape) for shape in shapes)
        return semiring, a, b, c

    def _columns(self, semiring: Semiring[Any], x: Any) -> Any:
        return semiring.reshape(x, (semiring.shape(x)[0], 1))

    def _rows(self, semiring: Semiring[Any], x: Any) -> Any:
        return semiring.reshape(x, (1, semiring.shape(x)[0]))

    def _column(self, semiring: Semiring[Any], x: Any, j: int) -> Any:
        return semiring.reshape(semiring.gather(x, torch.tensor([j])), semiring.shape(x)[:-1])

    def _assert_equal(self, semiring: Semiring[Any], x: Any, y: Any, what: str) -> None:
        """Equal up to rounding; zeros exactly."""
        left, right = torch.broadcast_tensors(semiring.to_log(x), semiring.to_log(y))
        assert torch.equal(torch.isneginf(left), torch.isneginf(right)), f"{what}: other zeros"
        eps = torch.finfo(semiring.dtype).eps
        # Logarithms are rounded relative to the largest that takes part, which may cancel.
        largest = max(abs(exponent) for _, exponent in self.elements)
        atol = eps * (64 + (4 * largest if isinstance(semiring, Log | Maximum) else 0))
        torch.testing.assert_close(
            left, right, rtol=64 * eps, atol=atol, msg=lambda text: f"{what}: {text}"
        )

    def _assert_identical(self, semiring: Semiring[Any], x: Any, y: Any, what: str) -> None:
        left, right = torch.broadcast_tensors(semiring.to_log(x), semiring.to_log(y))
        assert torch.equal(left, right), f"{what}: expected {right}, found {left}"
