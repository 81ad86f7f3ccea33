"""Checks of arguments that several constraints share."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TypeGuard, TypeVar

from pcgcd.automata.expressions import Expression, literal
from pcgcd.basics.texts import utf8
from pcgcd.errors import InvalidParameterError

MAX_LISTED = 200_000

_Item = TypeVar("_Item")


def at_most(values: Iterable[_Item], what: str, limit: int = MAX_LISTED) -> tuple[_Item, ...]:
    """All values of something that may never end.

    >>> at_most("abc", "letters")
    ('a', 'b', 'c')
    """
    found = tuple(islice(values, limit + 1))
    if len(found) > limit:
        raise InvalidParameterError(
            f"there may be {limit:,} {what}, but more were given; use fewer"
        )
    return found


def is_range(value: object) -> TypeGuard[tuple[int, int | None]]:
    """Return whether a value is (least, most) of something that is counted; None is without end."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        return False
    least, most = value
    if not isinstance(least, int) or not isinstance(most, int | None):
        return False
    return least >= 0 and (most is None or most >= least)


def literal_text(text: str, name: str) -> Expression:
    """The expression of one text, which must be valid Unicode."""
    return literal(utf8(text, name))
