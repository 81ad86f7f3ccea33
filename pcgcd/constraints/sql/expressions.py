"""Expressions of queries.

SQLite takes operands and operators in any sequence (a condition is a number to it), so that one
operand with a way back draws them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pcgcd.constraints.sql.diagram import (
    Diagram,
    Part,
    byte,
    either,
    maybe,
    names,
    repeated,
    then,
    word,
)
from pcgcd.constraints.sql.lexical import Lexicon

# Draws a sub-query from two states to its end: from the first whole, and from the second as what
# follows after "SELECT *".
SubQuery = Callable[[Diagram, int, int], int]

_AGGREGATES = ("count", "sum", "avg", "min", "max", "total", "group_concat")
_ONE_ARGUMENT = "abs length lower upper trim round date time datetime julianday typeof"
_TWO_ARGUMENTS = ("round", "ifnull", "coalesce", "nullif", "instr", "trim", "date", "substr")
_THREE_ARGUMENTS = ("substr", "replace", "coalesce")


@dataclass(frozen=True)
class Flavour:
    """What an expression may have in it."""

    aggregates: bool = False  # calls such as count(*)
    groups: bool = True  # parentheses and calls, with a simple expression inside
    rich: bool = False  # calls with several arguments; CASE, if there may be aggregates as well
    constants: bool = True  # a literal at the beginning (ORDER BY takes a number for a column's)
    sub_query: SubQuery | None = None


_SIMPLE = Flavour(groups=False)


def expression(lexicon: Lexicon, flavour: Flavour) -> Part:
    """Operands with operators between them."""

    def draw(diagram: Diagram, start: int) -> int:
        first, operand, done = diagram.state(), diagram.state(), diagram.state()
        diagram.skip(start, operand if flavour.constants else first)
        diagram.skip(operand, first)

        def edge(source: int, part: Part, target: int) -> None:
            diagram.skip(part(diagram, source), target)

        edge(first, lexicon.reference, done)
        edge(operand, either(lexicon.literal, word("null")), done)
        edge(operand, then(word("not"), lexicon.space), operand)
        for part in _calls(lexicon, flavour):
            edge(first, part, done)
        if flavour.sub_query is not None:
            opening, body, starred, end = (diagram.state() for _ in range(4))
            edge(first, then(), opening)
            edge(opening, then(byte(b"("), lexicon.gap), body)
            edge(first, _exists(lexicon), starred)
            edge(first, then(word("exists"), lexicon.gap), opening)
            diagram.skip(flavour.sub_query(diagram, body, starred), end)
            edge(end, then(lexicon.gap, byte(b")")), done)
            edge(done, then(lexicon.space, _in(lexicon)), opening)
        members = lexicon.enclosed(lexicon.listed(lexicon.literal))
        edge(done, then(lexicon.space, _in(lexicon), members), done)
        negation = maybe(word("not"), lexicon.space)
        between = then(negation, lexicon.words("between"), lexicon.space, lexicon.literal)
        edge(done, then(lexicon.space, between, lexicon.infix("and")), operand)
        edge(done, then(lexicon.space, lexicon.words("is"), lexicon.space, negation), operand)
        edge(done, lexicon.infix("and", "or", "like", "not like", "-"), operand)
        edge(done, lexicon.sign(*_SIGNS), operand)
        return done

    return draw


_SIGNS = ("=", "==", "<", ">", "<=", ">=", "!=", "<>", "+", "*", "/", "%", "||")


def _in(lexicon: Lexicon) -> Part:
    return then(maybe(word("not"), lexicon.space), word("in"), lexicon.gap)


def _exists(lexicon: Lexicon) -> Part:
    opening = then(word("exists"), lexicon.gap, byte(b"("), lexicon.gap)
    return then(opening, word("select"), lexicon.space, byte(b"*"))


def _calls(lexicon: Lexicon, flavour: Flavour) -> list[Part]:
    """Parentheses and calls."""
    if not flavour.groups:
        return []
    opened = then(names(_ONE_ARGUMENT.split()), lexicon.gap, byte(b"("))
    opening = [byte(b"("), opened]
    parts = []
    if flavour.aggregates:
        called = then(names(_AGGREGATES), lexicon.gap, byte(b"("))
        opening.append(then(called, maybe(lexicon.gap, word("distinct"), lexicon.space)))
        parts.append(then(word("count"), lexicon.gap, lexicon.enclosed(byte(b"*"))))
    inside = expression(lexicon, _SIMPLE)
    parts.append(then(either(*opening), lexicon.gap, inside, lexicon.gap, byte(b")")))
    if flavour.rich:
        parts += _rich_calls(lexicon, flavour)
    return parts


def _case(lexicon: Lexicon) -> Part:
    value = expression(lexicon, _SIMPLE)
    branch = then(lexicon.infix("when"), value, lexicon.infix("then"), value)
    otherwise = maybe(lexicon.infix("else"), value)
    return then(word("case"), repeated(branch), otherwise, lexicon.space, word("end"))


def _rich_calls(lexicon: Lexicon, flavour: Flavour) -> list[Part]:
    comma = lexicon.sign(",")
    argument = lexicon.reference
    if flavour.aggregates:
        one = then(names(_AGGREGATES), lexicon.gap, lexicon.enclosed(lexicon.reference))
        every = then(word("count"), lexicon.gap, lexicon.enclosed(byte(b"*")))
        argument = either(lexicon.reference, one, every)
    formatted = then(lexicon.string, comma, lexicon.reference)
    cases = []
    if flavour.aggregates:
        counted = then(names(_AGGREGATES), lexicon.gap, lexicon.enclosed(_case(lexicon)))
        cases = [_case(lexicon), counted]
    return cases + [
        then(names(called), lexicon.gap, lexicon.enclosed(arguments))
        for called, arguments in (
            (_TWO_ARGUMENTS, then(argument, comma, lexicon.literal)),
            (_THREE_ARGUMENTS, then(lexicon.reference, *[comma, lexicon.literal] * 2)),
            (("strftime",), formatted),
        )
    ]
