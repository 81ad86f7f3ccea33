"""The marks between values: brackets, commas and colons with the whitespace allowed beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pcgcd.automata.expressions import (
    EMPTY_STRING,
    NOTHING,
    Expression,
    byte_set,
    concatenation,
    literal,
    option,
    repeat,
    star,
    union,
)
from pcgcd.errors import InvalidParameterError

__all__ = ["Layout", "in_order", "listing", "make_layout"]


@dataclass(frozen=True)
class Layout:
    """Marks as expressions.

    Attributes:
        comma: Between items.
        colon: Between a name and its value.
        inside: After an opening and before a closing bracket.
        outside: Around the whole text.
    """

    comma: Expression
    colon: Expression
    inside: Expression
    outside: Expression

    def bracketed(self, opening: str, body: Expression, closing: str) -> Expression:
        """A body in brackets."""
        return concatenation(literal(opening), self.inside, body, self.inside, literal(closing))


def make_layout(whitespace: str) -> Layout:
    """The marks for a convention: ``"compact"``, ``"bounded"`` or ``"free"``."""
    if whitespace == "compact":
        return Layout(literal(","), literal(":"), EMPTY_STRING, EMPTY_STRING)
    if whitespace == "bounded":
        space = option(literal(" "))
        return Layout(literal(",") + space, literal(":") + space, EMPTY_STRING, EMPTY_STRING)
    if whitespace == "free":
        spaces = star(byte_set(b" \t\n\r"))
        comma = concatenation(spaces, literal(","), spaces)
        return Layout(comma, concatenation(spaces, literal(":"), spaces), spaces, spaces)
    raise InvalidParameterError(
        f"whitespace must be 'compact', 'bounded' or 'free', but {whitespace!r} was given"
    )


def listing(
    item: Expression, comma: Expression, least: int = 0, most: int | None = None
) -> Expression:
    """Items with commas between them."""
    if most is not None and most < least:
        return NOTHING
    if most == 0:
        return EMPTY_STRING
    more = repeat(concatenation(comma, item), max(0, least - 1), None if most is None else most - 1)
    items = concatenation(item, more)
    return items if least else option(items)


def in_order(
    members: Sequence[tuple[Expression, bool]], comma: Expression, tail: Expression = NOTHING
) -> Expression:
    """Members in the given order, the required ones always, then any number of the tail.

    Before the first required member a comma follows each member, after it one precedes each. Only
    without a required member is there a choice of the first one; it is halved again and again, so
    that members are copied n log n times and not n * n times.
    """
    first = next((i for i, (_, required) in enumerate(members) if required), None)
    rest = star(concatenation(comma, tail)) if tail != NOTHING else EMPTY_STRING
    if first is None:
        return option(_some(members, comma, tail))
    before = [option(concatenation(member, comma)) for member, _ in members[:first]]
    after = [_preceded(member, required, comma) for member, required in members[first + 1 :]]
    return concatenation(*before, members[first][0], *after, rest)


def _preceded(member: Expression, required: bool, comma: Expression) -> Expression:
    entry = concatenation(comma, member)
    return entry if required else option(entry)


def _some(
    members: Sequence[tuple[Expression, bool]], comma: Expression, tail: Expression
) -> Expression:
    """At least one of the members or of the tail, all of them optional."""
    if not members:
        return listing(tail, comma, 1) if tail != NOTHING else NOTHING
    if len(members) == 1 and tail == NOTHING:
        return members[0][0]
    half = max(1, len(members) // 2) if tail == NOTHING else (len(members) + 1) // 2
    left, right = members[:half], members[half:]
    rest = star(concatenation(comma, tail)) if tail != NOTHING else EMPTY_STRING
    follow = [_preceded(member, False, comma) for member, _ in right]
    return union(
        concatenation(_some(left, comma, NOTHING), *follow, rest), _some(right, comma, tail)
    )
