"""Small constraints: a text, one of several, any text, texts without something, lengths."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pcgcd.automata.expressions import ANY_BYTE, ANYTHING, EMPTY_STRING, repeat, star, union
from pcgcd.automata.expressions.utf8 import ANY_CHARACTER, character_set
from pcgcd.automata.limits import STATE_LIMIT
from pcgcd.basics.choices import check_one_of
from pcgcd.basics.numbers import check_whole_number
from pcgcd.constraints.base import Constraint
from pcgcd.constraints.checks import at_most, literal_text
from pcgcd.constraints.python_types import options_of
from pcgcd.constraints.regex.regex import regex_expression
from pcgcd.errors import AutomatonTooLargeError, InvalidParameterError

MAX_FORBIDDEN = 5000


def literal(text: str) -> Constraint:
    """Accept exactly one text.

    >>> literal("yes") | "no"
    Constraint(('yes' | 'no'))
    """
    return Constraint(literal_text(text, "literal"), repr(text))


def choice(
    options: Iterable[str | Constraint] | Any, *, state_limit: int | None = None
) -> Constraint:
    """Accept any one of several texts or constraints (200,000 at most).

    Args:
        options: Texts and constraints; or a ``Literal[...]`` or an enum, whose options are parsed
            into what they stand for.
        state_limit: How many states the automaton may have (250,000, or what an option allows if
            that is more).

    >>> from typing import Literal
    >>> choice(Literal["small", "large"]).parse("small")
    'small'
    >>> choice(["red", "green", "blue"])
    Constraint(choice of 3)
    """
    meanings = options_of(options)
    if meanings is not None:
        return replace(choice(list(meanings), state_limit=state_limit), reader=meanings.__getitem__)
    if isinstance(options, str | bytes) or not isinstance(options, Iterable):
        raise InvalidParameterError(
            f"choice takes several options, such as a list of texts, but {options!r:.60} was given"
        )
    chosen = at_most(options, "options of a choice")
    if not chosen:
        raise InvalidParameterError("choice needs at least one option, but none was given")
    if state_limit is not None:
        check_whole_number("state_limit", state_limit, 1)
    expressions = [
        option.expression if isinstance(option, Constraint) else literal_text(option, "an option")
        for option in chosen
    ]
    constraints = [option for option in chosen if isinstance(option, Constraint)]
    dropped = tuple(note for option in constraints for note in option.dropped)
    limit = state_limit or max([STATE_LIMIT, *(option.state_limit for option in constraints)])
    return Constraint(union(*expressions), f"choice of {len(chosen)}", dropped, state_limit=limit)


def any_text(least: int = 0, most: int | None = None, *, alphabet: str | None = None) -> Constraint:
    """Accept any text (valid UTF-8), optionally of a bounded number of characters.

    Args:
        least: The smallest number of characters.
        most: The largest; None for no limit.
        alphabet: The characters that may occur; None for all.

    >>> any_text(1, 8, alphabet="01")
    Constraint(text of 1 to 8 characters)
    """
    bounds = _bounds(least, most)
    character = ANY_CHARACTER
    if alphabet is not None:
        literal_text(alphabet, "alphabet")
        if not alphabet:
            raise InvalidParameterError("alphabet must have at least one character, but has none")
        character = character_set((ord(each), ord(each)) for each in alphabet)
    return Constraint(repeat(character, least, most), f"text of {bounds} characters")


def not_containing(*forbidden: str, ignore_case: bool = False) -> Constraint:
    """Accept texts in which none of the given ones occurs.

    Args:
        forbidden: The texts that must not occur, each of at most 5,000 bytes in UTF-8.
        ignore_case: Whether they must not occur in any case.

    >>> not_containing("http://", "https://")
    Constraint(not containing 'http://', 'https://')
    """
    if not forbidden:
        raise InvalidParameterError("not_containing needs at least one text, but none was given")
    found = [literal_text(text, "a forbidden text") for text in forbidden]
    longest = max(expression.size for expression in found)
    if longest - 1 > MAX_FORBIDDEN:
        raise AutomatonTooLargeError(
            f"a forbidden text may have {MAX_FORBIDDEN:,} bytes in UTF-8, but one has "
            f"{longest - 1:,}; forbid a part of it"
        )
    if EMPTY_STRING in found:
        raise InvalidParameterError(
            "the empty text occurs in every text, so forbidding it leaves none; leave it out"
        )
    if ignore_case:
        found = [regex_expression(re.escape(text), re.IGNORECASE) for text in forbidden]
    # UTF-8 is self-synchronising: a text's bytes occur only where its characters do.
    expression = star(ANY_CHARACTER) - (ANYTHING + union(*found) + ANYTHING)
    shown = ", ".join(repr(text) for text in forbidden[:3])
    more = f" and {len(forbidden) - 3} more" if len(forbidden) > 3 else ""
    return Constraint(expression, f"not containing {shown}{more}")


def length(least: int, most: int | None = None, unit: str = "characters") -> Constraint:
    """Accept texts (valid UTF-8) of a bounded length; combine it with others by ``&``.

    Args:
        least: The smallest length.
        most: The largest; None for no limit.
        unit: "characters" or "bytes" (of UTF-8).

    >>> length(0, 280) & not_containing("#")
    Constraint((0 to 280 characters & not containing '#'))
    """
    bounds = _bounds(least, most)
    check_one_of("unit", unit, "characters", "bytes")
    if unit == "characters":
        expression = repeat(ANY_CHARACTER, least, most)
    else:
        expression = star(ANY_CHARACTER) & repeat(ANY_BYTE, least, most)
    return Constraint(expression, f"{bounds} {unit}")


def _bounds(least: int, most: int | None) -> str:
    """Check two bounds of a length, and describe them."""
    check_whole_number("least", least)
    if most is None:
        return f"at least {least}"
    check_whole_number("most", most, least)
    return f"{least} to {most}"
