"""Operators that act side by side, each on its own units: the steps of a mixture of chains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

from torch import Tensor

from pcgcd.circuits.operators.base import PLAIN, Operator
from pcgcd.circuits.operators.blocks import Blocks
from pcgcd.circuits.operators.composition import compose
from pcgcd.circuits.operators.diagonal import Identity
from pcgcd.circuits.semirings import Semiring, Value

__all__ = ["BlockDiagonal", "block_diagonal"]


class BlockDiagonal(Blocks):
    """Blocks along the diagonal, zeros elsewhere."""

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self._sizes(0)), sum(self._sizes(1))

    def matvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        pieces = zip(self.blocks, self._split(x, 1, semiring))
        return semiring.concat([block.matvec(piece, semiring) for block, piece in pieces])

    def rmatvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        pieces = zip(self.blocks, self._split(x, 0, semiring))
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


def block_diagonal(blocks: Sequence[Operator]) -> Operator:
    """The block-diagonal operator; of compositions, the composition of block-diagonal ones.

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
