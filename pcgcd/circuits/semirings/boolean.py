"""The boolean semiring: possible or impossible."""

from __future__ import annotations

import torch
from torch import Tensor

from pcgcd.circuits.semirings.linear import safe_log
from pcgcd.circuits.semirings.tensors import TensorSemiring, contract

__all__ = ["Boolean"]


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
