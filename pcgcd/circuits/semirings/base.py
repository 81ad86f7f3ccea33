"""What a circuit needs of the numbers it computes with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import torch
from torch import Tensor

Value = TypeVar("Value")
Self = TypeVar("Self", bound="Semiring")  # type: ignore[type-arg]


@dataclass(frozen=True)
class Semiring(ABC, Generic[Value]):
    """A commutative semiring on arrays: the last axis holds units, the others are batches.

    Operators and layers are written once against this interface and so work in every semiring.
    What an array of elements is, is the semiring's own affair (a tensor, a mantissa with an
    exponent, an array of Python integers); nobody else looks inside.

    Attributes:
        dtype: The floating type that real weights are lifted to (ignored by discrete semirings).
    """

    dtype: torch.dtype = torch.float32

    def with_dtype(self: Self, dtype: torch.dtype) -> Self:
        """Return the same semiring in another floating type."""
        return self if dtype == self.dtype else replace(self, dtype=dtype)

    # -- in and out ---------------------------------------------------------------------------

    @abstractmethod
    def lift(self, weights: Tensor) -> Value:
        """Embed non-negative real weights (or booleans)."""

    @abstractmethod
    def to_log(self, x: Value) -> Tensor:
        """Logarithms of the elements as reals; exactly -inf for the semiring's zero."""

    # -- arithmetic ---------------------------------------------------------------------------

    @abstractmethod
    def mul(self, x: Value, y: Value) -> Value:
        """Element-wise product, with broadcasting."""

    @abstractmethod
    def add(self, x: Value, y: Value) -> Value:
        """Element-wise sum, with broadcasting."""

    @abstractmethod
    def sum(self, x: Value) -> Value:
        """Sum over the last axis."""

    @abstractmethod
    def matmul(self, x: Value, weights: Tensor, positive: bool = False) -> Value:
        """``y[..., i] = sum_j weights[i, j] x[..., j]`` for real weights (I, J).

        Weights of three axes (B, I, J) multiply block by block: x is (..., B, J), y (..., B, I).

        Args:
            x: The elements, (..., J) or (..., B, J).
            weights: Non-negative real weights.
            positive: A promise that every weight is well away from zero, so that the largest
                term of each sum cannot be lost; saves a check.
        """

    # -- moving elements ----------------------------------------------------------------------

    @abstractmethod
    def gather(self, x: Value, index: Tensor) -> Value:
        """``y[..., e] = x[..., index[e]]``."""

    @abstractmethod
    def scatter(self, x: Value, index: Tensor, size: int) -> Value:
        """``y[..., s] = sum of x[..., e] over e with index[e] == s``."""

    @abstractmethod
    def take_rows(self, x: Value, index: Tensor) -> Value:
        """``y[i, ...] = x[index[i], ...]`` on the first axis."""

    @abstractmethod
    def where(self, mask: Tensor, x: Value, y: Value) -> Value:
        """Elements of x where the (broadcastable) mask holds, of y elsewhere."""

    @abstractmethod
    def concat(self, parts: Sequence[Value]) -> Value:
        """Join along the last axis; the other axes are broadcast."""

    @abstractmethod
    def shape(self, x: Value) -> tuple[int, ...]:
        """Return the shape of the array."""

    @abstractmethod
    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """Return the same elements in another shape."""

    @abstractmethod
    def swap(self, x: Value) -> Value:
        """Exchange the last two axes."""

    # -- derived ------------------------------------------------------------------------------

    def unflatten(self, x: Value, left: int, right: int) -> Value:
        """View the last axis (left * right) as two, the left one major."""
        return self.reshape(x, (*self.shape(x)[:-1], left, right))

    def flatten(self, x: Value) -> Value:
        """Join the last two axes into one."""
        *batch, left, right = self.shape(x)
        return self.reshape(x, (*batch, left * right))

    def outer(self, x: Value, y: Value) -> Value:
        """``z[..., i * J + j] = x[..., i] y[..., j]``: the Kronecker product of two vectors."""
        left = self.reshape(x, (*self.shape(x), 1))
        shape = self.shape(y)
        right = self.reshape(y, (*shape[:-1], 1, shape[-1]))
        return self.flatten(self.mul(left, right))
