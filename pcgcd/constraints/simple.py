"""Small constraints: a text, one of several, any text, texts without something, lengths."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pcgcd.automata.expressions import (
    ANY_BYTE,
    ANYTHING,
    EMPTY_STRING,
    Expression,
    complement,
    concatenation,
    intersection,
    repeat,
    star,
    union,
)
from pcgcd.automata.expressions import (
    literal as literal_expression,
)
from pcgcd.automata.utf8 import ANY_CHARACTER
from pcgcd.constraints.base import Constraint
from pcgcd.constraints.regex import regex_expression
from pcgcd.constraints.unicode_classes import character_expression, normalised
from pcgcd.errors import InvalidParameterError

__all__ = ["any_text", "choice", "length", "literal", "not_containing"]


def literal(text: str) -> Constraint:
    """Exactly one text.

    >>> literal("yes") | "no"
    Constraint(('yes' | 'no'))
    """
    return Constraint(_literal(text, "literal"), repr(text))


def choice(options: Iterable[str | Constraint]) -> Constraint:
    """Any one of several texts or constraints.

    >>> choice(["red", "green", "blue"])
    Constraint(choice of 3)
    """
    if isinstance(options, str | bytes) or not isinstance(options, Iterable):
        raise InvalidParameterError(
            f"choice takes several options, such as a list of texts, but {options!r:.60} was given"
        )
    chosen = list(options)
    if not chosen:
        raise InvalidParameterError("choice needs at least one option, but none was given")
    expressions = [
        option.expression if isinstance(option, Constraint) else _literal(option, "an option")
        for option in chosen
    ]
    dropped = tuple(
        note for option in chosen if isinstance(option, Constraint) for note in option.dropped
    )
    return Constraint(union(*expressions), f"choice of {len(chosen)}", dropped)


def any_text(least: int = 0, most: int | None = None, *, alphabet: str | None = None) -> Constraint:
    """Any text (valid UTF-8) of so many characters.

    Args:
        least: The smallest number of characters.
        most: The largest; None for no limit.
        alphabet: The characters that may occur; None for all.

    >>> any_text(1, 8, alphabet="01")
    Constraint(text of 1 to 8 characters)
    """
    _check_bounds(least, most)
    character = ANY_CHARACTER
    if alphabet is not None:
        _literal(alphabet, "alphabet")
        if not alphabet:
            raise InvalidParameterError("alphabet must have at least one character, but has none")
        character = character_expression(normalised((ord(each), ord(each)) for each in alphabet))
    return Constraint(repeat(character, least, most), f"text of {_bounds(least, most)} characters")


def not_containing(*forbidden: str, ignore_case: bool = False) -> Constraint:
    """Texts in which none of the given ones occurs.

    Args:
        forbidden: The texts that must not occur.
        ignore_case: Whether they must not occur in any case.

    >>> not_containing("http://", "https://")
    Constraint(not containing 'http://', 'https://')
    """
    if not forbidden:
        raise InvalidParameterError("not_containing needs at least one text, but none was given")
    found = [_literal(text, "a forbidden text") for text in forbidden]
    if EMPTY_STRING in found:
        raise InvalidParameterError(
            "the empty text occurs in every text, so forbidding it leaves none; leave it out"
        )
    if ignore_case:
        found = [regex_expression(re.escape(text), re.IGNORECASE) for text in forbidden]
    # UTF-8 is self-synchronising: a text's bytes occur only where its characters do.
    containing = concatenation(ANYTHING, union(*found), ANYTHING)
    expression = intersection(star(ANY_CHARACTER), complement(containing))
    shown = ", ".join(repr(text) for text in forbidden[:3])
    more = f" and {len(forbidden) - 3} more" if len(forbidden) > 3 else ""
    return Constraint(expression, f"not containing {shown}{more}")


def length(least: int, most: int | None = None, unit: str = "characters") -> Constraint:
    """Texts (valid UTF-8) of a length between two, to be combined with others by ``&``.

    Args:
        least: The smallest length.
        most: The largest; None for no limit.
        unit: "characters" or "bytes" (of UTF-8).

    >>> length(0, 280) & not_containing("#")
    Constraint((0 to 280 characters & not containing '#'))
    """
    _check_bounds(least, most)
    if unit == "characters":
        expression = repeat(ANY_CHARACTER, least, most)
    elif unit == "bytes":
        expression = intersection(star(ANY_CHARACTER), repeat(ANY_BYTE, least, most))
    else:
        raise InvalidParameterError(f"unit must be 'characters' or 'bytes', but is {unit!r:.60}")
    return Constraint(expression, f"{_bounds(least, most)} {unit}")


def _literal(text: str, name: str) -> Expression:
    if not isinstance(text, str):
        raise InvalidParameterError(
            f"{name} must be a text (str), but {type(text).__name__} was given"
        )
    try:
        return literal_expression(text)
    except UnicodeEncodeError as error:
        raise InvalidParameterError(
            f"{name} must be valid Unicode, but has a lone surrogate at position {error.start}; "
            "remove it"
        ) from error


def _check_bounds(least: int, most: int | None) -> None:
    for name, value in (("least", least), ("most", 0 if most is None else most)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise InvalidParameterError(
                f"{name} must be a whole number of at least 0, but is {value!r:.60}"
            )
    if most is not None and most < least:
        raise InvalidParameterError(
            f"most must be at least as large as least, but least={least} and most={most}"
        )


def _bounds(least: int, most: int | None) -> str:
    return f"at least {least}" if most is None else f"{least} to {most}"
