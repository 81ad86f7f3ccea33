"""Logarithms of non-negative reals: products become sums, and sums log-sum-exp or maxima."""

from __future__ import annotations

import torch
from torch import Tensor

from pcgcd.circuits.semirings.rescue import entry_chunks, lost_entries
from pcgcd.circuits.semirings.tensors import TensorSemiring, add_up, add_up_at, contract, safe_log

_CHUNK = 1 << 24


def _finite(shift: Tensor) -> Tensor:
    """A row of zeros has the shift -inf: replace it by 0, which leaves -inf entries alone."""
    return torch.where(torch.isinf(shift), torch.zeros_like(shift), shift).detach()


class _LogSpace(TensorSemiring):
    """Elements are logarithms: products are sums, and zero is exactly -inf."""

    def lift(self, weights: Tensor) -> Tensor:
        return safe_log(weights.to(self.dtype))

    def to_log(self, x: Tensor) -> Tensor:
        return x

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


class Log(_LogSpace):
    """Log space; zero is exactly -inf."""

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return self.sum(torch.stack(torch.broadcast_tensors(x, y), dim=-1))

    def sum(self, x: Tensor) -> Tensor:
        shift = _finite(x.amax(-1, keepdim=True))
        return safe_log(add_up((x - shift).exp())) + shift.squeeze(-1)

    def matmul(self, x: Tensor, weights: Tensor, positive: bool = False) -> Tensor:
        weights = weights.to(self.dtype)
        shift = _finite(x.amax(-1, keepdim=True))
        row = (x - shift).exp()
        y = contract(row, weights)
        lost = None if positive else lost_entries(row, x > float("-inf"), y, weights)
        result = safe_log(y) + shift
        if lost is None:
            return result
        for entries in entry_chunks(lost, weights.shape[-1]):
            where = entries.unbind(-1)
            rows, columns = where[:-1], where[-1]
            pick = (columns,) if weights.dim() == 2 else (rows[-1], columns)
            result = result.index_put(where, self.sum(x[rows] + self.lift(weights[pick])))
        return result

    def scatter(self, x: Tensor, index: Tensor, size: int) -> Tensor:
        shift = _finite(_largest_at(x.detach(), index, size))
        plain = (x - shift.index_select(-1, index)).exp()
        return safe_log(add_up_at(plain, index, size)) + shift


class Maximum(_LogSpace):
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
        return _largest_at(x, index, size)


def _largest_at(x: Tensor, index: Tensor, size: int) -> Tensor:
    bottom = x.new_full((*x.shape[:-1], size), float("-inf"))
    return bottom.scatter_reduce(-1, index.expand(x.shape), x, "amax")
