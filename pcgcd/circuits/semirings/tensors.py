"""Semirings whose elements are plain tensors: ordinary numbers, and truth values."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pcgcd.circuits.semirings.base import Semiring

# Sums over a vocabulary lose digits in single precision: past this many terms, partial sums are
# added up in double precision.
_MANY = 512


def contract(x: Tensor, weights: Tensor) -> Tensor:
    """Return the real product of :meth:`Semiring.matmul`, for (I, J) or (B, I, J) weights."""
    if weights.dim() == 3:
        return torch.einsum("...bj,bij->...bi", x, weights)
    if x.shape[-1] <= _MANY or x.dtype == torch.float64:
        return x @ weights.mT
    total = x.new_zeros((), dtype=torch.float64)
    for row, columns in zip(x.split(_MANY, -1), weights.split(_MANY, -1)):
        total = total + (row @ columns.mT).double()
    return total.to(x.dtype)


def add_up(x: Tensor) -> Tensor:
    """Return the sum over the last axis, in double precision on the way."""
    return x.sum(-1, dtype=torch.float64).to(x.dtype)


def add_up_at(x: Tensor, index: Tensor, size: int) -> Tensor:
    """Add up real numbers as :meth:`Semiring.scatter` does, in double precision."""
    total = x.new_zeros((*x.shape[:-1], size), dtype=torch.float64)
    return total.index_add(-1, index, x.double()).to(x.dtype)


def broadcast_concat(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate along the last axis after broadcasting the others."""
    batch = torch.broadcast_shapes(*(part.shape[:-1] for part in parts))
    return torch.cat([part.expand(*batch, part.shape[-1]) for part in parts], dim=-1)


def safe_log(x: Tensor) -> Tensor:
    """Return the logarithm, -inf at zero, with a zero (not undefined) gradient there."""
    positive = x > 0
    return x.where(positive, x.new_ones(())).log().where(positive, x.new_tensor(float("-inf")))


class TensorSemiring(Semiring[Tensor]):
    """A semiring on plain tensors: everything that only moves elements."""

    def gather(self, x: Tensor, index: Tensor) -> Tensor:
        return x.index_select(-1, index)

    def take_rows(self, x: Tensor, index: Tensor) -> Tensor:
        return x.index_select(0, index)

    def where(self, mask: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return torch.where(mask, x, y)

    def concat(self, parts: Sequence[Tensor]) -> Tensor:
        return broadcast_concat(parts)

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return tuple(x.shape)

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        return x.reshape(tuple(shape))

    def swap(self, x: Tensor) -> Tensor:
        return x.transpose(-1, -2)


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


class Boolean(TensorSemiring):
    """Sums are "or", products are "and"; every positive weight is true."""

    def lift(self, weights: Tensor) -> Tensor:
        return weights != 0

    def to_log(self, x: Tensor) -> Tensor:
        return safe_log(x.to(self.dtype))

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        return x & y

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return x | y

    def sum(self, x: Tensor) -> Tensor:
        return x.any(-1)

    def matmul(self, x: Tensor, weights: Tensor, positive: bool = False) -> Tensor:
        # float32 whatever the circuit's type: only whether a count is positive matters.
        return contract(x.float(), (weights != 0).float()) > 0

    def scatter(self, x: Tensor, index: Tensor, size: int) -> Tensor:
        counts = torch.zeros((*x.shape[:-1], size), dtype=torch.int32, device=x.device)
        return counts.index_add(-1, index, x.int()) > 0
