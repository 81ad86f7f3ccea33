"""Whole queries: every scope is a copy of the grammar, and what need not know the scope is shared.

The automaton guesses the scope after SELECT. Whatever comes after the scope's last use is drawn
once for all of them: LIMIT, the next arm of a set operation, and a sub-query after which the query
around it has nothing more to say. A sub-query after which it goes on has to remember that scope,
so it is drawn for each of them, and is smaller.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from pcgcd.constraints.sql.database import Schema
from pcgcd.constraints.sql.diagram import Diagram, byte, maybe, names, then, word
from pcgcd.constraints.sql.expressions import PLAIN, SIMPLE, Names, SubQuery, expression
from pcgcd.constraints.sql.lexical import Lexicon, spellings
from pcgcd.constraints.sql.scopes import (
    Scope,
    Source,
    aliased_singles,
    chains,
    joined_scopes,
)
from pcgcd.constraints.sql.select import Core, SubQueries, limit, order_by
from pcgcd.constraints.sql.shapes import BRIEF, LEAN, MEDIUM, RICH, Shape
from pcgcd.constraints.sql.tables import from_clause
from pcgcd.constraints.sql.views import Views

# Arms of set operations and sub-queries have no chains of a length that makes them more than that.
_MOST_INNER_CHAINS = 24


@dataclass(frozen=True)
class Options:
    """How far the language goes."""

    max_depth: int
    joins: int
    aliases: Sequence[str]
    labels: Sequence[str]
    joined_labels: Sequence[str]  # those of joined tables
    ctes: Sequence[str]
    is_lean: bool  # smaller shapes and fewer of them, for many tables


@dataclass(frozen=True)
class Queries:
    """The queries of a schema, drawn into a diagram."""

    diagram: Diagram
    lexicon: Lexicon
    schema: Schema
    options: Options

    # -- scopes -------------------------------------------------------------------------------

    @cached_property
    def named(self) -> list[Scope]:
        """Each table by its name."""
        return [Scope((Source(t, columns),)) for t, columns in self.schema.tables.items()]

    @cached_property
    def aliased(self) -> list[Scope]:
        """Each table by an alias that columns may follow."""
        return aliased_singles(
            self.schema, self.options.aliases, has_letters=not self.options.is_lean
        )

    @cached_property
    def free(self) -> list[Scope]:
        """Each table by any alias, which nothing refers to."""
        return [Scope((Source(t, columns, ""),)) for t, columns in self.schema.tables.items()]

    @cached_property
    def pairs(self) -> list[Scope]:
        """Two linked tables."""
        return self._joined(pair for pair in self._pairs if frozenset(pair) in self.schema.links)

    @cached_property
    def loose(self) -> list[Scope]:
        """Two tables that are not linked."""
        loose = [pair for pair in self._pairs if frozenset(pair) not in self.schema.links]
        return self._joined(loose)

    @cached_property
    def chains(self) -> list[Scope]:
        """Three linked tables or more."""
        lengths = range(3, self.options.joins + 2)
        return self._joined(c for length in lengths for c in chains(self.schema, length))

    @cached_property
    def later(self) -> list[Scope]:
        """Two tables whose aliases go on from those of the query around them."""
        linked = (pair for pair in self._pairs if frozenset(pair) in self.schema.links)
        return _numbered(self._joined(linked, self.options.aliases[2:]))

    @property
    def _pairs(self) -> tuple[tuple[str, str], ...]:
        return self.schema.pairs if self.options.joins else ()

    def _joined(
        self, sets: Iterable[tuple[str, ...]], aliases: Sequence[str] | None = None
    ) -> list[Scope]:
        called = self.options.aliases if aliases is None else aliases
        return [scope for tables in sets for scope in joined_scopes(self.schema, tables, called)]

    @cached_property
    def inner_chains(self) -> list[Scope]:
        """The chains of arms and sub-queries: the shorter ones, where there are many."""
        found: list[Scope] = []
        for length in range(3, self.options.joins + 2):
            longer = [s for s in _numbered(self.chains) if len(s.sources) == length]
            if len(found) + len(longer) > _MOST_INNER_CHAINS:
                break
            found += longer
        return found

    # -- drawing ------------------------------------------------------------------------------

    def draw(self, start: int) -> int:
        """Draw all queries, with a semicolon or without."""
        diagram, lexicon = self.diagram, self.lexicon
        body, finish, ended = self._head(start), diagram.state(), diagram.state()
        labels, depth = self.options.labels, self.options.max_depth
        tail = self._tail(depth, finish)
        ending = SubQueries(where=tail, having=tail)
        is_lean = self.options.is_lean
        values = self._values_inside() if depth and not is_lean else None
        for scope in self.named:
            inside = _both(tail, self._inside(scope) if depth else None)
            subs = SubQueries(values, inside, tail)
            self._core(scope, MEDIUM if is_lean else RICH, subs, labels).draw(body, finish)
        for scope in self.aliased:
            inside = _both(tail, self._inside(scope) if depth else None)
            self._core(scope, LEAN, SubQueries(None, inside, tail)).draw(body, finish)
        for scope in self.pairs:
            subs = SubQueries(None, _both(tail, values), tail)
            shape, known = (LEAN, ()) if is_lean else (MEDIUM, self.options.joined_labels)
            self._core(scope, shape, subs, known).draw(body, finish)
        others = [*self.free, *self.loose, *self.chains]
        for scope in _numbered(others) if is_lean else others:
            self._core(scope, BRIEF if is_lean else LEAN, ending).draw(body, finish)
        self._core(Scope(()), RICH, SubQueries()).draw(body, finish)
        self._compound(start, finish, ended)
        if depth and not is_lean:
            self._counted_arms(start, finish)
        if depth:
            called = self.options.ctes[:1] if is_lean else self.options.ctes
            Views(diagram, lexicon, self.schema, labels, called, is_lean).draw(start, finish)
        diagram.skip(maybe(limit(lexicon))(diagram, finish), ended)
        return maybe(byte(b";"))(diagram, ended)

    def _core(
        self, scope: Scope, shape: Shape, subs: SubQueries, labels: Sequence[str] = ()
    ) -> Core:
        return Core(self.diagram, self.lexicon, self.schema, scope, shape, subs, labels)

    def _head(self, start: int) -> int:
        quantity = maybe(names(("distinct", "all")), self.lexicon.space)
        return then(word("select"), self.lexicon.space, quantity)(self.diagram, start)

    # -- set operations -----------------------------------------------------------------------

    def _compound(self, begin: int, finish: int, ended: int) -> None:
        """Arms with the same number of results, and an order by their numbers."""
        numbered = _numbered(self.pairs)
        pairs = numbered if self.options.is_lean else self.pairs
        for width, scopes in (
            (1, [*pairs, *self.later, *self.inner_chains]),
            (2, [*numbered, *self.inner_chains]),
            (3, numbered),
        ):
            end, values = self._arms(begin, width, [*self.named, *scopes])
            places = order_by(self.lexicon, names(str(i + 1) for i in range(width)))
            self.diagram.skip(places(self.diagram, end), finish)
            self.diagram.skip(end, finish)
            self.diagram.skip(values, ended)
            if width == 1:
                self._ordered_arms(end, finish)
        self._starred_arms(begin, finish)

    def _starred_arms(self, begin: int, finish: int) -> None:
        """Arms with all columns of their tables, which are as many in each."""
        diagram, lexicon = self.diagram, self.lexicon
        pairs = [] if self.options.is_lean else _numbered(self.pairs)
        scopes = [*self.named, *pairs]
        for width in sorted({scope.width for scope in scopes}):
            again, end = diagram.state(), diagram.state()
            diagram.skip(begin, again)
            starred = byte(b"*")(diagram, self._head(again))
            for scope in scopes:
                if scope.width == width:
                    core = Core(diagram, lexicon, self.schema, scope, BRIEF, is_ordered=False)
                    core.tables(starred, end)
            diagram.skip(lexicon.set_operation(diagram, end), again)
            diagram.skip(end, finish)

    def _counted_arms(self, begin: int, finish: int) -> None:
        """How many results a set operation has."""
        diagram, lexicon = self.diagram, self.lexicon
        counted = then(word("count"), lexicon.enclosed(byte(b"*")))
        opened = then(counted, lexicon.clause("from"), lexicon.opening)
        start = opened(diagram, self._head(begin))
        called = maybe(lexicon.space, lexicon.any_label)
        for end in self._arms(start, 1, [*self.named, *_numbered(self.pairs)]):
            diagram.skip(then(lexicon.closing, called)(diagram, end), finish)

    def _arms(self, begin: int, width: int, scopes: Iterable[Scope]) -> tuple[int, int]:
        """Arms of one width, one after the other; VALUES may be one, but LIMIT not follow it."""
        diagram, lexicon = self.diagram, self.lexicon
        again, end = diagram.state(), diagram.state()
        diagram.skip(begin, again)
        body = self._head(again)
        for scope in scopes:
            core = Core(diagram, lexicon, self.schema, scope, BRIEF, is_ordered=False)
            core.draw(body, end, width)
        parts = [part for _ in range(width) for part in (lexicon.comma, lexicon.literal)]
        row = lexicon.enclosed(then(*parts[1:]))
        values = then(word("values"), lexicon.gap, lexicon.listed(row))(diagram, again)
        for state in (end, values):
            diagram.skip(lexicon.set_operation(diagram, state), again)
        return end, values

    def _ordered_arms(self, end: int, finish: int) -> None:
        """A last arm with one column, by which all results are ordered."""
        lexicon = self.lexicon
        body = self._head(lexicon.set_operation(self.diagram, end))
        for scope in self.named if self.options.is_lean else (*self.named, *self.aliased):
            (source,) = scope.sources
            condition = expression(lexicon, PLAIN, Names.of(scope.reference))
            listed = from_clause(lexicon, self.schema, scope, BRIEF)
            where = maybe(lexicon.clause("where"), condition)
            for column in source.columns:
                plain = spellings(column)
                both = names([*plain, *(f"{q}.{c}" for q in source.qualifiers for c in plain)])
                ordered = order_by(lexicon, names(plain))
                part = then(both, listed, where, ordered)
                self.diagram.skip(part(self.diagram, body), finish)

    # -- sub-queries --------------------------------------------------------------------------

    def _tail(self, depth: int, finish: int) -> SubQuery | None:
        """Sub-queries after which the query ends, but for LIMIT: one copy for all scopes."""
        if depth == 0:
            return None
        diagram, lexicon = self.diagram, self.lexicon
        value, exists, inner = diagram.state(), diagram.state(), diagram.state()
        opened = lexicon.opening(diagram, value)
        body = self._head(opened)
        starred = then(lexicon.opening, word("select"), lexicon.space, names(("*", "1")))(
            diagram, exists
        )
        deeper = self._tail(depth - 1, inner)
        subs = SubQueries(where=deeper, having=deeper)
        scopes = list(self.named)
        arms = list(self.named)
        if depth == self.options.max_depth:
            pairs = _numbered(self.pairs) if self.options.is_lean else self.pairs
            scopes += [*self.aliased, *pairs, *self.later, *self.inner_chains]
            arms += [] if self.options.is_lean else _numbered(self.pairs)
        for scope in scopes:
            is_single = len(scope.sources) == 1
            core = Core(diagram, lexicon, self.schema, scope, BRIEF, subs, is_ordered=is_single)
            selected = core.draw(body, inner, 1)
            diagram.skip(starred, selected)
        diagram.skip(exists, value)
        end, values = self._arms(opened, 1, arms)
        diagram.skip(end, inner)
        close = lexicon.closing(diagram, maybe(limit(lexicon))(diagram, inner))
        diagram.skip(close, finish)
        diagram.skip(lexicon.closing(diagram, values), finish)

        def draw(diagram: Diagram, opening: int, after_exists: int, done: int) -> None:
            diagram.skip(opening, value)
            diagram.skip(after_exists, exists)

        return draw

    def _values_inside(self) -> SubQuery:
        """A value of one table, after which the query goes on."""

        def draw(diagram: Diagram, opening: int, exists: int, done: int) -> None:
            body = self._head(self.lexicon.opening(diagram, opening))
            for inner in self.named:
                value = expression(self.lexicon, LEAN.item, Names.of(inner.reference))
                listed = from_clause(self.lexicon, self.schema, inner, BRIEF)
                part = then(value, listed, self.lexicon.closing)
                diagram.skip(part(diagram, body), done)

        return draw

    def _inside(self, scope: Scope) -> SubQuery:
        """A query of one table with a condition, which may name columns from around it."""
        lexicon = self.lexicon
        table, alias = scope.sources[0].table, scope.sources[0].alias
        if alias is None:
            inners: Sequence[Scope] = self.named
        elif alias in self.options.aliases:
            inners = aliased_singles(self.schema, self.options.aliases[1:2], has_letters=False)
        else:
            again = Scope((Source(table, scope.sources[0].columns, f"{alias}2"),))
            inners = [s for s in self.aliased if s.sources[0].alias != alias] + [again]

        joined = {frozenset(pair) for pair in self.schema.pairs} | {frozenset([table])}
        inners = [s for s in inners if frozenset((table, s.sources[0].table)) in joined]

        def draw(diagram: Diagram, opening: int, exists: int, done: int) -> None:
            opened = lexicon.opening(diagram, opening)
            body = self._head(opened)
            starred = then(lexicon.opening, word("select"), lexicon.space, names(("*", "1")))(
                diagram, exists
            )
            for inner in inners:
                every = range(len(inner.sources))
                own, around = inner.spelled(every), scope.qualified
                value = expression(lexicon, LEAN.item, Names.of(inner.reference))
                selected = value(diagram, body)
                diagram.skip(starred, selected)
                use = Names.of(names([*own, *around]))
                where = then(lexicon.clause("where"), expression(lexicon, SIMPLE, use))
                listed = from_clause(lexicon, self.schema, inner, BRIEF)
                part = then(listed, maybe(where), lexicon.closing)
                diagram.skip(part(diagram, selected), done)

        return draw


def _numbered(scopes: Iterable[Scope]) -> list[Scope]:
    return [scope for scope in scopes if scope.is_ordered]


def _both(first: SubQuery | None, second: SubQuery | None) -> SubQuery | None:
    if first is None or second is None:
        return first or second

    def draw(diagram: Diagram, opening: int, exists: int, done: int) -> None:
        first(diagram, opening, exists, done)
        second(diagram, opening, exists, done)

    return draw
