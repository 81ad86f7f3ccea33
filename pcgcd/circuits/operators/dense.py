"""A matrix that is stored as it is."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from pcgcd.circuits.operators.base import PLAIN, Operator
from pcgcd.circuits.semirings import Semiring, Value
from pcgcd.errors import InvalidParameterError


class Dense(Operator):
    """A dense matrix of non-negative weights (or booleans).

    >>> Dense(torch.tensor([[1.0, 2.0], [3.0, 4.0]])).matvec(torch.tensor([1.0, 10.0]))
    tensor([21., 43.])
    """

    def __init__(self, weights: Tensor) -> None:
        if weights.dim() != 2:
            raise InvalidParameterError(
                f"a dense operator needs a matrix, but got shape {tuple(weights.shape)}"
            )
        self.weights = weights

    @property
    def shape(self) -> tuple[int, int]:
        return self.weights.shape[0], self.weights.shape[1]

    @cached_property
    def _positive(self) -> bool:
        """Whether every weight is so far from zero that scaled sums cannot lose their terms."""
        weights = self.weights.detach()
        if not weights.is_floating_point() or not weights.numel():
            return False
        info = torch.finfo(weights.dtype)
        floor = 10 * max(weights.shape) * info.tiny / info.eps
        return bool(weights.amin() > weights.amax().clamp(min=1) * floor)

    def matvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        return semiring.matmul(x, self.weights, self._positive)

    def rmatvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        return semiring.matmul(x, self.weights.mT, self._positive)

    def rows(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        return semiring.lift(self.weights.index_select(0, index))

    def columns(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        return semiring.lift(self.weights.index_select(1, index).mT)
