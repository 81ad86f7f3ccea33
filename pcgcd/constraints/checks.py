"""Checks of arguments that several constraints share."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

from pcgcd.automata.expressions import Expression, literal
from pcgcd.errors import InvalidParameterError

__all__ = ["MAX_LISTED", "at_most", "check_whole_number", "literal_text"]

MAX_LISTED = 200_000

_Item = TypeVar("_Item")


def check_whole_number(name: str, value: object, least: int = 0, most: int | None = None) -> None:
    """Raise if an argument is no whole number between two (None: without end)."""
    if type(value) is int and least <= value and (most is None or value <= most):
        return
    between = f"of at least {least}" if most is None else f"between {least} and {most}"
    raise InvalidParameterError(
        f"{name} must be a whole number {between}, but is {_shown(value)}; change it"
    )


def _shown(value: object) -> str:
    if type(value) is int and value.bit_length() > 100:
        return "a number of more than 30 digits"
    return f"{value!r:.60}"


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


def literal_text(text: str, name: str) -> Expression:
    """The expression of one text, which must be valid Unicode."""
    if not isinstance(text, str):
        raise InvalidParameterError(
            f"{name} must be a text (str), but {type(text).__name__} was given"
        )
    try:
        return literal(text)
    except UnicodeEncodeError as error:
        raise InvalidParameterError(
            f"{name} must be valid Unicode, but has a lone surrogate at position {error.start}; "
            "remove it"
        ) from error
