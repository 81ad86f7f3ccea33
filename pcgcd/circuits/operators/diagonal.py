"""Diagonal operators, the identity among them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pcgcd.circuits.operators.base import PLAIN, Operator
from pcgcd.circuits.operators.weighted import Weighted
from pcgcd.circuits.semirings import Semiring, Value
from pcgcd.errors import InvalidParameterError

__all__ = ["Diagonal", "Identity"]


@dataclass(frozen=True, repr=False)
class Identity(Operator):
    """The identity on ``size`` units."""

    size: int

    @property
    def shape(self) -> tuple[int, int]:
        """See :class:`Operator`."""
        return self.size, self.size

    @property
    def cost(self) -> int:
        """See :class:`Operator`."""
        return 0

    def matvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        """See :class:`Operator`."""
        return x

    def rmatvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        """See :class:`Operator`."""
        return x

    def selection(self, rows: Tensor) -> Tensor:
        """See :class:`Operator`."""
        return rows


class Diagonal(Weighted):
    """A diagonal of non-negative weights (or booleans)."""

    def __init__(self, weights: Tensor) -> None:
        """Hold the (size,) weights; they are not copied."""
        if weights.dim() != 1:
            raise InvalidParameterError(
                f"a diagonal operator needs a vector, but got shape {tuple(weights.shape)}"
            )
        self.weights = weights

    @property
    def shape(self) -> tuple[int, int]:
        """See :class:`Operator`."""
        return self.weights.shape[0], self.weights.shape[0]

    @property
    def cost(self) -> int:
        """See :class:`Operator`."""
        return self.weights.shape[0]

    def matvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        """See :class:`Operator`."""
        return semiring.mul(x, semiring.lift(self.weights))

    def rmatvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        """See :class:`Operator`."""
        return self.matvec(x, semiring)

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Diagonal:
        """See :class:`Operator`."""
        return Diagonal(self._moved(device, dtype))
