"""The laws of operators, to be inherited by the tests of each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError

from pcgcd.circuits.operators import Operator
from pcgcd.circuits.semirings import (
    BOOLEAN,
    COUNTING,
    LINEAR,
    LOG,
    MAXIMUM,
    REAL,
    Counting,
    Maximum,
    Semiring,
)
from pcgcd.errors import StructuralPropertyError
from pcgcd.testing.exact import (
    Exact,
    assert_same_elements,
    exact,
    exact_power,
    exact_product,
    exact_sum,
    powers_of_two,
)
from pcgcd.testing.running import Laws, assert_close, assert_refused

_LOWEST_EXPONENT = -5000


class _Side(NamedTuple):
    """An operator or its transpose, as a semiring sees it."""

    name: str
    matrix: Exact
    numbers: Semiring[Any]
    apply: Callable[..., Any]
    rows: Callable[..., Any]

    def check(self, found: Any, expected: Exact, what: str) -> None:
        assert_same_elements(self.numbers, found, expected, f"{self.name}: {what}")

    def product(self, x: Tensor) -> Exact:
        return exact_product(self.matrix, exact(x, self.numbers), self.numbers)

    def check_product(self, x: Tensor, what: str) -> None:
        self.check(self.apply(self.numbers.lift(x), self.numbers), self.product(x), what)

    def check_rows(self) -> None:
        """In any order, also repeated, also none."""
        for index in _indices(len(self.matrix)):
            found = self.rows(index, self.numbers)
            self.check(found, self.matrix[index.numpy()], f"rows {index}")


class OperatorLaws(Laws):
    """What every :class:`pcgcd.circuits.Operator` must satisfy, in every semiring.

    The results are compared with exact arithmetic on fractions, from the dense matrix that you
    provide.

    >>> from pcgcd.circuits import Dense
    >>> class TestDense(OperatorLaws):
    ...     def create_operator(self, dtype):
    ...         return Dense(torch.tensor([[0.5, 0.0], [0.25, 2.0]], dtype=dtype))
    ...
    ...     def dense_operator(self, operator):
    ...         return operator.weights
    >>> TestDense().test_matvec_equals_dense_product(REAL, torch.float32)

    Attributes:
        semirings: The semirings that sums of products are checked in; the counting one only where
            all weights are whole numbers.
        wide_semirings: Those whose elements have no smallest positive number.
        smooth_semirings: Those that gradients pass through.
        dtypes: The floating types.
        batch_shapes: The shapes of the axes in front of the units.
    """

    semirings: Sequence[Semiring[Any]] = (LINEAR, REAL, LOG, BOOLEAN, MAXIMUM, COUNTING)
    wide_semirings: Sequence[Semiring[Any]] = (REAL, LOG, MAXIMUM)
    smooth_semirings: Sequence[Semiring[Any]] = (LINEAR, REAL, LOG)
    dtypes: Sequence[torch.dtype] = (torch.float32, torch.float64)
    batch_shapes: Sequence[tuple[int, ...]] = ((), (3,), (2, 3), (1,), (0,))
    _arguments = ("semiring", "wide_semiring", "smooth_semiring", "dtype")

    def create_operator(self, dtype: torch.dtype) -> Operator:
        """Return a small operator (about ten rows and columns) with weights of the given type.

        It must be a new one in every call: the laws about gradients change its weights.
        """
        raise NotImplementedError("return the operator to be tested")

    def dense_operator(self, operator: Operator) -> Tensor:
        """Return the matrix that the operator stands for, made without calling the operator."""
        raise NotImplementedError("return the (rows, columns) matrix of the operator")

    def heaviest_terms(self, operator: Operator) -> Tensor:
        """Return the matrix as the maximum semiring sees it: of each entry, its largest term alone.

        It is another matrix where entries are sums: for a composition of two matrices the sum over
        the units between them, for places that are given twice the sum of both.
        """
        return self.dense_operator(operator)

    def create_operators(self, dtype: torch.dtype) -> list[Operator]:
        """Several operators, where one is not enough."""
        return [self.create_operator(dtype)]

    # -- shapes and values --------------------------------------------------------------------

    def test_shape_is_that_of_the_matrix(self, dtype: torch.dtype) -> None:
        """``shape`` is (rows, columns)."""
        for operator in self.create_operators(dtype):
            expected = tuple(self.dense_operator(operator).shape)
            assert operator.shape == expected, f"expected shape {expected}, found {operator.shape}"

    def test_to_dense_writes_out_the_matrix(self, dtype: torch.dtype) -> None:
        """``to_dense`` is the matrix, in the operator's type or the one asked for."""
        for operator in self.create_operators(dtype):
            known = operator.dtype is None or operator.dtype.is_floating_point
            assert known, f"the dtype must be a floating type or None, not {operator.dtype}"
            expected = self.dense_operator(operator).to(dtype)
            torch.testing.assert_close(operator.to_dense(dtype), expected)
            written = operator.to_dense()
            same = operator.dtype is None or written.dtype == operator.dtype
            assert same, f"written as {written.dtype}"
            torch.testing.assert_close(written.to(dtype), expected)

    def test_cost_is_a_number_of_multiplications(self, dtype: torch.dtype) -> None:
        """``cost`` is a whole number, not negative."""
        for operator in self.create_operators(dtype):
            cost = operator.cost
            assert isinstance(cost, int), f"the cost {cost!r} is no int"
            assert cost >= 0, f"the cost {cost} is negative"

    def test_repr_names_the_operator(self, dtype: torch.dtype) -> None:
        """``repr`` is one line."""
        for operator in self.create_operators(dtype):
            text = repr(operator)
            assert text, "the repr is empty"
            assert "\n" not in text, f"the repr has several lines: {text}"

    # -- sums of products ---------------------------------------------------------------------

    def test_matvec_equals_dense_product(self, semiring: Semiring[Any], dtype: torch.dtype) -> None:
        """``matvec(x) = W x`` for every batch shape."""
        for _, forward, _ in self._cases(semiring, dtype):
            self._check_batches(forward, dtype)

    def test_rmatvec_equals_transposed_product(
        self, semiring: Semiring[Any], dtype: torch.dtype
    ) -> None:
        """``rmatvec(x) = W^T x`` for every batch shape."""
        for _, _, backward in self._cases(semiring, dtype):
            self._check_batches(backward, dtype)

    def _check_batches(self, side: _Side, dtype: torch.dtype) -> None:
        for batch in self.batch_shapes:
            x = self._numbers(side.numbers, (*batch, side.matrix.shape[1]), dtype)
            side.check_product(x, f"a batch {batch}")

    def test_matvec_and_rmatvec_are_adjoint(
        self, semiring: Semiring[Any], dtype: torch.dtype
    ) -> None:
        """``<y, W x> = <W^T y, x>``."""
        for operator, forward, backward in self._cases(semiring, dtype):
            numbers = forward.numbers
            x = self._numbers(numbers, (4, operator.shape[1]), dtype)
            y = self._numbers(numbers, (4, operator.shape[0]), dtype, seed=1)
            expected = exact_sum(exact(y, numbers) * forward.product(x), numbers)
            for side, u, v in ((forward, x, y), (backward, y, x)):
                image = side.apply(numbers.lift(u), numbers)
                total = numbers.sum(numbers.mul(numbers.lift(v), image))
                side.check(total, expected, "<y, W x> = <W^T y, x>")

    def test_a_batch_of_one_broadcasts(self, semiring: Semiring[Any], dtype: torch.dtype) -> None:
        """The image of one row multiplies with a batch; a row repeated without copying is fine."""
        for operator, forward, _ in self._cases(semiring, dtype):
            numbers = forward.numbers
            x = self._numbers(numbers, (1, operator.shape[1]), dtype)
            z = self._numbers(numbers, (3, operator.shape[0]), dtype, seed=1)
            product = numbers.mul(numbers.lift(z), operator.matvec(numbers.lift(x), numbers))
            forward.check(product, exact(z, numbers) * forward.product(x), "a batch of one")
            repeated = x.expand(3, -1)
            for view in (repeated, repeated.mT.contiguous().mT):
                forward.check_product(view, "a view of one row")

    def test_zeros_stay_exact(self, semiring: Semiring[Any], dtype: torch.dtype) -> None:
        """A unit that no positive input reaches is exactly zero; every other one is not."""
        for _, *sides in self._cases(semiring, dtype):
            for side in sides:
                one = torch.eye(side.matrix.shape[1], dtype=dtype)
                for x in (one, 1 - one, torch.zeros_like(one)):
                    side.check_product(x, "a unit vector, or all but it")

    def test_no_false_zeros_over_a_wide_range(
        self, wide_semiring: Semiring[Any], dtype: torch.dtype
    ) -> None:
        """Inputs from 2^-5000 to 1, where the largest often has weight zero, are all counted."""
        for _, *sides in self._cases(wide_semiring, dtype):
            for side in sides:
                values, exponents = self._wide_numbers(side.matrix.shape[1], dtype)
                x = powers_of_two(side.numbers, values, exponents)
                power = exact_power(values, exponents)
                expected = exact_product(side.matrix, power, side.numbers)
                side.check(side.apply(x, side.numbers), expected, "a wide range")

    # -- parts of the matrix ------------------------------------------------------------------

    def test_rows_are_the_rows(self, semiring: Semiring[Any], dtype: torch.dtype) -> None:
        """``rows(index)`` are the rows, in any order, also repeated, also none."""
        for _, forward, _ in self._cases(semiring, dtype):
            forward.check_rows()

    def test_columns_are_the_columns(self, semiring: Semiring[Any], dtype: torch.dtype) -> None:
        """``columns(index)`` are the columns, in any order, also repeated, also none."""
        for _, _, backward in self._cases(semiring, dtype):
            backward.check_rows()

    def test_total_is_the_sum_of_the_columns(
        self, semiring: Semiring[Any], dtype: torch.dtype
    ) -> None:
        """``total()`` is W times a vector of ones, as a batch of one."""
        for operator, forward, _ in self._cases(semiring, dtype):
            expected = exact_sum(forward.matrix, forward.numbers)[None, :]
            forward.check(operator.total(forward.numbers), expected, "total")

    def test_selection_names_unit_vectors(self, dtype: torch.dtype) -> None:
        """Where ``selection`` answers, each row has a single one, in the column that it names."""
        for operator in self.create_operators(dtype):
            matrix = self.dense_operator(operator)
            for index in _indices(operator.shape[0]):
                selected = operator.selection(index)
                if selected is not None:
                    expected = torch.nn.functional.one_hot(selected, operator.shape[1])
                    assert torch.equal(matrix[index].double(), expected.double()), (
                        f"rows {index.tolist()} are not the unit vectors {selected.tolist()}"
                    )

    def test_factors_compose_to_the_operator(self, dtype: torch.dtype) -> None:
        """The product of ``factors``, the outermost first, is the matrix."""
        for operator in self.create_operators(dtype):
            matrices = [factor.to_dense(torch.float64) for factor in operator.factors]
            product = functools.reduce(torch.matmul, matrices)
            expected = self.dense_operator(operator).double()
            assert_close(product, expected, "the factors", 16 * torch.finfo(dtype).eps)

    # -- types and gradients ------------------------------------------------------------------

    def test_another_type_keeps_the_values(self, dtype: torch.dtype) -> None:
        """``to(dtype=...)`` changes the type of the weights and rounds them, nothing else."""
        for operator in self.create_operators(dtype):
            expected = self.dense_operator(operator).double()
            for target in (*self.dtypes, None):
                moved = operator.to(dtype=target)
                assert moved.shape == operator.shape, f"the shape became {moved.shape}"
                wanted = operator.dtype if operator.dtype is None or target is None else target
                assert moved.dtype == wanted, f"asked for {wanted}, found {moved.dtype}"
                eps = max(torch.finfo(t).eps for t in (dtype, target or dtype))
                found = self.dense_operator(moved).double()
                assert_close(found, expected, f"as {target}", 8 * eps)

    def test_plain_calls_keep_the_precision(self, dtype: torch.dtype) -> None:
        """Without a semiring, plain numbers are computed with in their own floating type."""
        if LINEAR not in self.semirings:
            return
        for operator, *sides in self._cases(LINEAR, dtype):
            for side in sides:
                x = self._numbers(LINEAR, (3, side.matrix.shape[1]), dtype)
                y = side.apply(x)
                assert y.dtype == dtype, f"{dtype} numbers became {y.dtype}"
                side.check(y, side.product(x), "a plain call")
                if operator.dtype is not None:
                    found = side.rows(torch.arange(len(side.matrix)))
                    side.check(found, side.matrix, "plain rows")
            if operator.dtype is not None:
                expected = exact_sum(sides[0].matrix, LINEAR)[None, :]
                sides[0].check(operator.total(), expected, "plain total")

    def test_gradients_are_the_derivatives(self, smooth_semiring: Semiring[Any]) -> None:
        """Central differences agree with gradients, for the inputs and for positive weights."""
        numbers = smooth_semiring.with_dtype(torch.float64)
        for operator in self.create_operators(torch.float64):
            weights = self.parameters(operator)
            for weight in weights:
                # The derivative of a logarithm at zero is defined to be zero: stay away from it.
                weight.data.clamp_(min=0.1)
                weight.requires_grad_()
            assert operator.requires_grad == bool(weights), "requires_grad is wrong"
            for size, mask, call in self._calls(operator, numbers):
                x = self._numbers(numbers, (1, size), torch.float64).clamp(min=0.1)
                self._gradcheck(numbers, x.requires_grad_(), weights, mask, call)

    def test_gradients_at_zeros_are_defined(
        self, smooth_semiring: Semiring[Any], dtype: torch.dtype
    ) -> None:
        """Zeros among inputs, weights and results leave no undefined gradient behind."""
        numbers = smooth_semiring.with_dtype(dtype)
        for operator in self.create_operators(dtype):
            weights = [weight.requires_grad_() for weight in self.parameters(operator)]
            for size, _, call in self._calls(operator, numbers):
                x = self._numbers(numbers, (3, 1, size), dtype).requires_grad_()
                log = numbers.to_log(call(numbers.lift(x)))
                total = log.masked_fill(torch.isneginf(log), 0.0).sum()
                for gradient in torch.autograd.grad(total, [x, *weights], allow_unused=True):
                    undefined = gradient is not None and bool(gradient.isnan().any())
                    assert not undefined, f"an undefined gradient in {numbers}: {gradient}"

    def test_gradients_pass_through_a_wide_range(self) -> None:
        """Terms that only a rescaled sum can see have their share of the gradient."""
        for semiring in set(self.smooth_semirings) & set(self.wide_semirings):
            numbers = semiring.with_dtype(torch.float64)
            for operator in self.create_operators(torch.float64):
                values, exponents = self._wide_numbers(operator.shape[1], torch.float64)
                x = values[:3].clamp(min=0.5).requires_grad_()
                scale = powers_of_two(numbers, torch.ones(tuple(x.shape)), exponents[:3])
                _, reached, matvec = self._calls(operator, numbers)[0]
                scaled = functools.partial(numbers.mul, scale)
                self._gradcheck(numbers, x, [], reached, scaled, matvec)

    def test_counting_refuses_fractional_weights(self) -> None:
        """The counting semiring says so where weights are not whole numbers."""
        for operator in self.create_operators(torch.float64):
            if self._is_whole(operator):
                continue
            for size, apply in zip(operator.shape, (operator.rmatvec, operator.matvec)):
                call = functools.partial(apply, COUNTING.lift(torch.ones(size)), COUNTING)
                otherwise = "fractional weights were counted with"
                assert_refused(call, StructuralPropertyError, otherwise)

    # -- what the laws are checked on ---------------------------------------------------------

    def parameters(self, operator: Operator) -> list[Tensor]:
        """Return the floating-point tensors that the operator and its parts hold, each once."""
        tensors = {id(t): t for t in operator.tensors if t.is_floating_point()}
        for part in operator.parts:
            tensors.update((id(t), t) for t in self.parameters(part))
        return list(tensors.values())

    def choices(self, argument: str) -> Sequence[Any]:
        choices = super().choices(argument)
        if all(self._is_whole(operator) for operator in self.create_operators(torch.float64)):
            return choices
        return [choice for choice in choices if not isinstance(choice, Counting)]

    def _is_whole(self, operator: Operator) -> bool:
        matrix = self.dense_operator(operator).detach().double()
        return torch.equal(matrix, matrix.round())

    def _cases(
        self, semiring: Semiring[Any], dtype: torch.dtype
    ) -> Iterator[tuple[Operator, _Side, _Side]]:
        """The operators, and each as the semiring in the type sees it: forward and backward."""
        numbers = semiring.with_dtype(dtype)
        matrix_of = self.heaviest_terms if isinstance(semiring, Maximum) else self.dense_operator
        for operator in self.create_operators(dtype):
            matrix = exact(matrix_of(operator), numbers)
            yield (
                operator,
                _Side("the operator", matrix, numbers, operator.matvec, operator.rows),
                _Side("its transpose", matrix.T, numbers, operator.rmatvec, operator.columns),
            )

    def _numbers(
        self, semiring: Semiring[Any], shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0
    ) -> Tensor:
        """Positive numbers with some zeros among them; whole ones for the counting semiring."""
        generator = torch.Generator().manual_seed(seed)
        if isinstance(semiring, Counting):
            return torch.randint(0, 4, shape, generator=generator).to(dtype)
        numbers = torch.rand(shape, generator=generator, dtype=dtype) + 0.01
        return numbers * (torch.rand(shape, generator=generator) > 0.3)

    def _wide_numbers(self, size: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """For each unit, a row in which it is the largest: values and powers of two."""
        generator = torch.Generator().manual_seed(0)
        values = torch.rand(size, size, generator=generator, dtype=dtype) / 2 + 0.5
        # As many near one as far from it: differences of every size within the floating range.
        share = torch.rand(size, size, generator=generator)
        exponents = -((1.0 - _LOWEST_EXPONENT) ** share).long()
        missing = torch.rand(size, size, generator=generator) < 0.2
        one = torch.eye(size, dtype=torch.bool)
        return values * (one | ~missing), exponents.masked_fill(one, 0)

    def _calls(
        self, operator: Operator, numbers: Semiring[Any]
    ) -> list[tuple[int, Tensor, Callable[[Any], Any]]]:
        """What depends on the weights: the size of its argument, where it is positive, the call."""
        rows, columns = (torch.arange(size) for size in operator.shape)
        reached = self.dense_operator(operator).detach() > 0
        return [
            (len(columns), reached.any(1), lambda x: operator.matvec(x, numbers)),
            (len(rows), reached.any(0), lambda x: operator.rmatvec(x, numbers)),
            (1, reached, lambda x: numbers.mul(x, operator.rows(rows, numbers))),
            (1, reached.mT, lambda x: numbers.mul(x, operator.columns(columns, numbers))),
            (1, reached.any(1), lambda x: numbers.mul(x, operator.total(numbers))),
        ]

    def _gradcheck(
        self, semiring: Semiring[Any], x: Tensor, weights: list[Tensor], mask: Tensor, *calls: Any
    ) -> None:
        """Compare gradients with differences where the result of the calls is positive."""

        def function(x: Tensor, *_: Tensor) -> Tensor:
            y = functools.reduce(lambda y, call: call(y), calls, semiring.lift(x))
            log: Tensor = semiring.to_log(y)
            return log.masked_select(mask)

        try:
            torch.autograd.gradcheck(function, (x, *weights), atol=1e-5, rtol=1e-3)
        except GradcheckError as error:
            raise AssertionError(f"gradients in {semiring}: {error}") from error


def _indices(size: int) -> list[Tensor]:
    everything = torch.arange(size)
    return [everything, everything.flip(0).repeat(2)[: size + 1], everything[:0]]
