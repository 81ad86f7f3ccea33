"""Monarch matrices: two block-diagonal factors with a transposition between them."""

from __future__ import annotations

from torch import Tensor

from pcgcd.circuits.operators.base import PLAIN, Operator
from pcgcd.circuits.semirings import Semiring, Value
from pcgcd.errors import InvalidParameterError


class Monarch(Operator):
    """A square matrix on a x b units, of O(size^(3/2)) parameters.

    A unit is a pair (i, j), numbered i * b + j. The first factor mixes j within each i, the
    second mixes i within each j, so that

        W[(i, j), (k, l)] = left[i, j, l] * right[l, i, k].

    With row-stochastic factors (sums over the last axis are one) W is row-stochastic. For size
    2^14, a = b = 128: 2^22 parameters in place of 2^28.
    """

    def __init__(self, left: Tensor, right: Tensor) -> None:
        fits = left.dim() == 3 and right.dim() == 3
        if fits:
            a, b = left.shape[0], left.shape[1]
            fits = left.shape == (a, b, b) and right.shape == (b, a, a)
        if not fits:
            raise InvalidParameterError(
                "Monarch factors must have shapes (a, b, b) and (b, a, a), but have "
                f"{tuple(left.shape)} and {tuple(right.shape)}"
            )
        self.left, self.right = left, right

    @property
    def shape(self) -> tuple[int, int]:
        size = self.left.shape[0] * self.left.shape[1]
        return size, size

    @property
    def cost(self) -> int:
        return self.left.numel() + self.right.numel()

    def matvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        a, b = self.left.shape[:2]
        message = semiring.swap(semiring.unflatten(x, a, b))  # (..., l, k)
        message = semiring.swap(semiring.matmul(message, self.right))  # (..., i, l)
        return semiring.flatten(semiring.matmul(message, self.left))  # (..., (i, j))

    def rmatvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        a, b = self.left.shape[:2]
        message = semiring.matmul(semiring.unflatten(x, a, b), self.left.mT)  # (..., i, l)
        message = semiring.matmul(semiring.swap(message), self.right.mT)  # (..., l, k)
        return semiring.flatten(semiring.swap(message))  # (..., (k, l))

    def rows(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        b = self.left.shape[1]
        i, j = index // b, index % b
        left = semiring.lift(self.left[i, j].unsqueeze(1))  # (n, 1, l)
        right = semiring.lift(self.right[:, i].permute(1, 2, 0))  # (n, k, l)
        return semiring.flatten(semiring.mul(left, right))

    def columns(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        b = self.left.shape[1]
        k, l = index // b, index % b
        left = semiring.lift(self.left[:, :, l].permute(2, 0, 1))  # (n, i, j)
        right = semiring.lift(self.right[l, :, k].unsqueeze(-1))  # (n, i, 1)
        return semiring.flatten(semiring.mul(left, right))
