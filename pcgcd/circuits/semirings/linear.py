"""Plain non-negative reals, without protection against underflow."""

from __future__ import annotations

from torch import Tensor

from pcgcd.circuits.semirings.tensors import TensorSemiring, add_up, add_up_at, contract

__all__ = ["Linear"]


class Linear(TensorSemiring):
    """Floating-point numbers as they are: for weights and for short sums, not for long products.

    This is what an operator's ``matvec`` uses when no semiring is named.
    """

    def lift(self, weights: Tensor) -> Tensor:
        return weights.to(self.dtype)

    def to_log(self, x: Tensor) -> Tensor:
        return safe_log(x)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        return x * y

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y

    def sum(self, x: Tensor) -> Tensor:
        return add_up(x)

    def matmul(self, x: Tensor, weights: Tensor, positive: bool = False) -> Tensor:
        return contract(x, weights.to(x.dtype))

    def scatter(self, x: Tensor, index: Tensor, size: int) -> Tensor:
        return add_up_at(x, index, size)


def safe_log(x: Tensor) -> Tensor:
    """The logarithm, -inf at zero, with a zero (not undefined) gradient there."""
    positive = x > 0
    return x.where(positive, x.new_ones(())).log().where(positive, x.new_tensor(float("-inf")))
