"""Kronecker products, applied factor by factor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TypeAlias

from torch import Tensor

from pcgcd.circuits.operators.base import PLAIN, Operator
from pcgcd.circuits.operators.diagonal import Identity
from pcgcd.circuits.semirings import Semiring, Value

# Whether an operator is applied on the left side, and the operator.
_Step: TypeAlias = "tuple[bool, Operator]"


def _cheapest_order(
    left: tuple[Operator, ...], right: tuple[Operator, ...], transposed: bool
) -> tuple[int, tuple[_Step, ...]]:
    """Interleave two lists of factors (applied in order) so that the total cost is least.

    A factor on one side costs its own cost times the current size of the other side. So
    ``A_h ⊗ (T_in T_out)`` applies T_out first, A_h on the few states, T_in last:
    O(H^2 S + H E), not O(H^2 E).
    """
    axis = 0 if transposed else 1

    def sizes(factors: tuple[Operator, ...]) -> list[int]:
        return [factors[0].shape[axis], *(factor.shape[1 - axis] for factor in factors)]

    left_sizes, right_sizes = sizes(left), sizes(right)
    best: dict[tuple[int, int], tuple[int, tuple[_Step, ...]]] = {(0, 0): (0, ())}
    for i in range(len(left) + 1):
        for j in range(len(right) + 1):
            options = []
            if i:
                cost, steps = best[i - 1, j]
                extra = left[i - 1].cost * right_sizes[j]
                options.append((cost + extra, (*steps, (True, left[i - 1]))))
            if j:
                cost, steps = best[i, j - 1]
                extra = right[j - 1].cost * left_sizes[i]
                options.append((cost + extra, (*steps, (False, right[j - 1]))))
            if options:
                best[i, j] = min(options, key=lambda option: option[0])
    return best[len(left), len(right)]


class Kronecker(Operator):
    """``left ⊗ right`` on units (i, j), numbered i * (units of right) + j.

    The message of i * j units is viewed as a matrix, and each side is applied along its own axis
    (Eq. 5 of the paper); a side that is a composition is applied in the cheapest order.
    """

    def __init__(self, left: Operator, right: Operator) -> None:
        self.left, self.right = left, right

    @property
    def shape(self) -> tuple[int, int]:
        return (self.left.shape[0] * self.right.shape[0], self.left.shape[1] * self.right.shape[1])

    @property
    def cost(self) -> int:
        return self._plan[0]

    @cached_property
    def _plan(self) -> tuple[int, tuple[_Step, ...]]:
        return _cheapest_order(self.left.factors[::-1], self.right.factors[::-1], False)

    @cached_property
    def _transposed_plan(self) -> tuple[int, tuple[_Step, ...]]:
        return _cheapest_order(self.left.factors, self.right.factors, True)

    def matvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        steps = [(on_left, operator.matvec) for on_left, operator in self._plan[1]]
        return self._applied(x, 1, steps, semiring)

    def rmatvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        steps = [(on_left, operator.rmatvec) for on_left, operator in self._transposed_plan[1]]
        return self._applied(x, 0, steps, semiring)

    def _applied(
        self,
        x: Value,
        axis: int,
        steps: Iterable[tuple[bool, Callable[[Value, Semiring[Value]], Value]]],
        semiring: Semiring[Value],
    ) -> Value:
        message = semiring.unflatten(x, self.left.shape[axis], self.right.shape[axis])
        for on_left, apply in steps:
            message = semiring.swap(message) if on_left else message
            message = apply(message, semiring)
            message = semiring.swap(message) if on_left else message
        return semiring.flatten(message)

    def rows(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        right = self.right.shape[0]
        return semiring.outer(
            self.left.rows(index // right, semiring), self.right.rows(index % right, semiring)
        )

    def columns(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        right = self.right.shape[1]
        return semiring.outer(
            self.left.columns(index // right, semiring), self.right.columns(index % right, semiring)
        )

    def selection(self, rows: Tensor) -> Tensor | None:
        size = self.right.shape[0]
        left, right = self.left.selection(rows // size), self.right.selection(rows % size)
        return None if left is None or right is None else left * self.right.shape[1] + right

    def __repr__(self) -> str:
        return f"({self.left!r} ⊗ {self.right!r})"


def kronecker(left: Operator, right: Operator) -> Operator:
    """Return the Kronecker product; of two identities, the identity.

    >>> kronecker(Identity(2), Identity(3))
    Identity(6 x 6)
    """
    if isinstance(left, Identity) and isinstance(right, Identity):
        return Identity(left.size * right.size)
    if isinstance(left, Identity) and left.size == 1:
        return right
    if isinstance(right, Identity) and right.size == 1:
        return left
    return Kronecker(left, right)
