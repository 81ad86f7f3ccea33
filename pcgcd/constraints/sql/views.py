"""Queries over queries: common table expressions, and sub-queries in FROM.

What the query around may name is what the inner one exports, and an automaton has to remember
that: all columns of a table (``SELECT *``), one column, or one column and what is counted for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pcgcd.constraints.sql.database import Schema
from pcgcd.constraints.sql.diagram import Diagram, Part, byte, either, maybe, names, then, word
from pcgcd.constraints.sql.expressions import BARE, PLAIN, Names, aggregate, expression
from pcgcd.constraints.sql.lexical import Lexicon, spellings
from pcgcd.constraints.sql.scopes import Scope, Source
from pcgcd.constraints.sql.select import Core, limit
from pcgcd.constraints.sql.shapes import BRIEF, VIEW
from pcgcd.constraints.sql.tables import from_clause
from pcgcd.constraints.sql.windows import window, window_call

# What is exported, the results, and what follows the condition.
_Form: TypeAlias = tuple[tuple[str, ...], Part, Part]
# What the place of a row among the others may be called.
_RANKS = ("rn", "rnk")


@dataclass(frozen=True)
class Views:
    """The inner queries by what they export, and the queries around them."""

    diagram: Diagram
    lexicon: Lexicon
    schema: Schema
    labels: Sequence[str]
    called: Sequence[str]  # what common table expressions may be called
    is_lean: bool

    def draw(self, begin: int, finish: int) -> None:
        """Draw them all: what is called by a name, and what stands in FROM."""
        self._common(begin, finish, self._exports(self._forms))
        for columns, inner in self._exports(self._forms, self._summaries).items():
            if not self.is_lean or len(columns) != 2:
                self._in_from(begin, finish, Source("", columns, ""), inner)

    def _exports(self, *forms: Callable[[Scope], Iterable[_Form]]) -> dict[tuple[str, ...], Part]:
        """Queries over one table, by what they export."""
        found: dict[tuple[str, ...], list[Part]] = {(): [self._single(None)]}
        for table, columns in self.schema.tables.items():
            scope = Scope((Source(table, columns),))
            for exported, items, ending in (form for each in forms for form in each(scope)):
                found.setdefault(exported, []).append(self._inner(scope, items, ending))
        return {exported: either(*parts) for exported, parts in found.items()}

    def _single(self, width: int | None = 1) -> Part:
        """Any query over one table."""
        scopes = (Scope((Source(*table),)) for table in self.schema.tables.items())
        return either(*(self._whole(scope, width) for scope in scopes))

    def _whole(self, scope: Scope, width: int | None) -> Part:

        def draw(diagram: Diagram, start: int) -> int:
            end = diagram.state()
            core = Core(diagram, self.lexicon, self.schema, scope, BRIEF)
            core.draw(self._select(start), end, width)
            return end

        return draw

    def _forms(self, scope: Scope) -> Iterator[_Form]:
        """All columns, one column, or one column and what is counted for it."""
        lexicon, columns = self.lexicon, scope.sources[0].columns
        yield columns, byte(b"*"), then()
        for column in columns:
            name = names(spellings(column))
            yield (column.lower(),), name, then()
            for label in self.labels[:1]:
                if label.lower() == column.lower():
                    continue
                counted = aggregate(lexicon, BARE, scope.reference)
                labelled = then(counted, lexicon.infix("as"), names(spellings(label)))
                items = then(name, lexicon.comma, labelled)
                yield (column.lower(), label), items, then(lexicon.clause("group by"), name)

    def _summaries(self, scope: Scope) -> Iterator[_Form]:
        """The name of an aggregate, and places of rows among the others."""
        lexicon, columns = self.lexicon, scope.sources[0].columns
        grouped = maybe(lexicon.clause("group by"), lexicon.listed(scope.reference))
        unnamed = maybe(lexicon.listed(scope.reference), lexicon.comma)
        summed = aggregate(lexicon, PLAIN, scope.reference)
        for label in self.labels:
            labelled = then(summed, lexicon.infix("as"), names(spellings(label)))
            yield (label,), then(unnamed, labelled), grouped
        if self.is_lean:
            return
        over = then(window_call(lexicon, scope.reference), window(lexicon, scope.reference))
        for label in _RANKS:
            if label not in map(str.lower, columns):
                ranked = then(over, lexicon.infix("as"), names(spellings(label)))
                yield (*columns, label), then(byte(b"*"), lexicon.comma, ranked), then()
                yield (label,), then(unnamed, ranked), then()

    def _inner(self, scope: Scope, items: Part, ending: Part) -> Part:
        lexicon = self.lexicon
        where = then(lexicon.clause("where"), expression(lexicon, PLAIN, Names.of(scope.reference)))
        listed = from_clause(lexicon, self.schema, scope, BRIEF)
        return then(word("select"), lexicon.space, items, listed, maybe(where), ending)

    def _around(self, scope: Scope, source: Part | None = None) -> Core:
        return Core(self.diagram, self.lexicon, self.schema, scope, VIEW, source=source)

    def _select(self, start: int) -> int:
        part = then(word("select"), self.lexicon.space, maybe(word("distinct"), self.lexicon.space))
        return part(self.diagram, start)

    # -- sub-queries in FROM ------------------------------------------------------------------

    def _in_from(self, begin: int, finish: int, source: Source, inner: Part) -> None:
        lexicon = self.lexicon
        called = maybe(lexicon.space, lexicon.any_label)
        derived = then(lexicon.clause("from"), lexicon.enclosed(inner), called)
        self._around(Scope((source,)), derived).draw(self._select(begin), finish)

    # -- common table expressions -------------------------------------------------------------

    def _common(self, begin: int, finish: int, exports: dict[tuple[str, ...], Part]) -> None:
        """WITH: a name may stand for another, later one; the last is what the query is about."""
        diagram, lexicon = self.diagram, self.lexicon
        start = then(word("with"), lexicon.space)(diagram, begin)
        named = [diagram.state() for _ in self.called]
        for state in named:
            diagram.skip(start, state)
        stored = maybe(lexicon.phrase("materialized", "not materialized"), lexicon.gap)
        opening = then(lexicon.infix("as"), stored, lexicon.opening)
        comma = then(byte(b","), maybe(lexicon.line))
        reached: dict[tuple[tuple[str, ...], int], int] = {}

        def defined(columns: tuple[str, ...], i: int) -> int:
            if (columns, i) not in reached:
                reached[columns, i] = diagram.state()
            return reached[columns, i]

        for i, name in enumerate(self.called):
            opened = then(names(spellings(name)), opening)(diagram, named[i])
            for columns, inner in exports.items():
                closed = then(inner, lexicon.closing)(diagram, opened)
                diagram.skip(closed, defined(columns, i))
                for j in range(i + 1, len(named)):
                    diagram.skip(comma(diagram, closed), named[j])
                    again = self._again(Scope((Source(name, columns),)))
                    following = then(comma, names(spellings(self.called[j])), opening, again)
                    diagram.skip(following(diagram, closed), defined(columns, j))
            for label in self.labels[:1]:
                self._counting(start, name, label, defined((label,), i))
                listed = then(names(spellings(name)), lexicon.opening, names(spellings(label)))
                single = then(listed, lexicon.closing, opening, self._single(), lexicon.closing)
                diagram.skip(single(diagram, named[i]), defined((label,), i))
        for (columns, i), state in reached.items():
            head = self._select(lexicon.line(diagram, state))
            self._around(Scope((Source(self.called[i], tuple(columns)),))).draw(head, finish)

    def _again(self, scope: Scope) -> Part:
        """All of a common table expression, with a condition."""
        return then(self._inner(scope, byte(b"*"), then()), self.lexicon.closing)

    def _counting(self, start: int, name: str, label: str, end: int) -> None:
        """Numbers from one to another, the usual recursive expression."""
        lexicon = self.lexicon
        counter = names(spellings(label))
        called = names(spellings(name))
        step = then(
            counter, lexicon.sign("+", "*"), lexicon.integer, lexicon.clause("from"), called
        )
        where = then(lexicon.clause("where"), counter, lexicon.sign("<", "<="), lexicon.integer)
        rest = then(maybe(where), maybe(limit(lexicon)), lexicon.closing)
        part = then(
            then(word("recursive"), lexicon.space, called, lexicon.enclosed(counter)),
            then(lexicon.infix("as"), lexicon.opening),
            then(word("select"), lexicon.space, lexicon.integer, lexicon.clause("union all")),
            then(word("select"), lexicon.space, step, rest),
        )
        self.diagram.skip(part(self.diagram, start), end)
