"""The max-product semiring, in log space: best paths."""

from __future__ import annotations

import torch
from torch import Tensor

from pcgcd.circuits.semirings.log import LogSpace

__all__ = ["Maximum"]

_CHUNK = 1 << 24


class Maximum(LogSpace):
    """Sums become maxima, products become sums of logarithms (Viterbi)."""

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.maximum(x, y)

    def sum(self, x: Tensor) -> Tensor:
        return x.amax(-1)

    def matmul(self, x: Tensor, weights: Tensor, positive: bool = False) -> Tensor:
        log_weights = self.lift(weights)
        rows = max(1, _CHUNK // max(1, x.numel()))
        parts = [(x.unsqueeze(-2) + part).amax(-1) for part in log_weights.split(rows, dim=-2)]
        return torch.cat(parts, dim=-1)

    def scatter(self, x: Tensor, index: Tensor, size: int) -> Tensor:
        bottom = x.new_full((*x.shape[:-1], size), float("-inf"))
        return bottom.scatter_reduce(-1, index.expand(x.shape), x, "amax")
