"""What operators share that put others next to one another."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from pcgcd.circuits.operators.base import Operator
from pcgcd.circuits.semirings import Semiring, Value
from pcgcd.errors import InvalidParameterError

__all__ = ["Blocks"]


class Blocks(Operator):
    """An operator whose rows or columns (or both) belong to one block after the other."""

    def __init__(self, *blocks: Operator) -> None:
        """Keep the blocks, in order."""
        if not blocks:
            raise InvalidParameterError(f"{type(self).__name__} needs at least one operator")
        self.blocks = blocks

    @property
    def cost(self) -> int:
        return sum(block.cost for block in self.blocks)

    def _sizes(self, axis: int) -> list[int]:
        return [block.shape[axis] for block in self.blocks]

    def _split(self, x: Value, axis: int, semiring: Semiring[Value]) -> Iterator[Value]:
        """The part of x, along its last axis, that belongs to each block's rows or columns."""
        sizes = self._sizes(axis)
        for index in torch.arange(sum(sizes), device=self.device).split(sizes):
            yield semiring.gather(x, index)

    def _places(self, index: Tensor, axis: int) -> Iterator[tuple[Operator, Tensor, Tensor]]:
        """Each block, which of the indices are its own, and all of them counted from its first."""
        start = 0
        for block in self.blocks:
            local = index - start
            yield block, (local >= 0) & (local < block.shape[axis]), local
            start += block.shape[axis]

    def _collected(
        self,
        index: Tensor,
        axis: int,
        look_up: Callable[[Operator, Tensor], Value],
        semiring: Semiring[Value],
    ) -> Value:
        """What each block answers for its own indices, in the order of the indices."""
        found, order = [], []
        for block, own, local in self._places(index, axis):
            found.append(semiring.swap(look_up(block, local[own])))
            order.append(own.nonzero().flatten())
        return semiring.take_rows(semiring.swap(semiring.concat(found)), torch.cat(order).argsort())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(repr(block) for block in self.blocks)})"
