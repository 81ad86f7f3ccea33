"""Non-negative reals with a scale of their own each: the default semiring."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pcgcd.basics.numbers import normalised
from pcgcd.circuits.semirings.base import Semiring
from pcgcd.circuits.semirings.rescue import entry_chunks, lost_entries
from pcgcd.circuits.semirings.tensors import add_up, add_up_at, broadcast_concat, contract, safe_log

# The exponent given to zero: below every real exponent, and far from overflow when added twice.
_ZERO_EXPONENT = -(1 << 28)
_LOG_2 = math.log(2.0)


class Scaled(NamedTuple):
    """The numbers ``mantissa * 2 ** exponent``."""

    mantissa: Tensor  # in [1/2, 1), or exactly 0
    exponent: Tensor  # 32-bit integers of the same shape


def _normalise(mantissa: Tensor, exponent: Tensor) -> Scaled:
    with torch.no_grad():
        # 2 ** -shift must itself be finite.
        lowest = round(math.log2(torch.finfo(mantissa.dtype).tiny))
        shift = torch.frexp(mantissa).exponent.clamp(min=lowest)
        exponent = torch.where(mantissa == 0, _ZERO_EXPONENT, exponent + shift)
        factor = torch.exp2(-shift.to(mantissa.dtype))
    return Scaled(mantissa * factor, exponent)


def _shifted(x: Scaled, shift: Tensor) -> Tensor:
    """The plain numbers ``x / 2 ** shift``; a shift is at least the exponent."""
    difference = (x.exponent - shift).clamp(min=-2000)
    return x.mantissa * torch.exp2(difference.to(x.mantissa.dtype))


class Real(Semiring[Scaled]):
    """Floating-point numbers with an integer exponent beside each: real with scaling.

    Nothing underflows or overflows, zero is exactly zero, and the relative precision does not
    depend on the size of a number. (A float32 logarithm of a probability of 4,096 tokens is near
    -20,000 and has a spacing of 0.002; this representation keeps 24 bits.) Gradients pass through
    the mantissas.
    """

    def lift(self, weights: Tensor) -> Scaled:
        mantissa = weights.to(self.dtype)
        return _normalise(mantissa, torch.zeros_like(mantissa, dtype=torch.int32))

    def to_log(self, x: Scaled) -> Tensor:
        log = safe_log(x.mantissa.double()) + x.exponent.double() * _LOG_2
        return log.to(x.mantissa.dtype)

    def div(self, x: Scaled, y: Scaled) -> Scaled:
        """Element-wise quotient; the divisor must not be zero."""
        return _normalise(x.mantissa / y.mantissa, x.exponent - y.exponent)

    def normalised(self, x: Scaled) -> Tensor:
        """Each row of the last axis divided by its sum, as plain numbers (zero rows stay zero)."""
        return normalised(_shifted(x, x.exponent.amax(-1, keepdim=True)))

    def mul(self, x: Scaled, y: Scaled) -> Scaled:
        return _normalise(x.mantissa * y.mantissa, x.exponent + y.exponent)

    def add(self, x: Scaled, y: Scaled) -> Scaled:
        shift = torch.maximum(x.exponent, y.exponent)
        return _normalise(_shifted(x, shift) + _shifted(y, shift), shift)

    def sum(self, x: Scaled) -> Scaled:
        shift = x.exponent.amax(-1, keepdim=True)
        return _normalise(add_up(_shifted(x, shift)), shift.squeeze(-1))

    def matmul(self, x: Scaled, weights: Tensor, positive: bool = False) -> Scaled:
        weights = weights.to(self.dtype)
        shift = x.exponent.amax(-1, keepdim=True)
        row = _shifted(x, shift)
        y = contract(row, weights)
        lost = None if positive else lost_entries(row, x.mantissa != 0, y, weights)
        result = _normalise(y, shift.expand(y.shape))
        return result if lost is None else self._rescue(result, lost, x, weights)

    def _rescue(self, y: Scaled, lost: Tensor, x: Scaled, weights: Tensor) -> Scaled:
        """Replace the entries of y that lost terms by sums taken at their own scale."""
        mantissa, exponent = y
        for entries in entry_chunks(lost, weights.shape[-1]):
            where = entries.unbind(-1)
            rows, columns = where[:-1], where[-1]
            pick = (columns,) if weights.dim() == 2 else (rows[-1], columns)
            terms = self.mul(Scaled(x.mantissa[rows], x.exponent[rows]), self.lift(weights[pick]))
            value = self.sum(terms)
            mantissa = mantissa.index_put(where, value.mantissa)
            exponent = exponent.index_put(where, value.exponent)
        return Scaled(mantissa, exponent)

    def gather(self, x: Scaled, index: Tensor) -> Scaled:
        return Scaled(*(part.index_select(-1, index) for part in x))

    def scatter(self, x: Scaled, index: Tensor, size: int) -> Scaled:
        batch = x.mantissa.shape[:-1]
        shift = x.exponent.new_full((*batch, size), _ZERO_EXPONENT)
        shift = shift.scatter_reduce(-1, index.expand(x.exponent.shape), x.exponent, "amax")
        plain = _shifted(x, shift.index_select(-1, index))
        return _normalise(add_up_at(plain, index, size), shift)

    def take_rows(self, x: Scaled, index: Tensor) -> Scaled:
        return Scaled(*(part.index_select(0, index) for part in x))

    def where(self, mask: Tensor, x: Scaled, y: Scaled) -> Scaled:
        return Scaled(*(torch.where(mask, *parts) for parts in zip(x, y)))

    def concat(self, parts: Sequence[Scaled]) -> Scaled:
        return Scaled(*map(broadcast_concat, zip(*parts)))

    def shape(self, x: Scaled) -> tuple[int, ...]:
        return tuple(x.mantissa.shape)

    def reshape(self, x: Scaled, shape: Sequence[int]) -> Scaled:
        return Scaled(*(part.reshape(tuple(shape)) for part in x))

    def swap(self, x: Scaled) -> Scaled:
        return Scaled(*(part.transpose(-1, -2) for part in x))
