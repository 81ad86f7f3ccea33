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
)
from pcgcd.basics.choices import check_one_of


@dataclass(frozen=True)
class Layout:
    """Marks as expressions."""

    comma: Expression
    colon: Expression
    spaces: Expression  # inside of brackets and around the whole text

    def bracketed(self, opening: str, body: Expression, closing: str) -> Expression:
        """A body in brackets."""
        return literal(opening) + self.spaces + body + self.spaces + literal(closing)


def make_layout(whitespace: str) -> Layout:
    """The marks for a convention: ``"compact"``, ``"bounded"`` or ``"free"``."""
    check_one_of("whitespace", whitespace, "compact", "bounded", "free")
    spaces = star(byte_set(b" \t\n\r")) if whitespace == "free" else EMPTY_STRING
    after = option(literal(" ")) if whitespace == "bounded" else spaces
    return Layout(spaces + literal(",") + after, spaces + literal(":") + after, spaces)


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
    """Members in the given order, the required ones always, then any number of the tail.

    Before the first required member a comma follows each member, after it one precedes each. Only
    without a required member is there a choice of the first one; it is halved again and again, so
    that members are copied n log n times and not n * n times.
    """
    first = next((i for i, (_, required) in enumerate(members) if required), None)
    if first is None:
        return option(_some(members, comma, tail))
    before = [option(member + comma) for member, _ in members[:first]]
    after = [repeat(comma + member, int(needed), 1) for member, needed in members[first + 1 :]]
    return concatenation(*before, members[first][0], *after, star(comma + tail))


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
    follow = [option(comma + member) for member, _ in right]
    first = concatenation(_some(left, comma, NOTHING), *follow, star(comma + tail))
    return first | _some(right, comma, tail)
