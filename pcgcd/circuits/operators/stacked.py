"""Operators one above the other, or side by side: the emission and the start of a mixture."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from torch import Tensor

from pcgcd.circuits.operators.base import PLAIN, Operator
from pcgcd.circuits.operators.block_diagonal import block_diagonal
from pcgcd.circuits.operators.blocks import Blocks
from pcgcd.circuits.operators.composition import compose, split_selection
from pcgcd.circuits.semirings import Semiring, Value
from pcgcd.errors import InvalidParameterError

__all__ = ["SideBySide", "Stacked", "side_by_side", "stacked"]


class Stacked(Blocks):
    """The rows of one block above those of the next; all have the same columns."""

    def __init__(self, *blocks: Operator) -> None:
        """Keep the blocks, from top to bottom."""
        super().__init__(*blocks)
        if len(set(self._sizes(1))) > 1:
            raise InvalidParameterError(
                f"operators one above the other must have equally many columns, but have "
                f"{self._sizes(1)}"
            )

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self._sizes(0)), self.blocks[0].shape[1]

    def matvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        return semiring.concat([block.matvec(x, semiring) for block in self.blocks])

    def rmatvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        pieces = zip(self.blocks, self._split(x, 0, semiring))
        return reduce(semiring.add, (block.rmatvec(piece, semiring) for block, piece in pieces))

    def rows(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        return self._collected(index, 0, lambda block, i: block.rows(i, semiring), semiring)

    def columns(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        return semiring.concat([block.columns(index, semiring) for block in self.blocks])

    def total(self, semiring: Semiring[Value] = PLAIN) -> Value:
        return semiring.concat([block.total(semiring) for block in self.blocks])


class SideBySide(Blocks):
    """The columns of one block before those of the next; all have the same rows."""

    def __init__(self, *blocks: Operator) -> None:
        """Keep the blocks, from left to right."""
        super().__init__(*blocks)
        if len(set(self._sizes(0))) > 1:
            raise InvalidParameterError(
                f"operators side by side must have equally many rows, but have {self._sizes(0)}"
            )

    @property
    def shape(self) -> tuple[int, int]:
        return self.blocks[0].shape[0], sum(self._sizes(1))

    def matvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        pieces = zip(self.blocks, self._split(x, 1, semiring))
        return reduce(semiring.add, (block.matvec(piece, semiring) for block, piece in pieces))

    def rmatvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        return semiring.concat([block.rmatvec(x, semiring) for block in self.blocks])

    def rows(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        return semiring.concat([block.rows(index, semiring) for block in self.blocks])

    def columns(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        return self._collected(index, 1, lambda block, i: block.columns(i, semiring), semiring)

    def total(self, semiring: Semiring[Value] = PLAIN) -> Value:
        return reduce(semiring.add, (block.total(semiring) for block in self.blocks))


def stacked(blocks: Sequence[Operator]) -> Operator:
    """The blocks one above the other, with their selections of rows pulled out in front.

    So the emission of several automata is still a gather from their few labels.
    """
    if len(blocks) == 1:
        return blocks[0]
    selections, cores = zip(*(split_selection(block) for block in blocks))
    return compose(block_diagonal(selections), Stacked(*cores))


def side_by_side(blocks: Sequence[Operator]) -> Operator:
    """The blocks side by side; of a single one, itself."""
    return blocks[0] if len(blocks) == 1 else SideBySide(*blocks)
