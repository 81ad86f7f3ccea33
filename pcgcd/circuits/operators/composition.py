"""Products of operators, applied one after the other."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

import torch
from torch import Tensor

from pcgcd.circuits.operators.base import PLAIN, Operator
from pcgcd.circuits.operators.diagonal import Identity
from pcgcd.circuits.semirings import Semiring, Value
from pcgcd.errors import InvalidParameterError


class Composition(Operator):
    """``W_1 W_2 ... W_k``, never multiplied out. The automaton's ``T_in T_out`` is one."""

    def __init__(self, *operators: Operator) -> None:
        if not operators:
            raise InvalidParameterError("a composition needs at least one operator")
        for outer, inner in pairwise(operators):
            if outer.shape[1] != inner.shape[0]:
                raise InvalidParameterError(
                    f"cannot compose {outer!r} with {inner!r}: the first takes "
                    f"{outer.shape[1]} units, the second gives {inner.shape[0]}"
                )
        self.operators = operators

    @property
    def shape(self) -> tuple[int, int]:
        return self.operators[0].shape[0], self.operators[-1].shape[1]

    @property
    def factors(self) -> tuple[Operator, ...]:
        return tuple(factor for operator in self.operators for factor in operator.factors)

    @property
    def cost(self) -> int:
        return sum(operator.cost for operator in self.operators)

    def matvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        return reduce(lambda v, op: op.matvec(v, semiring), reversed(self.operators), x)

    def rmatvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        return reduce(lambda v, op: op.rmatvec(v, semiring), self.operators, x)

    def rows(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        first, *rest = self.operators
        if not rest:
            return first.rows(index, semiring)
        selected = first.selection(index)
        if selected is not None:
            return Composition(*rest).rows(selected, semiring)
        return Composition(*rest).rmatvec(first.rows(index, semiring), semiring)

    def columns(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        *rest, last = self.operators
        value = last.columns(index, semiring)
        return Composition(*rest).matvec(value, semiring) if rest else value

    def total(self, semiring: Semiring[Value] = PLAIN) -> Value:
        *rest, last = self.operators
        value = last.total(semiring)
        return Composition(*rest).matvec(value, semiring) if rest else value

    def selection(self, rows: Tensor) -> Tensor | None:
        selected: Tensor | None = rows
        for operator in self.operators:
            if selected is None:
                break
            selected = operator.selection(selected)
        return selected

    def __repr__(self) -> str:
        return " @ ".join(repr(operator) for operator in self.operators)


def compose(*operators: Operator) -> Operator:
    """Return the composition, without the identities in it.

    >>> compose(Identity(3), Identity(3))
    Identity(3 x 3)
    """
    kept = [operator for operator in operators if not isinstance(operator, Identity)]
    if len(kept) > 1:
        return Composition(*kept)
    return kept[0] if kept else operators[0]


def split_selection(operator: Operator) -> tuple[Operator, Operator]:
    """Write an operator as (selection of rows) @ core, so that repeated rows are stored once."""
    probe = torch.zeros(1, dtype=torch.long, device=operator.device)
    factors = operator.factors
    if len(factors) > 1 and factors[0].selection(probe) is not None:
        return factors[0], compose(*factors[1:])
    return Identity(operator.shape[0]), operator
