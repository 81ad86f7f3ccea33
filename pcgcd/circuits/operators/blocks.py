"""Operators next to one another, of which a mixture of chains is made.

Its steps are block-diagonal, its emissions stand one above the other, its starts side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import zip_longest
from typing import ClassVar

import torch
from torch import Tensor

from pcgcd.circuits.operators.base import PLAIN, Operator
from pcgcd.circuits.operators.composition import compose, split_selection
from pcgcd.circuits.operators.diagonal import Identity
from pcgcd.circuits.semirings import Semiring, Value
from pcgcd.errors import InvalidParameterError


class _Blocks(Operator):
    """An operator whose rows or columns (or both) belong to one block after the other."""

    _shared: ClassVar[tuple[tuple[int, str], ...]] = ()  # the axes that all blocks have in common

    def __init__(self, *blocks: Operator) -> None:
        if not blocks:
            raise InvalidParameterError(f"{type(self).__name__} needs at least one operator")
        self.blocks = blocks
        for axis, what in self._shared:
            if len(set(self._sizes(axis))) > 1:
                raise InvalidParameterError(
                    f"the operators of {type(self).__name__} must have equally many {what}, but "
                    f"have {self._sizes(axis)}"
                )

    @property
    def cost(self) -> int:
        return sum(block.cost for block in self.blocks)

    def _sizes(self, axis: int) -> list[int]:
        return [block.shape[axis] for block in self.blocks]

    def _pieces(
        self, x: Value, axis: int, semiring: Semiring[Value]
    ) -> Iterator[tuple[Operator, Value]]:
        """Each block, and the part of x (last axis) that belongs to its rows or columns."""
        sizes = self._sizes(axis)
        indices = torch.arange(sum(sizes), device=self.device).split(sizes)
        for block, index in zip(self.blocks, indices):
            yield block, semiring.gather(x, index)

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


class BlockDiagonal(_Blocks):
    """Blocks along the diagonal, zeros elsewhere."""

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self._sizes(0)), sum(self._sizes(1))

    def matvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        pieces = self._pieces(x, 1, semiring)
        return semiring.concat([block.matvec(piece, semiring) for block, piece in pieces])

    def rmatvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        pieces = self._pieces(x, 0, semiring)
        return semiring.concat([block.rmatvec(piece, semiring) for block, piece in pieces])

    def rows(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        return self._between_zeros(index, 0, lambda block, i: block.rows(i, semiring), semiring)

    def columns(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        return self._between_zeros(index, 1, lambda block, i: block.columns(i, semiring), semiring)

    def _between_zeros(
        self,
        index: Tensor,
        axis: int,
        look_up: Callable[[Operator, Tensor], Value],
        semiring: Semiring[Value],
    ) -> Value:
        zero = semiring.lift(index.new_zeros((1, 1)))
        parts = [
            semiring.where(own[:, None], look_up(block, local.where(own, 0)), zero)
            for block, own, local in self._places(index, axis)
        ]
        return semiring.concat(parts)

    def total(self, semiring: Semiring[Value] = PLAIN) -> Value:
        return semiring.concat([block.total(semiring) for block in self.blocks])

    def selection(self, rows: Tensor) -> Tensor | None:
        result, start = rows, 0
        for block, own, local in self._places(rows, 0):
            selected = block.selection(local.where(own, 0))
            if selected is None:
                return None
            result = (selected + start).where(own, result)
            start += block.shape[1]
        return result


class Stacked(_Blocks):
    """The rows of one block above those of the next; all have the same columns."""

    _shared = ((1, "columns"),)

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self._sizes(0)), self.blocks[0].shape[1]

    def matvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        return semiring.concat([block.matvec(x, semiring) for block in self.blocks])

    def rmatvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        pieces = self._pieces(x, 0, semiring)
        return reduce(semiring.add, (block.rmatvec(piece, semiring) for block, piece in pieces))

    def rows(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        return self._collected(index, 0, lambda block, i: block.rows(i, semiring), semiring)

    def columns(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        return semiring.concat([block.columns(index, semiring) for block in self.blocks])

    def total(self, semiring: Semiring[Value] = PLAIN) -> Value:
        return semiring.concat([block.total(semiring) for block in self.blocks])


class SideBySide(_Blocks):
    """The columns of one block before those of the next; all have the same rows."""

    _shared = ((0, "rows"),)

    @property
    def shape(self) -> tuple[int, int]:
        return self.blocks[0].shape[0], sum(self._sizes(1))

    def matvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        pieces = self._pieces(x, 1, semiring)
        return reduce(semiring.add, (block.matvec(piece, semiring) for block, piece in pieces))

    def rmatvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        return semiring.concat([block.rmatvec(x, semiring) for block in self.blocks])

    def rows(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        return semiring.concat([block.rows(index, semiring) for block in self.blocks])

    def columns(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        return self._collected(index, 1, lambda block, i: block.columns(i, semiring), semiring)

    def total(self, semiring: Semiring[Value] = PLAIN) -> Value:
        return reduce(semiring.add, (block.total(semiring) for block in self.blocks))


def block_diagonal(blocks: Sequence[Operator]) -> Operator:
    """Return the block-diagonal operator; of compositions, the composition of block-diagonal ones.

    So a Kronecker product can still apply the factors in the cheapest order.

    >>> block_diagonal([Identity(2), Identity(3)])
    Identity(5 x 5)
    """
    if len(blocks) == 1:
        return blocks[0]
    if all(isinstance(block, Identity) for block in blocks):
        return Identity(sum(block.shape[0] for block in blocks))
    ends = [Identity(block.shape[1]) for block in blocks]
    layers = zip_longest(*(block.factors for block in blocks))
    steps = [
        BlockDiagonal(*(factor or end for factor, end in zip(layer, ends))) for layer in layers
    ]
    return compose(*steps)


def stacked(blocks: Sequence[Operator]) -> Operator:
    """Return the blocks one above the other, with their selections of rows pulled out in front.

    So the emission of several automata is still a gather from their few labels.
    """
    if len(blocks) == 1:
        return blocks[0]
    selections, cores = zip(*(split_selection(block) for block in blocks))
    return compose(block_diagonal(selections), Stacked(*cores))


def side_by_side(blocks: Sequence[Operator]) -> Operator:
    """Return the blocks side by side; of a single one, itself."""
    return blocks[0] if len(blocks) == 1 else SideBySide(*blocks)
