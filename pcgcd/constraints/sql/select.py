"""Queries: SELECT with its clauses, set operations and sub-queries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from pcgcd.constraints.sql.diagram import Diagram, Part, byte, either, maybe, then, word
from pcgcd.constraints.sql.expressions import Flavour, SubQuery, expression
from pcgcd.constraints.sql.lexical import Lexicon

_JOINS = ("join", "inner join", "left join", "left outer join", "cross join")
_SET_OPERATIONS = ("union", "union all", "intersect", "except")


@dataclass(frozen=True)
class _Level:
    """How far a query may go."""

    depth: int  # how many sub-queries may be inside one another
    outermost: bool = False
    single: bool = False  # whether there is one result column, as in a value
    small: bool = False  # whether it is one table and a condition at most


def query(lexicon: Lexicon, max_depth: int) -> Part:
    """A whole query, with a semicolon or without."""
    body = _query(lexicon, _Level(max_depth, outermost=True))
    return then(lexicon.gap, body, lexicon.gap, maybe(byte(b";"), lexicon.gap))


def _query(lexicon: Lexicon, level: _Level) -> Part:
    return lambda diagram, start: _draw_query(lexicon, level, diagram, start, None)


def _sub_query(lexicon: Lexicon, depth: int, *, small: bool = False) -> SubQuery | None:
    """A query for one value, or None where the nesting ends."""
    if depth < 0:
        return None
    level = _Level(0 if small else depth, single=True, small=small)
    return partial(_draw_query, lexicon, level)


def _draw_query(
    lexicon: Lexicon, level: _Level, diagram: Diagram, start: int, starred: int | None
) -> int:
    """Draw a query; ``starred`` is a second beginning, after "SELECT *"."""
    again, selected = diagram.state(), diagram.state()
    diagram.skip(start, again)
    if starred is not None:
        diagram.skip(starred, selected)
    head = then(
        word("select"),
        lexicon.space,
        maybe(word("distinct"), lexicon.space),
        _results(lexicon, level),
    )
    diagram.skip(head(diagram, again), selected)
    source = then(lexicon.infix("from"), _sources(lexicon, level), maybe(_where(lexicon, level)))
    if level.small:
        return source(diagram, selected)
    end = then(source, maybe(_grouping(lexicon, level)))(diagram, selected)
    diagram.skip(lexicon.infix(*_SET_OPERATIONS)(diagram, end), again)
    return then(maybe(_order(lexicon)), maybe(_limit(lexicon)))(diagram, end)


def _results(lexicon: Lexicon, level: _Level) -> Part:
    inner = _sub_query(lexicon, level.depth - 1, small=True) if level.outermost else None
    flavour = Flavour(aggregates=True, rich=level.outermost, sub_query=inner)
    value = expression(lexicon, flavour)
    if level.single:
        return value
    label = then(lexicon.infix("as"), lexicon.label)
    every = then(maybe(lexicon.qualifier), byte(b"*"))
    return lexicon.listed(either(then(value, maybe(label)), every))


def _sources(lexicon: Lexicon, level: _Level) -> Part:
    """Tables and sub-queries, joined by commas or words."""
    named = then(lexicon.space, maybe(word("as"), lexicon.space), lexicon.alias)
    table = then(lexicon.table, maybe(named))
    if level.small:
        return table
    source = table
    if level.outermost and level.depth:
        inner = _query(lexicon, _Level(level.depth - 1))
        source = either(table, then(lexicon.enclosed(inner), maybe(named)))
    matched = then(lexicon.infix("on"), expression(lexicon, Flavour(groups=False)))
    between = either(lexicon.sign(","), lexicon.infix("natural join"))

    def draw(diagram: Diagram, start: int) -> int:
        plain, joined, end = diagram.state(), diagram.state(), diagram.state()
        diagram.skip(start, plain)
        diagram.skip(source(diagram, plain), end)
        diagram.skip(then(table, maybe(matched))(diagram, joined), end)
        diagram.skip(between(diagram, end), plain)
        diagram.skip(lexicon.infix(*_JOINS)(diagram, end), joined)
        return end

    return draw


def _where(lexicon: Lexicon, level: _Level) -> Part:
    inner = _sub_query(lexicon, level.depth - 1)
    flavour = Flavour(groups=not level.small, rich=level.outermost, sub_query=inner)
    return then(lexicon.infix("where"), expression(lexicon, flavour))


def _grouping(lexicon: Lexicon, level: _Level) -> Part:
    depth = 0 if level.depth else -1
    inner = _sub_query(lexicon, depth, small=not level.outermost)
    having = Flavour(aggregates=True, sub_query=inner)
    return then(
        lexicon.infix("group by"),
        lexicon.listed(lexicon.reference),
        maybe(lexicon.infix("having"), expression(lexicon, having)),
    )


def _order(lexicon: Lexicon) -> Part:
    flavour = Flavour(aggregates=True, constants=False)
    direction = maybe(lexicon.space, either(word("asc"), word("desc")))
    term = then(expression(lexicon, flavour), direction)
    return then(lexicon.infix("order by"), lexicon.listed(term))


def _limit(lexicon: Lexicon) -> Part:
    more = then(either(lexicon.infix("offset"), lexicon.sign(",")), lexicon.integer)
    return then(lexicon.infix("limit"), lexicon.integer, maybe(more))
