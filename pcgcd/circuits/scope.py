"""Sets of variables, stored as bits so that a chain of thousands of variables stays small."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pcgcd.errors import InvalidParameterError


@dataclass(frozen=True)
class Scope:
    """The set of variables that a layer depends on.

    >>> Scope.of(0, 1, 2, 5)
    {0..2, 5}
    >>> Scope.of(0, 1) | Scope.of(3)
    {0, 1, 3}
    >>> list(Scope.of(4, 2)), len(Scope.of(4, 2)), 2 in Scope.of(4, 2)
    ([2, 4], 2, True)
    """

    bits: int = 0

    @classmethod
    def of(cls, *variables: int) -> Scope:
        """Return the scope of the given variables (non-negative integers)."""
        bits = 0
        for variable in variables:
            if variable < 0:
                raise InvalidParameterError(
                    f"variables are numbered from 0, but {variable} was given"
                )
            bits |= 1 << variable
        return cls(bits)

    @classmethod
    def union(cls, scopes: Iterable[Scope]) -> Scope:
        """All variables of all the given scopes."""
        bits = 0
        for scope in scopes:
            bits |= scope.bits
        return cls(bits)

    def isdisjoint(self, other: Scope) -> bool:
        """Return whether no variable is in both."""
        return not self.bits & other.bits

    def __or__(self, other: Scope) -> Scope:
        return Scope(self.bits | other.bits)

    def __and__(self, other: Scope) -> Scope:
        return Scope(self.bits & other.bits)

    def __contains__(self, variable: int) -> bool:
        return bool(self.bits >> variable & 1)

    def __iter__(self) -> Iterator[int]:
        digits = reversed(f"{self.bits:b}")
        return (variable for variable, digit in enumerate(digits) if digit == "1")

    def __len__(self) -> int:
        return self.bits.bit_count()

    def __repr__(self) -> str:
        runs: list[list[int]] = []
        for variable in self:
            if runs and variable == runs[-1][1] + 1:
                runs[-1][1] = variable
            else:
                runs.append([variable, variable])
        parts = []
        for first, last in runs:
            if last - first >= 2:
                parts.append(f"{first}..{last}")
            else:
                parts.extend(str(v) for v in range(first, last + 1))
        return "{" + ", ".join(parts) + "}"
