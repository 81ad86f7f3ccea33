"""The plumbing shared by semirings whose elements are plain tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pcgcd.circuits.semirings.base import Semiring

__all__ = ["TensorSemiring", "add_up", "add_up_at", "broadcast_concat", "contract"]


# Sums over a vocabulary lose digits in single precision: past this many terms, partial sums are
# added up in double precision.
_MANY = 512


def contract(x: Tensor, weights: Tensor) -> Tensor:
    """The real product of :meth:`Semiring.matmul`, for (I, J) or (B, I, J) weights."""
    if weights.dim() == 3:
        return torch.einsum("...bj,bij->...bi", x, weights)
    if x.shape[-1] <= _MANY or x.dtype == torch.float64:
        return x @ weights.mT
    total = x.new_zeros((), dtype=torch.float64)
    for row, columns in zip(x.split(_MANY, -1), weights.split(_MANY, -1)):
        total = total + (row @ columns.mT).double()
    return total.to(x.dtype)


def add_up(x: Tensor) -> Tensor:
    """The sum over the last axis, in double precision on the way."""
    return x.sum(-1, dtype=torch.float64).to(x.dtype)


def add_up_at(x: Tensor, index: Tensor, size: int) -> Tensor:
    """The sums of :meth:`Semiring.scatter` of real numbers, in double precision on the way."""
    total = x.new_zeros((*x.shape[:-1], size), dtype=torch.float64)
    return total.index_add(-1, index, x.double()).to(x.dtype)


def broadcast_concat(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate along the last axis after broadcasting the others."""
    batch = torch.broadcast_shapes(*(part.shape[:-1] for part in parts))
    return torch.cat([part.expand(*batch, part.shape[-1]) for part in parts], dim=-1)


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
