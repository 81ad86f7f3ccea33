"""The laws of semirings, to be inherited by the tests of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from pcgcd.testing.running import Laws, assert_close


class SemiringLaws(Laws):
    """What every :class:`pcgcd.circuits.semirings.Semiring` must satisfy.

    Elements are compared with exact fractions.

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
    _arguments = ("dtype",)

    def create_semiring(self, dtype: torch.dtype) -> Semiring[Any]:
        """Return the semiring in the given floating type."""
        raise NotImplementedError("return the semiring to be tested")

    def lift_exactly(self, semiring: Semiring[Any], values: Tensor, exponents: Tensor) -> Exact:
        """Return what ``values * 2 ** exponents`` become: the numbers, or truth values."""
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
        found = semiring.to_log(x).double()
        assert_close(found, logs, "the logarithms", 64 * torch.finfo(dtype).eps)

    def test_addition_means_addition(self, dtype: torch.dtype) -> None:
        """``add`` gives the right number for all pairs of elements."""
        semiring, x, numbers = self._elements(dtype)
        total = semiring.add(*self._axes(semiring, x, 2))
        self._assert_sum(semiring, total, self._pairs(numbers), "a + b")

    def test_multiplication_means_multiplication(self, dtype: torch.dtype) -> None:
        """``mul`` gives the right number for all pairs of elements."""
        semiring, x, numbers = self._elements(dtype)
        product = semiring.mul(*self._axes(semiring, x, 2))
        assert_same_elements(semiring, product, numbers[:, None] * numbers, "a * b")

    def test_addition_is_a_commutative_monoid(self, dtype: torch.dtype) -> None:
        """``a + b = b + a``, ``(a + b) + c = a + (b + c)``, ``a + 0 = a`` exactly."""
        semiring = self.create_semiring(dtype)
        self._check_monoid(semiring, semiring.add, semiring.lift(torch.zeros(1, 1, 1)), "+")

    def test_multiplication_is_a_commutative_monoid(self, dtype: torch.dtype) -> None:
        """``a b = b a``, ``(a b) c = a (b c)``, ``a 1 = a`` exactly."""
        semiring = self.create_semiring(dtype)
        self._check_monoid(semiring, semiring.mul, semiring.lift(torch.ones(1, 1, 1)), "*")

    def _check_monoid(
        self, semiring: Semiring[Any], op: Callable[[Any, Any], Any], neutral: Any, sign: str
    ) -> None:
        _, x, _ = self._elements(semiring.dtype)
        a, b, c = self._axes(semiring, x, 3)
        self._assert_equal(semiring, op(a, b), op(b, a), f"a {sign} b = b {sign} a")
        left, right = op(op(a, b), c), op(a, op(b, c))
        self._assert_equal(semiring, left, right, f"(a {sign} b) {sign} c = a {sign} (b {sign} c)")
        found = op(a, neutral)
        self._assert_moved(semiring, found, semiring.to_log(a), f"a {sign} the neutral element")

    def test_multiplication_distributes_over_addition(self, dtype: torch.dtype) -> None:
        """``a (b + c) = a b + a c``."""
        semiring, x, _ = self._elements(dtype)
        a, b, c = self._axes(semiring, x, 3)
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
        bits = semiring.to_log(semiring.lift(torch.tensor([0.0, 1.0])))
        assert bits.tolist() == [float("-inf"), 0.0], f"0 and 1 have the logarithms {bits}"
        truth = semiring.to_log(semiring.lift(torch.tensor([False, True])))
        assert torch.equal(truth, bits), "false and true are not lifted to zero and one"
        # Without the smallest: the product of two of them is no float any more.
        plain = torch.tensor([w for w in self.weights if not 0 < w < 1e-9], dtype=dtype)
        left, right = self._axes(semiring, semiring.lift(plain), 2)
        product = semiring.lift(plain[:, None] * plain)
        self._assert_equal(semiring, semiring.mul(left, right), product, "lift(a) lift(b)")
        pairs = self._pairs(self._lifted(semiring, plain))
        self._assert_sum(semiring, semiring.add(left, right), pairs, "lift(a) + lift(b)")

    # -- sums of many terms -------------------------------------------------------------------

    def test_sum_adds_the_last_axis_up(self, dtype: torch.dtype) -> None:
        """``sum`` is ``add`` again and again, along the last axis only."""
        semiring, x, numbers = self._table(dtype)
        total = semiring.sum(x)
        self._assert_sum(semiring, total, numbers, "sum")
        *rows, size = numbers.shape
        columns = [semiring.gather(x, torch.tensor([j])) for j in range(size)]
        one_by_one = semiring.reshape(reduce(semiring.add, columns), rows)
        self._assert_equal(semiring, one_by_one, total, "one by one")

    def test_sums_of_vectors_are_elements(self, dtype: torch.dtype) -> None:
        """An array without axes can be added, multiplied, and read like any other."""
        semiring, x, numbers = self._elements(dtype)
        total = semiring.sum(x)
        self._assert_sum(semiring, total, numbers, "the sum of a vector")
        expected = self.add_exactly(semiring, numbers)
        square = semiring.mul(total, total)
        assert_same_elements(semiring, square, np.asarray(expected * expected), "its square")
        pair = np.stack([expected, expected], axis=-1)
        self._assert_sum(semiring, semiring.add(total, total), pair, "its double")

    def test_matmul_adds_products(self, dtype: torch.dtype) -> None:
        """``matmul`` is ``mul`` by the lifted weights and ``add``, for weights of two axes."""
        semiring, x, numbers = self._table(dtype)  # (2, 3, n)
        *rows, size = numbers.shape
        weights = self._weights((4, size), dtype)
        y = semiring.matmul(x, weights)
        terms = self._lifted(semiring, weights) * numbers[..., None, :]
        self._assert_sum(semiring, y, terms, "matmul")
        products = semiring.mul(semiring.reshape(x, (*rows, 1, size)), semiring.lift(weights))
        self._assert_equal(semiring, semiring.sum(products), y, "one by one")

    def test_matmul_with_three_axes_goes_block_by_block(self, dtype: torch.dtype) -> None:
        """Each block of the weights (B, I, J) multiplies its own row of x (..., B, J)."""
        semiring, x, numbers = self._table(dtype)  # (2, 3, n)
        weights = self._weights((3, 4, numbers.shape[-1]), dtype)
        terms = self._lifted(semiring, weights) * numbers[..., None, :]  # (2, 3, 4, n)
        self._assert_sum(semiring, semiring.matmul(x, weights), terms, "matmul by blocks")

    def test_a_promise_of_positive_weights_changes_nothing(self, dtype: torch.dtype) -> None:
        """``positive=True`` saves a check; the result is the same."""
        semiring, x, numbers = self._table(dtype)
        weights = torch.ones(2, numbers.shape[-1], dtype=dtype)
        found = semiring.matmul(x, weights, positive=True)
        expected = semiring.to_log(semiring.matmul(x, weights))
        self._assert_moved(semiring, found, expected, "a promise of positive weights")

    def test_scatter_adds_by_target(self, dtype: torch.dtype) -> None:
        """``scatter`` adds up what has one target, in any order; no term means exactly zero."""
        semiring, x, numbers = self._table(dtype)
        size = numbers.shape[-1]
        for index in ((torch.arange(size) * 7) % 4 + 1, torch.zeros(size).long()):
            terms = exact(torch.nn.functional.one_hot(index, 6).mT) * numbers[..., None, :]
            self._assert_sum(semiring, semiring.scatter(x, index, 6), terms, "scatter")
        nothing = torch.arange(0)
        empty = semiring.scatter(semiring.gather(x, nothing), nothing, 2)
        expected = exact(torch.zeros(*numbers.shape[:-1], 2))
        assert_same_elements(semiring, empty, expected, "scatter of nothing")

    # -- moving elements ----------------------------------------------------------------------

    def test_moving_moves_elements_only(self, dtype: torch.dtype) -> None:
        """``gather``, ``take_rows``, ``swap``, ``reshape`` move elements and change none."""
        semiring, x, numbers = self._table(dtype)  # (2, 3, n)
        size = numbers.shape[-1]
        index, rows = torch.tensor([size - 1, 0, 0, 2]), torch.tensor([1, 1, 0])
        log, swapped, flat = semiring.to_log(x), semiring.swap(x), semiring.flatten(x)
        moves: dict[str, tuple[Any, Tensor]] = {
            "gather": (semiring.gather(x, index), log[..., index]),
            "take_rows": (semiring.take_rows(x, rows), log[rows]),
            "swap": (swapped, log.mT),
            "reshape": (semiring.reshape(x, (3, 2 * size)), log.reshape(3, 2 * size)),
            "flatten": (flat, log.reshape(2, 3 * size)),
            "unflatten": (semiring.unflatten(flat, 3, size), log),
            "flatten after swap": (semiring.flatten(swapped), log.mT.reshape(2, 3 * size)),
        }
        for name, (moved, expected) in moves.items():
            shape = tuple(semiring.shape(moved))
            assert shape == tuple(expected.shape), f"{name} gave shape {shape}"
            self._assert_moved(semiring, moved, expected, name)

    def test_where_chooses(self, dtype: torch.dtype) -> None:
        """``where`` takes elements of one or the other, with broadcasting of all three."""
        semiring, x, numbers = self._table(dtype)
        backwards = torch.arange(numbers.shape[-1]).flip(0)
        other = semiring.gather(semiring.take_rows(x, torch.tensor([1])), backwards)  # (1, 3, n)
        for mask in (torch.tensor([True, False])[:, None, None], torch.tensor([[True]])):
            expected = torch.where(mask, semiring.to_log(x), semiring.to_log(other))
            self._assert_moved(semiring, semiring.where(mask, x, other), expected, "where")

    def test_concat_joins_and_broadcasts(self, dtype: torch.dtype) -> None:
        """``concat`` joins along the last axis and broadcasts the others."""
        semiring, x, _ = self._table(dtype)
        other = semiring.gather(semiring.take_rows(x, torch.tensor([1])), torch.arange(2))
        log, part = semiring.to_log(x), semiring.to_log(other).expand(2, 3, 2)
        expected = torch.cat([log, part, part, log, log], dim=-1)
        joined = semiring.concat([x, other, other, x, x])
        self._assert_moved(semiring, joined, expected, "concat")

    def test_outer_is_the_kronecker_product(self, dtype: torch.dtype) -> None:
        """``outer(x, y)[i * J + j] = x[i] y[j]``."""
        semiring, x, numbers = self._elements(dtype)
        found = semiring.outer(x, semiring.gather(x, torch.arange(3)))
        expected = np.outer(numbers, numbers[:3]).ravel()
        assert_same_elements(semiring, found, expected, "outer")

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
        sizes = [(value > 0, exponent, value) for value, exponent in self.elements]
        table[:, 1] = torch.where(table[:, 1] == sizes.index(max(sizes)), 0, table[:, 1])
        return self._elements(dtype, table)

    def _weights(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        choice = torch.randint(len(self.weights), shape, generator=generator)
        return torch.tensor(self.weights, dtype=dtype)[choice]

    def _lifted(self, semiring: Semiring[Any], weights: Tensor) -> Exact:
        return self.lift_exactly(semiring, weights, torch.zeros_like(weights, dtype=torch.long))

    def _axes(self, semiring: Semiring[Any], x: Any, number: int) -> list[Any]:
        """Elements (n,) along each of so many axes: with two, a column and a row."""
        size = semiring.shape(x)[0]
        shapes = torch.eye(number, dtype=torch.long) * (size - 1) + 1
        return [semiring.reshape(x, shape) for shape in shapes.tolist()]

    def _pairs(self, numbers: Exact) -> Exact:
        """All pairs of numbers, (n, n, 2)."""
        return np.stack(np.broadcast_arrays(numbers[:, None], numbers), axis=-1)

    def _assert_sum(self, semiring: Semiring[Any], found: Any, terms: Exact, what: str) -> None:
        """The elements are the sums of the terms along the last axis."""
        assert_same_elements(semiring, found, self.add_exactly(semiring, terms), what)

    def _assert_equal(self, semiring: Semiring[Any], x: Any, y: Any, what: str) -> None:
        """Equal up to rounding; zeros exactly."""
        left, right = torch.broadcast_tensors(semiring.to_log(x), semiring.to_log(y))
        assert torch.equal(torch.isneginf(left), torch.isneginf(right)), f"{what}: other zeros"
        eps = torch.finfo(semiring.dtype).eps
        # Logarithms are rounded relative to the largest that takes part, which may cancel.
        largest = max(abs(exponent) for _, exponent in self.elements)
        atol = eps * (64 + (4 * largest if isinstance(semiring, Log | Maximum) else 0))
        assert_close(left, right, what, 64 * eps, atol)

    def _assert_moved(self, semiring: Semiring[Any], x: Any, log: Tensor, what: str) -> None:
        """The elements have these logarithms, exactly."""
        found = semiring.to_log(x)
        same = torch.equal(*torch.broadcast_tensors(found, log))
        assert same, f"{what} changed elements: expected {log}, found {found}"
