"""The laws of operators, to be inherited by the tests of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

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

__all__ = ["OperatorLaws"]

_LOWEST_EXPONENT = -5000


class OperatorLaws:
    """What every :class:`pcgcd.circuits.Operator` must satisfy, in every semiring.

    Inherit from it in a test class whose name starts with ``Test``, and implement two methods;
    pytest does the rest. Without pytest, use :func:`run_laws`. The results are compared with
    exact arithmetic on fractions, from the dense matrix that you provide.

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

    # -- to be implemented --------------------------------------------------------------------

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
            if operator.dtype is not None:
                assert written.dtype == operator.dtype, f"written as {written.dtype}"
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
        for operator, matrix, numbers in self._cases(semiring, dtype):
            for batch in self.batch_shapes:
                x = self._numbers(numbers, (*batch, operator.shape[1]), dtype)
                y = operator.matvec(numbers.lift(x), numbers)
                expected = exact_product(matrix, exact(x, numbers), numbers)
                assert_same_elements(numbers, y, expected, f"matvec of a batch {batch}")

    def test_rmatvec_equals_transposed_product(
        self, semiring: Semiring[Any], dtype: torch.dtype
    ) -> None:
        """``rmatvec(x) = W^T x`` for every batch shape."""
        for operator, matrix, numbers in self._cases(semiring, dtype):
            for batch in self.batch_shapes:
                x = self._numbers(numbers, (*batch, operator.shape[0]), dtype)
                y = operator.rmatvec(numbers.lift(x), numbers)
                expected = exact_product(matrix.T, exact(x, numbers), numbers)
                assert_same_elements(numbers, y, expected, f"rmatvec of a batch {batch}")

    def test_matvec_and_rmatvec_are_adjoint(
        self, semiring: Semiring[Any], dtype: torch.dtype
    ) -> None:
        """``<y, W x> = <W^T y, x>``."""
        for operator, matrix, numbers in self._cases(semiring, dtype):
            rows, columns = operator.shape
            x = self._numbers(numbers, (4, columns), dtype)
            y = self._numbers(numbers, (4, rows), dtype, seed=1)
            forward = numbers.mul(numbers.lift(y), operator.matvec(numbers.lift(x), numbers))
            backward = numbers.mul(operator.rmatvec(numbers.lift(y), numbers), numbers.lift(x))
            image = exact_product(matrix, exact(x, numbers), numbers)
            expected = exact_sum(exact(y, numbers) * image, numbers)
            assert_same_elements(numbers, numbers.sum(forward), expected, "<y, W x>")
            assert_same_elements(numbers, numbers.sum(backward), expected, "<W^T y, x>")

    def test_a_batch_of_one_broadcasts(self, semiring: Semiring[Any], dtype: torch.dtype) -> None:
        """The image of one row multiplies with a batch; a row repeated without copying is fine."""
        for operator, matrix, numbers in self._cases(semiring, dtype):
            rows, columns = operator.shape
            x = self._numbers(numbers, (1, columns), dtype)
            z = self._numbers(numbers, (3, rows), dtype, seed=1)
            expected = exact_product(matrix, exact(x, numbers), numbers)
            product = numbers.mul(numbers.lift(z), operator.matvec(numbers.lift(x), numbers))
            assert_same_elements(numbers, product, exact(z, numbers) * expected, "a batch of one")
            views = (x.expand(3, columns), x.expand(3, columns).mT.contiguous().mT)
            for view in views:
                y = operator.matvec(numbers.lift(view), numbers)
                assert_same_elements(numbers, y, expected.repeat(3, axis=0), "a view of one row")

    def test_zeros_stay_exact(self, semiring: Semiring[Any], dtype: torch.dtype) -> None:
        """A unit that no positive input reaches is exactly zero; every other one is not."""
        for operator, matrix, numbers in self._cases(semiring, dtype):
            for apply, w in ((operator.matvec, matrix), (operator.rmatvec, matrix.T)):
                one = torch.eye(w.shape[1], dtype=dtype)
                for x in (one, 1 - one, torch.zeros_like(one)):
                    y = apply(numbers.lift(x), numbers)
                    expected = exact_product(w, exact(x, numbers), numbers)
                    assert_same_elements(numbers, y, expected, "a unit vector, or all but it")

    def test_no_false_zeros_over_a_wide_range(
        self, wide_semiring: Semiring[Any], dtype: torch.dtype
    ) -> None:
        """Inputs from 2^-5000 to 1, where the largest often has weight zero, are all counted."""
        for operator, matrix, numbers in self._cases(wide_semiring, dtype):
            for name, w in (("matvec", matrix), ("rmatvec", matrix.T)):
                values, exponents = self._wide_numbers(w.shape[1], dtype)
                x = powers_of_two(numbers, values, exponents)
                y = getattr(operator, name)(x, numbers)
                expected = exact_product(w, exact_power(values, exponents), numbers)
                assert_same_elements(numbers, y, expected, f"{name} over a wide range")

    # -- parts of the matrix ------------------------------------------------------------------

    def test_rows_are_the_rows(self, semiring: Semiring[Any], dtype: torch.dtype) -> None:
        """``rows(index)`` are the rows, in any order, also repeated, also none."""
        for operator, matrix, numbers in self._cases(semiring, dtype):
            for index in self._indices(operator.shape[0]):
                expected = matrix[index.numpy()]
                found = operator.rows(index, numbers)
                assert_same_elements(numbers, found, expected, f"rows {index}")

    def test_columns_are_the_columns(self, semiring: Semiring[Any], dtype: torch.dtype) -> None:
        """``columns(index)`` are the columns, in any order, also repeated, also none."""
        for operator, matrix, numbers in self._cases(semiring, dtype):
            for index in self._indices(operator.shape[1]):
                found = operator.columns(index, numbers)
                expected = matrix.T[index.numpy()]
                assert_same_elements(numbers, found, expected, f"columns {index}")

    def test_total_is_the_sum_of_the_columns(
        self, semiring: Semiring[Any], dtype: torch.dtype
    ) -> None:
        """``total()`` is W times a vector of ones, as a batch of one."""
        for operator, matrix, numbers in self._cases(semiring, dtype):
            expected = exact_sum(matrix, numbers)[None, :]
            assert_same_elements(numbers, operator.total(numbers), expected, "total")

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
            product = matrices[0]
            for matrix in matrices[1:]:
                product = product @ matrix
            expected = self.dense_operator(operator).double()
            tolerance = 16 * torch.finfo(dtype).eps
            torch.testing.assert_close(product, expected, rtol=tolerance, atol=tolerance)

    # -- types and gradients ------------------------------------------------------------------

    def test_another_type_keeps_the_values(self, dtype: torch.dtype) -> None:
        """``to(dtype=...)`` changes the type of the weights and rounds them, nothing else."""
        for operator in self.create_operators(dtype):
            expected = self.dense_operator(operator).double()
            for target in (*self.dtypes, None):
                moved = operator.to(dtype=target)
                assert moved.shape == operator.shape, f"the shape became {moved.shape}"
                if operator.dtype is None or target is None:
                    assert moved.dtype == operator.dtype, f"the type became {moved.dtype}"
                else:
                    assert moved.dtype == target, f"asked for {target}, found {moved.dtype}"
                eps = max(torch.finfo(t).eps for t in (dtype, target or dtype))
                torch.testing.assert_close(
                    self.dense_operator(moved).double(), expected, rtol=8 * eps, atol=8 * eps
                )

    def test_plain_calls_keep_the_precision(self, dtype: torch.dtype) -> None:
        """Without a semiring, plain numbers are computed with in their own floating type."""
        if LINEAR not in self.semirings:
            return
        for operator, matrix, numbers in self._cases(LINEAR, dtype):
            rows, columns = operator.shape
            for apply, w in ((operator.matvec, matrix), (operator.rmatvec, matrix.T)):
                x = self._numbers(numbers, (3, w.shape[1]), dtype)
                y = apply(x)
                assert y.dtype == dtype, f"{dtype} numbers became {y.dtype}"
                expected = exact_product(w, exact(x), numbers)
                assert_same_elements(numbers, y, expected, "a plain call")
            if operator.dtype is not None:
                found: Tensor = operator.rows(torch.arange(rows))
                assert_same_elements(numbers, found, matrix, "plain rows")
                found = operator.columns(torch.arange(columns))
                assert_same_elements(numbers, found, matrix.T, "plain columns")
                total = exact_sum(matrix, numbers)[None, :]
                assert_same_elements(numbers, operator.total(), total, "plain total")

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
            reached = self.dense_operator(operator).detach() > 0
            for size, mask, call in self._calls(operator, reached, numbers):
                x = self._numbers(numbers, (1, size), torch.float64).clamp(min=0.1)
                self._gradcheck(numbers, call, x.requires_grad_(), weights, mask)

    def test_gradients_at_zeros_are_defined(
        self, smooth_semiring: Semiring[Any], dtype: torch.dtype
    ) -> None:
        """Zeros among inputs, weights and results leave no undefined gradient behind."""
        numbers = smooth_semiring.with_dtype(dtype)
        for operator in self.create_operators(dtype):
            weights = [weight.requires_grad_() for weight in self.parameters(operator)]
            reached = self.dense_operator(operator).detach() > 0
            for size, _, call in self._calls(operator, reached, numbers):
                x = self._numbers(numbers, (3, 1, size), dtype).requires_grad_()
                log = numbers.to_log(call(numbers.lift(x)))
                total = log.masked_fill(torch.isneginf(log), 0.0).sum()
                for gradient in torch.autograd.grad(total, [x, *weights], allow_unused=True):
                    undefined = gradient is not None and bool(gradient.isnan().any())
                    assert not undefined, f"an undefined gradient in {numbers}: {gradient}"

    def test_gradients_pass_through_a_wide_range(self) -> None:
        """Terms that only a rescaled sum can see have their share of the gradient."""
        for semiring in set(self.smooth_semirings) & set(self.wide_semirings):
            for operator in self.create_operators(torch.float64):
                self._check_wide_gradients(operator, semiring.with_dtype(torch.float64))

    def _check_wide_gradients(self, operator: Operator, numbers: Semiring[Any]) -> None:
        values, exponents = self._wide_numbers(operator.shape[1], torch.float64)
        x = values[:3].clamp(min=0.5).requires_grad_()
        scale = powers_of_two(numbers, torch.ones(tuple(x.shape)), exponents[:3])
        reached = (self.dense_operator(operator).detach() > 0).any(1)
        self._gradcheck(
            numbers, lambda x: operator.matvec(numbers.mul(x, scale), numbers), x, [], reached
        )

    def test_counting_refuses_fractional_weights(self) -> None:
        """The counting semiring says so where weights are not whole numbers."""
        for operator in self.create_operators(torch.float64):
            if self._is_whole(operator):
                continue
            for size, apply in zip(operator.shape, (operator.rmatvec, operator.matvec)):
                try:
                    apply(COUNTING.lift(torch.ones(size)), COUNTING)
                except StructuralPropertyError:
                    continue
                raise AssertionError("fractional weights were counted with")

    # -- what the laws are checked on ---------------------------------------------------------

    def parameters(self, operator: Operator) -> list[Tensor]:
        """The floating-point tensors that the operator and its parts hold, each once."""
        tensors = {id(t): t for t in operator.tensors if t.is_floating_point()}
        for part in operator.parts:
            tensors.update((id(t), t) for t in self.parameters(part))
        return list(tensors.values())

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Run each law for the semirings and types that its arguments ask for."""
        for name in ("semiring", "wide_semiring", "smooth_semiring"):
            if name in metafunc.fixturenames:
                choices = [s for s in getattr(self, f"{name}s") if self._makes_sense(s)]
                metafunc.parametrize(name, choices, ids=[type(s).__name__ for s in choices])
        if "dtype" in metafunc.fixturenames:
            metafunc.parametrize("dtype", self.dtypes, ids=[str(d)[6:] for d in self.dtypes])

    def _makes_sense(self, semiring: Semiring[Any]) -> bool:
        if not isinstance(semiring, Counting):
            return True
        return all(self._is_whole(operator) for operator in self.create_operators(torch.float64))

    def _is_whole(self, operator: Operator) -> bool:
        matrix = self.dense_operator(operator).detach().double()
        return torch.equal(matrix, matrix.round())

    def _cases(
        self, semiring: Semiring[Any], dtype: torch.dtype
    ) -> Iterator[tuple[Operator, Exact, Semiring[Any]]]:
        """The operators, their exact matrices, and the semiring in the type."""
        numbers = semiring.with_dtype(dtype)
        for operator in self.create_operators(dtype):
            maximum = isinstance(semiring, Maximum)
            matrix = (self.heaviest_terms if maximum else self.dense_operator)(operator)
            yield operator, exact(matrix, numbers), numbers

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
        self, operator: Operator, reached: Tensor, numbers: Semiring[Any]
    ) -> list[tuple[int, Tensor, Callable[[Any], Any]]]:
        """What depends on the weights: the size of its argument, where it is positive, the call."""
        rows, columns = (torch.arange(size) for size in operator.shape)
        return [
            (len(columns), reached.any(1), lambda x: operator.matvec(x, numbers)),
            (len(rows), reached.any(0), lambda x: operator.rmatvec(x, numbers)),
            (1, reached, lambda x: numbers.mul(x, operator.rows(rows, numbers))),
            (1, reached.mT, lambda x: numbers.mul(x, operator.columns(columns, numbers))),
            (1, reached.any(1), lambda x: numbers.mul(x, operator.total(numbers))),
        ]

    def _gradcheck(
        self, semiring: Semiring[Any], call: Any, x: Tensor, weights: list[Tensor], mask: Tensor
    ) -> None:
        """Compare gradients with differences where the result is positive."""

        def function(x: Tensor, *_: Tensor) -> Tensor:
            y = call(semiring.lift(x))
            log: Tensor = semiring.to_log(y)
            return log.masked_select(mask)

        try:
            torch.autograd.gradcheck(function, (x, *weights), atol=1e-5, rtol=1e-3)
        except GradcheckError as error:
            raise AssertionError(f"gradients in {semiring}: {error}") from error
