"""Queries over queries: common table expressions, and sub-queries in FROM.

What the query around may name is what the inner one exports, and an automaton has to remember
that: all columns of a table (``SELECT *``), one column, or one column and what is counted for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pcgcd.constraints.sql.database import Schema
from pcgcd.constraints.sql.diagram import Diagram, Part, byte, either, maybe, names, then, word
from pcgcd.constraints.sql.expressions import BARE, PLAIN, Names, aggregate, expression
from pcgcd.constraints.sql.lexical import Lexicon, spellings
from pcgcd.constraints.sql.scopes import Scope, Source
from pcgcd.constraints.sql.select import Core, limit
from pcgcd.constraints.sql.shapes import BRIEF, VIEW
from pcgcd.constraints.sql.tables import from_clause


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
        exports = self._exports()
        self._common(begin, finish, exports)
        for columns, inner in exports.items():
            if not self.is_lean or len(columns) != 2:
                self._in_from(begin, finish, Source("", columns, ""), inner)

    def _exports(self) -> dict[tuple[str, ...], Part]:
        found: dict[tuple[str, ...], list[Part]] = {}
        for table, columns in self.schema.tables.items():
            scope = Scope((Source(table, columns),))
            for exported, items, ending in self._forms(scope):
                found.setdefault(exported, []).append(self._inner(scope, items, ending))
        exports = {exported: either(*parts) for exported, parts in found.items()}
        return {**exports, (): self._single(None)}

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

    def _forms(self, scope: Scope) -> Iterator[tuple[tuple[str, ...], Part, Part]]:
        """What is exported, the results, and what follows the condition."""
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
                items = then(name, lexicon.sign(","), labelled)
                yield (column.lower(), label), items, then(lexicon.infix("group by"), name)

    def _inner(self, scope: Scope, items: Part, ending: Part) -> Part:
        lexicon = self.lexicon
        where = then(lexicon.infix("where"), expression(lexicon, PLAIN, Names.of(scope.reference)))
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
        called = maybe(lexicon.space, maybe(word("as"), lexicon.space), lexicon.label)
        derived = then(lexicon.infix("from"), lexicon.enclosed(inner), called)
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
        opening = then(lexicon.infix("as"), stored, byte(b"("), lexicon.gap)
        comma = lexicon.sign(",")
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
            head = self._select(lexicon.space(diagram, state))
            self._around(Scope((Source(self.called[i], tuple(columns)),))).draw(head, finish)

    def _again(self, scope: Scope) -> Part:
        """All of a common table expression, with a condition."""
        return then(self._inner(scope, byte(b"*"), then()), self.lexicon.closing)

    def _counting(self, start: int, name: str, label: str, end: int) -> None:
        """Numbers from one to another, the usual recursive expression."""
        lexicon = self.lexicon
        counter = names(spellings(label))
        called = names(spellings(name))
        step = then(counter, lexicon.sign("+", "*"), lexicon.integer, lexicon.infix("from"), called)
        where = then(lexicon.infix("where"), counter, lexicon.sign("<", "<="), lexicon.integer)
        rest = then(maybe(where), maybe(limit(lexicon)), lexicon.closing)
        part = then(
            then(word("recursive"), lexicon.space, called, lexicon.enclosed(counter)),
            then(lexicon.infix("as"), byte(b"("), lexicon.gap),
            then(word("select"), lexicon.space, lexicon.integer, lexicon.infix("union all")),
            then(word("select"), lexicon.space, step, rest),
        )
        self.diagram.skip(part(self.diagram, start), end)
