"""What must hold of a value, as a positive formula over sub-schemas and their negations.

Negation is pushed down to the keywords (not applied to texts), so every language that is built
says that something holds; how a value is spelled then cannot make a text wrongly accepted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pcgcd.constraints.json_schema.document import Place


@dataclass(frozen=True, eq=False)
class Holds:
    """A sub-schema accepts the value, or (not ``positive``) rejects it."""

    place: Place
    positive: bool = True

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Holds)
            and self.place is other.place
            and self.positive == other.positive
        )

    def __hash__(self) -> int:
        return hash(self.place) ^ self.positive


@dataclass(frozen=True)
class Among:
    """The value is, or is not, one of some JSON values, which are compared by their keys."""

    values: tuple[Any, ...] = field(compare=False)
    positive: bool
    keys: tuple[Any, ...]


@dataclass(frozen=True)
class Both:
    """All of the parts hold."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True)
class Either:
    """One of the parts holds."""

    parts: tuple[Formula, ...]


Formula: TypeAlias = "Holds | Among | Both | Either"

TRUE: Formula = Both(())
FALSE: Formula = Either(())


def holds(place: Place, positive: bool = True) -> Formula:
    """That a sub-schema accepts (or rejects) the value; boolean schemas at once."""
    if isinstance(place.schema, bool) or place.schema == {}:
        return TRUE if (place.schema is not False) == positive else FALSE
    return Holds(place, positive)


def among(values: Iterable[Any], positive: bool = True) -> Formula:
    """That the value is (or is not) one of the given ones; doubles are dropped."""
    distinct = {json_key(value): value for value in values}
    if not distinct:
        return FALSE if positive else TRUE
    return Among(tuple(distinct.values()), positive, tuple(distinct))


def both(parts: Iterable[Formula]) -> Formula:
    """That all parts hold."""
    given = tuple(parts)
    if len(given) == 1:
        return given[0]
    kept: dict[Formula, None] = {}
    for part in given:
        for piece in part.parts if isinstance(part, Both) else (part,):
            if piece == FALSE or (isinstance(piece, Holds | Among) and negation(piece) in kept):
                return FALSE
            kept[piece] = None
    return next(iter(kept)) if len(kept) == 1 else Both(tuple(kept))


def either(parts: Iterable[Formula]) -> Formula:
    """That one of the parts holds."""
    kept: dict[Formula, None] = {}
    for part in parts:
        for piece in part.parts if isinstance(part, Either) else (part,):
            if piece == TRUE:
                return TRUE
            kept[piece] = None
    return next(iter(kept)) if len(kept) == 1 else Either(tuple(kept))


def negation(formula: Formula) -> Formula:
    """The opposite."""
    if isinstance(formula, Holds):
        return Holds(formula.place, not formula.positive)
    if isinstance(formula, Among):
        return Among(formula.values, not formula.positive, formula.keys)
    if isinstance(formula, Both):
        return either(map(negation, formula.parts))
    return both(map(negation, formula.parts))


def json_key(value: Any) -> Any:
    """A hashable form under which equal JSON values, and only they, are equal (1 is 1.0).

    >>> json_key([1, True]) == json_key([1.0, True]), json_key(1) == json_key(True)
    (True, False)
    """
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, list):
        return ("array", *(json_key(item) for item in value))
    if isinstance(value, dict):
        return ("object", frozenset((key, json_key(item)) for key, item in value.items()))
    return ("string", value) if isinstance(value, str) else value
