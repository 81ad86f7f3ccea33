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


class _Case(NamedTuple):
    """An operator, the matrix that it stands for in a semiring, and the semiring in a type."""

    operator: Operator
    matrix: Exact
    numbers: Semiring[Any]

    def check(self, found: Any, expected: Exact, what: str) -> None:
        assert_same_elements(self.numbers, found, expected, what)

    def product(self, matrix: Exact, x: Tensor) -> Exact:
        return exact_product(matrix, exact(x, self.numbers), self.numbers)

    def check_products(self, x: Tensor, what: str, *, transposed: bool = False) -> None:
        """``matvec(x) = W x``, or ``rmatvec(x) = W^T x``."""
        matrix = self.matrix.T if transposed else self.matrix
        apply = self.operator.rmatvec if transposed else self.operator.matvec
        found = apply(self.numbers.lift(x), self.numbers)
        self.check(found, self.product(matrix, x), f"{apply.__name__} of {what}")


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
        """A small operator (about ten rows and columns) with weights of the given type.

        It must be a new one in every call: the laws about gradients change its weights.
        """
        raise NotImplementedError("return the operator to be tested")

    def dense_operator(self, operator: Operator) -> Tensor:
        """The matrix that the operator stands for, made without calling the operator."""
        raise NotImplementedError("return the (rows, columns) matrix of the operator")

    def heaviest_terms(self, operator: Operator) -> Tensor:
        """The matrix as the maximum semiring sees it: of each entry, its largest term alone.

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
            lines = repr(operator).split("\n")
            assert len(lines) == 1 and lines[0], f"the repr is not one line: {lines}"

    # -- sums of products ---------------------------------------------------------------------

    def test_matvec_equals_dense_product(self, semiring: Semiring[Any], dtype: torch.dtype) -> None:
        """``matvec(x) = W x`` for every batch shape."""
        for case in self._cases(semiring, dtype):
            for batch in self.batch_shapes:
                x = self._numbers(semiring, (*batch, case.operator.shape[1]), dtype)
                case.check_products(x, f"a batch {batch}")

    def test_rmatvec_equals_transposed_product(
        self, semiring: Semiring[Any], dtype: torch.dtype
    ) -> None:
        """``rmatvec(x) = W^T x`` for every batch shape."""
        for case in self._cases(semiring, dtype):
            for batch in self.batch_shapes:
                x = self._numbers(semiring, (*batch, case.operator.shape[0]), dtype)
                case.check_products(x, f"a batch {batch}", transposed=True)

    def test_matvec_and_rmatvec_are_adjoint(
        self, semiring: Semiring[Any], dtype: torch.dtype
    ) -> None:
        """``<y, W x> = <W^T y, x>``."""
        for case in self._cases(semiring, dtype):
            operator, matrix, numbers = case
            x = self._numbers(semiring, (4, operator.shape[1]), dtype)
            y = self._numbers(semiring, (4, operator.shape[0]), dtype, seed=1)
            forward = numbers.mul(numbers.lift(y), operator.matvec(numbers.lift(x), numbers))
            backward = numbers.mul(operator.rmatvec(numbers.lift(y), numbers), numbers.lift(x))
            expected = exact_sum(exact(y, numbers) * case.product(matrix, x), numbers)
            case.check(numbers.sum(forward), expected, "<y, W x>")
            case.check(numbers.sum(backward), expected, "<W^T y, x>")

    def test_a_batch_of_one_broadcasts(self, semiring: Semiring[Any], dtype: torch.dtype) -> None:
        """The image of one row multiplies with a batch; a row repeated without copying is fine."""
        for case in self._cases(semiring, dtype):
            operator, matrix, numbers = case
            x = self._numbers(semiring, (1, operator.shape[1]), dtype)
            z = self._numbers(semiring, (3, operator.shape[0]), dtype, seed=1)
            product = numbers.mul(numbers.lift(z), operator.matvec(numbers.lift(x), numbers))
            expected = exact(z, numbers) * case.product(matrix, x)
            case.check(product, expected, "a batch of one")
            repeated = x.expand(3, -1)
            for view in (repeated, repeated.mT.contiguous().mT):
                case.check_products(view, "a view of one row")

    def test_zeros_stay_exact(self, semiring: Semiring[Any], dtype: torch.dtype) -> None:
        """A unit that no positive input reaches is exactly zero; every other one is not."""
        for case in self._cases(semiring, dtype):
            for size, transposed in zip(case.operator.shape, (True, False)):
                one = torch.eye(size, dtype=dtype)
                for x in (one, 1 - one, torch.zeros_like(one)):
                    case.check_products(x, "a unit vector, or all but it", transposed=transposed)

    def test_no_false_zeros_over_a_wide_range(
        self, wide_semiring: Semiring[Any], dtype: torch.dtype
    ) -> None:
        """Inputs from 2^-5000 to 1, where the largest often has weight zero, are all counted."""
        for case in self._cases(wide_semiring, dtype):
            operator, matrix, numbers = case
            for apply, w in ((operator.matvec, matrix), (operator.rmatvec, matrix.T)):
                values, exponents = self._wide_numbers(w.shape[1], dtype)
                found = apply(powers_of_two(numbers, values, exponents), numbers)
                expected = exact_product(w, exact_power(values, exponents), numbers)
                case.check(found, expected, f"{apply.__name__} over a wide range")

    # -- parts of the matrix ------------------------------------------------------------------

    def test_rows_are_the_rows(self, semiring: Semiring[Any], dtype: torch.dtype) -> None:
        """``rows(index)`` are the rows, in any order, also repeated, also none."""
        for case in self._cases(semiring, dtype):
            for index in self._indices(case.operator.shape[0]):
                found = case.operator.rows(index, case.numbers)
                case.check(found, case.matrix[index.numpy()], f"rows {index}")

    def test_columns_are_the_columns(self, semiring: Semiring[Any], dtype: torch.dtype) -> None:
        """``columns(index)`` are the columns, in any order, also repeated, also none."""
        for case in self._cases(semiring, dtype):
            for index in self._indices(case.operator.shape[1]):
                found = case.operator.columns(index, case.numbers)
                case.check(found, case.matrix.T[index.numpy()], f"columns {index}")

    def test_total_is_the_sum_of_the_columns(
        self, semiring: Semiring[Any], dtype: torch.dtype
    ) -> None:
        """``total()`` is W times a vector of ones, as a batch of one."""
        for case in self._cases(semiring, dtype):
            expected = exact_sum(case.matrix, case.numbers)[None, :]
            case.check(case.operator.total(case.numbers), expected, "total")

    def test_selection_names_unit_vectors(self, dtype: torch.dtype) -> None:
        """Where ``selection`` answers, each row has a single one, in the column that it names."""
        for operator in self.create_operators(dtype):
            matrix = self.dense_operator(operator)
            for index in self._indices(operator.shape[0]):
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
        for case in self._cases(LINEAR, dtype) if LINEAR in self.semirings else ():
            operator, matrix, numbers = case
            for apply, w in ((operator.matvec, matrix), (operator.rmatvec, matrix.T)):
                x = self._numbers(numbers, (3, w.shape[1]), dtype)
                y = apply(x)
                assert y.dtype == dtype, f"{dtype} numbers became {y.dtype}"
                case.check(y, case.product(w, x), "a plain call")
            if operator.dtype is not None:
                rows, columns = (torch.arange(size) for size in operator.shape)
                case.check(operator.rows(rows), matrix, "plain rows")
                case.check(operator.columns(columns), matrix.T, "plain columns")
                case.check(operator.total(), exact_sum(matrix, numbers)[None, :], "plain total")

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
                self._gradcheck(numbers, call, x.requires_grad_(), weights, mask)

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
                self._gradcheck(numbers, matvec, x, [], reached, scale)

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
        """The floating-point tensors that the operator and its parts hold, each once."""
        tensors = {id(t): t for t in operator.tensors if t.is_floating_point()}
        for part in operator.parts:
            tensors.update((id(t), t) for t in self.parameters(part))
        return list(tensors.values())

    def _choices(self, argument: str) -> Sequence[Any]:
        choices = super()._choices(argument)
        if all(self._is_whole(operator) for operator in self.create_operators(torch.float64)):
            return choices
        return [choice for choice in choices if not isinstance(choice, Counting)]

    def _is_whole(self, operator: Operator) -> bool:
        matrix = self.dense_operator(operator).detach().double()
        return torch.equal(matrix, matrix.round())

    def _cases(self, semiring: Semiring[Any], dtype: torch.dtype) -> Iterator[_Case]:
        numbers = semiring.with_dtype(dtype)
        matrix_of = self.heaviest_terms if isinstance(semiring, Maximum) else self.dense_operator
        for operator in self.create_operators(dtype):
            yield _Case(operator, exact(matrix_of(operator), numbers), numbers)

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

    def _indices(self, size: int) -> list[Tensor]:
        everything = torch.arange(size)
        return [everything, everything.flip(0).repeat(2)[: size + 1], everything[:0]]

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
        self,
        semiring: Semiring[Any],
        call: Callable[[Any], Any],
        x: Tensor,
        weights: Sequence[Tensor],
        mask: Tensor,
        scale: Any = None,
    ) -> None:
        """Compare gradients with differences where the result is positive."""

        def function(x: Tensor, *_: Tensor) -> Tensor:
            lifted = semiring.lift(x)
            y = call(lifted if scale is None else semiring.mul(lifted, scale))
            log: Tensor = semiring.to_log(y)
            return log.masked_select(mask)

        try:
            torch.autograd.gradcheck(function, (x, *weights), atol=1e-5, rtol=1e-3)
        except GradcheckError as error:
            raise AssertionError(f"gradients in {semiring}: {error}") from error
