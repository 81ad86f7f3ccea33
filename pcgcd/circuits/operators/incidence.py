"""Sparse matrices of zeros and ones, by their index pairs."""

from __future__ import annotations

import torch
from torch import Tensor

from pcgcd.circuits.operators.base import PLAIN, Operator
from pcgcd.circuits.semirings import Semiring, Value
from pcgcd.errors import InvalidParameterError


def _is_range(index: Tensor, size: int) -> bool:
    return len(index) == size and bool((index == torch.arange(size, device=index.device)).all())


class Incidence(Operator):
    """Ones at the given (row, column) pairs: gather the columns, then add up by row.

    The automaton's ``T_out`` and ``T_in`` are of this kind. With one pair per row (``T_in``) it is
    a plain gather; with one pair per column (``T_out``) a plain scatter.

    >>> T_out = Incidence(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 2]), (2, 3))
    >>> T_out.matvec(torch.tensor([1.0, 10.0, 100.0]))
    tensor([ 11., 100.])
    """

    def __init__(self, row: Tensor, column: Tensor, shape: tuple[int, int]) -> None:
        """Hold the pairs (row[k], column[k]); a pair given twice counts twice."""
        if row.shape != column.shape or row.dim() != 1:
            raise InvalidParameterError(
                "rows and columns must be vectors of one length, but have shapes "
                f"{tuple(row.shape)} and {tuple(column.shape)}"
            )
        for name, index, size in (("row", row, shape[0]), ("column", column, shape[1])):
            if len(index) and not 0 <= int(index.min()) <= int(index.max()) < size:
                raise InvalidParameterError(
                    f"{name} indices must lie in 0..{size - 1}, but run from "
                    f"{int(index.min())} to {int(index.max())}"
                )
        self.row, self.column = row, column
        self._shape = shape
        self._gathers = _is_range(row, shape[0])
        self._scatters = _is_range(column, shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    @property
    def cost(self) -> int:
        return len(self.row)

    def matvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        if not self._scatters:
            x = semiring.gather(x, self.column)
        return x if self._gathers else semiring.scatter(x, self.row, self.shape[0])

    def rmatvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        if not self._gathers:
            x = semiring.gather(x, self.row)
        return x if self._scatters else semiring.scatter(x, self.column, self.shape[1])

    def selection(self, rows: Tensor) -> Tensor | None:
        return self.column[rows] if self._gathers else None
