"""Linear operators: what a sum layer multiplies with, and what an input layer looks up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pcgcd.circuits.frozen import Frozen
from pcgcd.circuits.semirings import LINEAR, Linear, Semiring, Value
from pcgcd.errors import CircuitTooLargeError

if TYPE_CHECKING:
    from typing_extensions import Self

_DENSE_LIMIT = 1 << 27


class _Plain(Linear):
    """Ordinary numbers, in the widest floating type that takes part."""

    def lift(self, weights: Tensor) -> Tensor:
        return weights if weights.is_floating_point() else weights.to(self.dtype)

    def matmul(self, x: Tensor, weights: Tensor, positive: bool = False) -> Tensor:
        return super().matmul(x.to(torch.promote_types(x.dtype, weights.dtype)), weights)


# The semiring of a call that names none.
PLAIN: Any = _Plain()


class Operator(Frozen, ABC):
    """A non-negative matrix that is applied, never written out.

    A new operator needs three members: :attr:`shape`, :meth:`matvec` and :meth:`rmatvec`, written
    with the semiring's operations (by default ``PLAIN``, those of ordinary numbers). Its type, its
    device, its gradient and :meth:`to` follow from the tensors and operators among its attributes
    (also inside tuples, lists and dicts). The other methods have defaults that may be overridden
    for speed. :class:`pcgcd.testing.OperatorLaws` checks it.
    """

    # -- to be implemented --------------------------------------------------------------------

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(number of rows, number of columns)."""

    @abstractmethod
    def matvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        """``y[..., i] = sum_j W[i, j] x[..., j]``: (..., columns) to (..., rows)."""

    @abstractmethod
    def rmatvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        """``y[..., j] = sum_i W[i, j] x[..., i]``: (..., rows) to (..., columns)."""

    # -- what follows from the attributes -----------------------------------------------------

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors that this operator holds itself, not its parts."""
        return tuple(held for held in self._held if isinstance(held, Tensor))

    @property
    def parts(self) -> tuple[Operator, ...]:
        """The operators that this one is made of."""
        return tuple(held for held in self._held if isinstance(held, Operator))

    @property
    def dtype(self) -> torch.dtype | None:
        """The floating type of the weights; None where there is none, as with zeros and ones."""
        found = [tensor.dtype for tensor in self.tensors if tensor.is_floating_point()]
        found += [part.dtype for part in self.parts if part.dtype is not None]
        return reduce(torch.promote_types, found) if found else None

    @property
    def device(self) -> torch.device | None:
        """Where the tensors are; None when there are none."""
        return next((held.device for held in self._held if held.device is not None), None)

    @property
    def requires_grad(self) -> bool:
        """Whether some weight wants a gradient."""
        return any(held.requires_grad for held in self._held)

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        """Return the same operator with its tensors elsewhere, or in another floating type."""

        def move(held: Tensor | Operator) -> Tensor | Operator:
            if isinstance(held, Operator) or held.is_floating_point():
                return held.to(device=device, dtype=dtype)
            return held.to(device=device)

        if not self._held:
            return self
        moved = object.__new__(type(self))
        for name, value in self._attributes():
            moved.__dict__[name] = _mapped(value, move)
        return moved

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        self.__dict__.pop("_held", None)

    @cached_property
    def _held(self) -> tuple[Tensor | Operator, ...]:
        found: list[Tensor | Operator] = []

        def note(held: Tensor | Operator) -> Tensor | Operator:
            found.append(held)
            return held

        for _, value in self._attributes():
            _mapped(value, note)
        return tuple(found)

    def _attributes(self) -> Iterator[tuple[str, Any]]:
        """The attributes that were set; what was computed from them and cached is left out."""
        for name, value in vars(self).items():
            if not isinstance(getattr(type(self), name, None), cached_property):
                yield name, value

    # -- with defaults ------------------------------------------------------------------------

    @property
    def cost(self) -> int:
        """Multiplications of one ``matvec``; used to choose the cheapest order."""
        rows, columns = self.shape
        return rows * columns

    @property
    def factors(self) -> tuple[Operator, ...]:
        """Operators whose composition this is, the outermost first."""
        return (self,)

    def selection(self, rows: Tensor) -> Tensor | None:
        """For an operator whose rows are unit vectors: the column of each; otherwise None."""
        return None

    def rows(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        """Return the given rows, (number of indices, columns)."""
        return self.rmatvec(self._unit_vectors(index, self.shape[0], semiring), semiring)

    def columns(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        """Return the given columns, (number of indices, rows)."""
        return self.matvec(self._unit_vectors(index, self.shape[1], semiring), semiring)

    def total(self, semiring: Semiring[Value] = PLAIN) -> Value:
        """Return the sum over all columns, (1, rows): an emission with its token summed out."""
        return self.matvec(
            semiring.lift(torch.ones(1, self.shape[1], device=self.device)), semiring
        )

    def to_dense(self, dtype: torch.dtype | None = None) -> Tensor:
        """Return the matrix written out, (rows, columns): for tests, pictures and small exports."""
        rows, columns = self.shape
        if rows * columns > _DENSE_LIMIT:
            raise CircuitTooLargeError(
                f"a {rows} x {columns} operator has {rows * columns:,} entries, over the limit "
                f"of {_DENSE_LIMIT:,} for writing one out; use matvec, rows or columns instead"
            )
        dtype = dtype or self.dtype or torch.get_default_dtype()
        index = torch.arange(columns, device=self.device)
        return self.columns(index, LINEAR.with_dtype(dtype)).mT.contiguous()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """So that ``numpy.asarray`` works, within the limit of :meth:`to_dense`."""
        return self.to_dense().detach().cpu().numpy().astype(dtype or np.float64)

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"{type(self).__name__}({rows} x {columns})"

    @staticmethod
    def _unit_vectors(index: Tensor, size: int, semiring: Semiring[Value]) -> Value:
        return semiring.lift(torch.nn.functional.one_hot(index, size))


def _mapped(value: Any, function: Callable[[Tensor | Operator], Any]) -> Any:
    """The value with each tensor and operator in it replaced, containers opened up."""
    if isinstance(value, Tensor | Operator):
        return function(value)
    if isinstance(value, dict):
        return {key: _mapped(item, function) for key, item in value.items()}
    if isinstance(value, tuple | list):
        items = [_mapped(item, function) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
