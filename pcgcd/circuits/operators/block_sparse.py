"""Dense blocks on a sparse pattern: how pyjuice stores its sum weights."""

from __future__ import annotations

from torch import Tensor

from pcgcd.circuits.operators.base import PLAIN, Operator
from pcgcd.circuits.semirings import Semiring, Value
from pcgcd.errors import InvalidParameterError


class BlockSparse(Operator):
    """Block k, of shape (r, c), stands at block row ``row[k]`` and block column ``column[k]``."""

    def __init__(
        self, row: Tensor, column: Tensor, blocks: Tensor, num_blocks: tuple[int, int]
    ) -> None:
        """Hold blocks (number of blocks, r, c) and their places in a grid of ``num_blocks``."""
        if blocks.dim() != 3 or not len(blocks) == len(row) == len(column):
            raise InvalidParameterError(
                f"expected blocks of shape (K, r, c) with K places, but got shape "
                f"{tuple(blocks.shape)} with {len(row)} rows and {len(column)} columns"
            )
        self.row, self.column, self.weights = row, column, blocks
        self.num_blocks = num_blocks

    @property
    def shape(self) -> tuple[int, int]:
        return (
            self.num_blocks[0] * self.weights.shape[1],
            self.num_blocks[1] * self.weights.shape[2],
        )

    @property
    def cost(self) -> int:
        return self.weights.numel()

    def matvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        return self._apply(x, self.weights, self.column, self.row, 0, semiring)

    def rmatvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        return self._apply(x, self.weights.mT, self.row, self.column, 1, semiring)

    def _apply(
        self,
        x: Value,
        blocks: Tensor,
        source: Tensor,
        target: Tensor,
        axis: int,
        semiring: Semiring[Value],
    ) -> Value:
        message = semiring.unflatten(x, self.num_blocks[1 - axis], blocks.shape[2])
        message = semiring.swap(semiring.gather(semiring.swap(message), source))
        message = semiring.swap(semiring.matmul(message, blocks))  # (..., r, K)
        message = semiring.scatter(message, target, self.num_blocks[axis])
        return semiring.flatten(semiring.swap(message))
