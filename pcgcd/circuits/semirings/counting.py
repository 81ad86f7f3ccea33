"""Exact integers of any size: path counts that overflow every float."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pcgcd.circuits.semirings.base import Semiring
from pcgcd.errors import StructuralPropertyError

Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.object_]]"


def _indices(index: Tensor) -> np.ndarray[Any, np.dtype[np.int64]]:
    result: np.ndarray[Any, np.dtype[np.int64]] = index.cpu().numpy()
    return result


def _log(number: int) -> float:
    return math.log(number) if number else float("-inf")


class Counting(Semiring[Integers]):
    """Arrays of Python integers. The weights must be whole numbers, as an automaton's are.

    It computes on the host, whatever the circuit's device: GPUs have no integers of this size.
    """

    def lift(self, weights: Tensor) -> Integers:
        numbers = weights.detach().cpu()
        if not numbers.is_floating_point():
            return numbers.to(torch.int64).numpy().astype(object)
        if not bool((numbers.isfinite() & (numbers == numbers.round())).all()):
            raise StructuralPropertyError(
                "the counting semiring needs whole-number weights, as an automaton has; this "
                "circuit has fractional ones. Count with the automaton alone, or use the real "
                "semiring"
            )
        return np.asarray(np.frompyfunc(int, 1, 1)(numbers.double().numpy()), dtype=object)

    def to_log(self, x: Integers) -> Tensor:
        flat = [_log(number) for number in np.ravel(x)]
        return torch.tensor(flat, dtype=self.dtype).reshape(self.shape(x))

    def mul(self, x: Integers, y: Integers) -> Integers:
        return np.asarray(x * y, dtype=object)

    def add(self, x: Integers, y: Integers) -> Integers:
        return np.asarray(x + y, dtype=object)

    def sum(self, x: Integers) -> Integers:
        return np.asarray(x.sum(-1), dtype=object)

    def matmul(self, x: Integers, weights: Tensor, positive: bool = False) -> Integers:
        lifted = self.lift(weights)
        if lifted.ndim == 2:
            return np.asarray(x @ lifted.T, dtype=object)
        return np.asarray((x[..., None, :] * lifted).sum(-1), dtype=object)

    def gather(self, x: Integers, index: Tensor) -> Integers:
        return x[..., _indices(index)]

    def scatter(self, x: Integers, index: Tensor, size: int) -> Integers:
        total = np.zeros((size, *x.shape[:-1]), dtype=object)
        np.add.at(total, _indices(index), np.moveaxis(x, -1, 0))
        return np.moveaxis(total, 0, -1)

    def take_rows(self, x: Integers, index: Tensor) -> Integers:
        return np.asarray(x[_indices(index)], dtype=object)

    def where(self, mask: Tensor, x: Integers, y: Integers) -> Integers:
        return np.where(mask.cpu().numpy(), x, y)

    def concat(self, parts: Sequence[Integers]) -> Integers:
        batch = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
        return np.concatenate(
            [np.broadcast_to(part, (*batch, part.shape[-1])) for part in parts], axis=-1
        )

    def shape(self, x: Integers) -> tuple[int, ...]:
        return tuple(x.shape)

    def reshape(self, x: Integers, shape: Sequence[int]) -> Integers:
        return x.reshape(tuple(shape))

    def swap(self, x: Integers) -> Integers:
        return np.swapaxes(x, -1, -2)
