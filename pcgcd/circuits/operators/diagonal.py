"""Diagonal operators: the identity, its multiples, and those with a weight for each unit."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pcgcd.circuits.operators.base import PLAIN, Operator
from pcgcd.circuits.semirings import Semiring, Value
from pcgcd.errors import InvalidParameterError


class _Diagonal(Operator):
    """A square operator that is its own transpose."""

    size: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    @property
    def cost(self) -> int:
        return self.size

    def rmatvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        return self.matvec(x, semiring)


@dataclass(frozen=True, repr=False)
class Identity(_Diagonal):
    """The identity on ``size`` units."""

    size: int

    @property
    def cost(self) -> int:
        return 0

    def matvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        return x

    def selection(self, rows: Tensor) -> Tensor:
        return rows


@dataclass(frozen=True, repr=False)
class Multiple(_Diagonal):
    """A number times the identity on ``size`` units, in the type of what it is applied to."""

    weight: float
    size: int

    def matvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        # A tensor without axes multiplies numbers of any type on any device.
        return semiring.mul(x, semiring.lift(torch.tensor(self.weight, dtype=torch.float64)))

    def __repr__(self) -> str:
        return f"{self.weight:g}"


class Diagonal(_Diagonal):
    """A diagonal of non-negative weights (or booleans), (size,)."""

    def __init__(self, weights: Tensor) -> None:
        if weights.dim() != 1:
            raise InvalidParameterError(
                f"a diagonal operator needs a vector, but got shape {tuple(weights.shape)}"
            )
        self.weights, self.size = weights, len(weights)

    def matvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        return semiring.mul(x, semiring.lift(self.weights))
