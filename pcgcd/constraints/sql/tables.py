"""The FROM clause: the tables of a scope, joined in an order that the scope allows."""

from __future__ import annotations

from pcgcd.constraints.sql.database import Schema
from pcgcd.constraints.sql.diagram import Diagram, Part, maybe, names, then, word
from pcgcd.constraints.sql.expressions import PLAIN, Names, expression
from pcgcd.constraints.sql.lexical import Lexicon, quotations, spellings
from pcgcd.constraints.sql.scopes import Scope, Source, is_linked
from pcgcd.constraints.sql.shapes import Shape

_COMMON_JOINS = ("join", "inner join", "left join")
_JOINS = (
    "join",
    "inner join",
    "left join",
    "left outer join",
    "right join",
    "full join",
    "full outer join",
    "cross join",
)


def from_clause(lexicon: Lexicon, schema: Schema, scope: Scope, shape: Shape) -> Part:
    """``FROM`` and the tables, with what they are called and how they are joined.

    A condition refers to the tables up to its own: with outer joins, SQLite wants that. Which
    tables have been named is all that has to be remembered between them.
    """
    tables = [source.table for source in scope.sources]
    is_rich = shape.is_rich

    def draw(diagram: Diagram, start: int) -> int:
        begun = lexicon.clause("from")(diagram, start)
        everything = frozenset(range(len(tables)))
        after: dict[frozenset[int], int] = {}
        waiting: list[frozenset[int]] = []

        def reached(seen: frozenset[int]) -> int:
            if seen not in after:
                after[seen] = diagram.state()
                waiting.append(seen)
            return after[seen]

        for i in [0] if scope.is_ordered else range(len(tables)):
            named = _table(lexicon, scope.sources[i], is_rich)(diagram, begun)
            diagram.skip(named, reached(frozenset([i])))
        constrained: dict[frozenset[int], int] = {}
        for seen in waiting:
            following = [
                i
                for i in everything - seen
                if (i == len(seen) if scope.is_ordered else is_linked(schema, tables, seen, i))
            ]
            if not following:
                continue
            state = after[seen]
            alone = [lexicon.comma(diagram, state)]
            if not shape.is_brief:
                natural = lexicon.clause("natural join", "natural left join")
                alone.append(natural(diagram, state))
            joins = _COMMON_JOINS if shape.is_brief else _JOINS
            joined = lexicon.clause(*joins)(diagram, state)
            for i in following:
                table = _table(lexicon, scope.sources[i], is_rich)
                now = seen | {i}
                for before in alone:
                    diagram.skip(table(diagram, before), reached(now))
                named = table(diagram, joined)
                diagram.skip(named, reached(now))
                if now not in constrained:
                    constrained[now] = diagram.state()
                    use = Names.of(scope.reference_among(now))
                    matched = then(lexicon.clause("on"), expression(lexicon, PLAIN, use))
                    diagram.skip(matched(diagram, constrained[now]), reached(now))
                diagram.skip(named, constrained[now])
                shared = scope.common_columns(seen, i)
                if shared and not shape.is_brief:
                    column = names(text for name in shared for text in spellings(name))
                    using = then(
                        *(lexicon.line, word("using"), lexicon.gap),
                        lexicon.enclosed(column),
                    )
                    diagram.skip(using(diagram, named), reached(now))
        return after[everything]

    return draw


def _table(lexicon: Lexicon, source: Source, is_rich: bool) -> Part:
    """The name of a table, with its alias."""
    texts = list(spellings(source.table))
    if is_rich:
        texts += [*quotations(source.table), *(f"main.{text}" for text in texts)]
    table = names(texts)
    if source.alias is None:
        unindexed = then(lexicon.space, lexicon.words("not indexed"))
        return then(table, maybe(unindexed)) if is_rich else table
    if source.alias == "":
        return then(table, lexicon.space, lexicon.any_label)
    alias = names(spellings(source.alias))
    return then(table, lexicon.space, maybe(word("as"), lexicon.space), alias)
