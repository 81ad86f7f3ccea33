"""The emission of a product: for each token, the Kronecker product of two columns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from pcgcd.circuits.operators.base import PLAIN, Operator
from pcgcd.circuits.operators.composition import compose, split_selection
from pcgcd.circuits.operators.kronecker import kronecker
from pcgcd.circuits.semirings import Semiring, Value
from pcgcd.errors import VocabularyMismatchError

_CHUNK = 1 << 24


class RowwiseKronecker(Operator):
    """``B[(i, j), v] = left[i, v] * right[j, v]`` (Thm 4.4), never written out.

    Sums over tokens go row by row of one side (the outer one) through the other, whichever way
    costs less, a bounded number of rows at a time.
    """

    def __init__(self, left: Operator, right: Operator) -> None:
        if left.shape[1] != right.shape[1]:
            raise VocabularyMismatchError(
                f"cannot multiply emissions over {left.shape[1]} and {right.shape[1]} tokens; "
                "both operands must be built for one vocabulary"
            )
        self.left, self.right = left, right
        tokens = left.shape[1]
        outer_left = left.shape[0] * (tokens + right.cost)
        outer_right = right.shape[0] * (tokens + left.cost)
        self._left_is_outer = outer_left <= outer_right
        self._cost = min(outer_left, outer_right)

    @property
    def shape(self) -> tuple[int, int]:
        return self.left.shape[0] * self.right.shape[0], self.left.shape[1]

    @property
    def cost(self) -> int:
        return self._cost

    @cached_property
    def _totals(self) -> dict[Semiring[Any], Any]:
        return {}

    def _outer_rows(self, batch: int) -> Iterator[Tensor]:
        """Row indices of the outer side, in chunks that fit into memory beside the batch."""
        outer = self.left if self._left_is_outer else self.right
        width = max(1, batch * outer.shape[1])
        yield from torch.arange(outer.shape[0], device=self.device).split(max(1, _CHUNK // width))

    def matvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        outer, inner = self._sides()
        *batch, tokens = semiring.shape(x)
        column = semiring.reshape(x, (*batch, 1, tokens))
        parts = []
        for index in self._outer_rows(math.prod(batch)):
            rows = semiring.mul(column, outer.rows(index, semiring))  # (..., chunk, V)
            parts.append(semiring.swap(inner.matvec(rows, semiring)))  # (..., inner, chunk)
        message = semiring.concat(parts) if len(parts) > 1 else parts[0]  # (..., inner, outer)
        return semiring.flatten(semiring.swap(message) if self._left_is_outer else message)

    def rmatvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        outer, inner = self._sides()
        message = semiring.unflatten(x, self.left.shape[0], self.right.shape[0])
        message = semiring.swap(message) if self._left_is_outer else message  # (..., inner, outer)
        result: Value | None = None
        for index in self._outer_rows(math.prod(semiring.shape(message)[:-2])):
            part = semiring.swap(semiring.gather(message, index))  # (..., chunk, inner)
            scores = semiring.mul(inner.rmatvec(part, semiring), outer.rows(index, semiring))
            partial = semiring.sum(semiring.swap(scores))  # (..., V)
            result = partial if result is None else semiring.add(result, partial)
        assert result is not None, "an operator has at least one row"
        return result

    def total(self, semiring: Semiring[Value] = PLAIN) -> Value:
        """Return the sum over the vocabulary is kept: every query asks for it."""
        if self.requires_grad:
            return super().total(semiring)
        if semiring not in self._totals:
            self._totals[semiring] = super().total(semiring)
        kept: Value = self._totals[semiring]
        return kept

    def _sides(self) -> tuple[Operator, Operator]:
        return (self.left, self.right) if self._left_is_outer else (self.right, self.left)

    def rows(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        right = self.right.shape[0]
        return semiring.mul(
            self.left.rows(index // right, semiring), self.right.rows(index % right, semiring)
        )

    def columns(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        return semiring.outer(
            self.left.columns(index, semiring), self.right.columns(index, semiring)
        )

    def __repr__(self) -> str:
        return f"({self.left!r} ⊗_row {self.right!r})"


def rowwise_kronecker(left: Operator, right: Operator) -> Operator:
    """Return the row-wise Kronecker product, with the selections of both sides pulled out in front.

    ``(G_a M_a) ⊗_row (G_b M_b) = (G_a ⊗ G_b)(M_a ⊗_row M_b)``: an automaton's E edges share few
    labels, so the expensive part is of size H x L, not H x E.
    """
    left_selection, left_core = split_selection(left)
    right_selection, right_core = split_selection(right)
    core = RowwiseKronecker(left_core, right_core)
    return compose(kronecker(left_selection, right_selection), core)
