"""The marks between values: brackets, commas and colons with the whitespace allowed beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pcgcd.automata import expressions
from pcgcd.automata.expressions import (
    EMPTY_STRING,
    NOTHING,
    Expression,
    Member,
    byte_set,
    concatenation,
    literal,
    option,
    repeat,
    star,
)
from pcgcd.basics.choices import check_one_of


@dataclass(frozen=True)
class Layout:
    """Marks as expressions."""

    comma: Expression
    colon: Expression
    inside: Expression  # of brackets, at both ends
    around: Expression  # the whole text

    def bracketed(self, opening: str, body: Expression, closing: str) -> Expression:
        """A body in brackets."""
        return concatenation(literal(opening), self.inside, body, self.inside, literal(closing))


def make_layout(whitespace: str) -> Layout:
    """The marks for a convention: ``"compact"``, ``"bounded"`` or ``"free"``."""
    check_one_of("whitespace", whitespace, "compact", "bounded", "free")
    if whitespace == "compact":
        return Layout(literal(","), literal(":"), EMPTY_STRING, EMPTY_STRING)
    if whitespace == "free":
        spaces = star(byte_set(b" \t\n\r"))
        comma, colon = spaces + literal(",") + spaces, spaces + literal(":") + spaces
        return Layout(comma, colon, spaces, spaces)
    new_line = literal("\n") + star(byte_set(b" \t"))
    space = literal(" ")
    comma, colon = literal(",") + option(space | new_line), literal(":") + option(space)
    return Layout(comma, colon, option(new_line), EMPTY_STRING)


def listing(
    item: Expression, comma: Expression, least: int = 0, most: int | None = None
) -> Expression:
    """Items with commas between them."""
    if most is not None and most < least:
        return NOTHING
    if most == 0:
        return EMPTY_STRING
    more = repeat(comma + item, max(0, least - 1), None if most is None else most - 1)
    return item + more if least else option(item + more)


def in_order(
    members: Sequence[tuple[Expression, bool]], comma: Expression, tail: Expression = NOTHING
) -> Expression:
    """Members in the given order, the required ones always, then any number of the tail."""
    return expressions.in_order((Member(*member) for member in members), comma, tail)
