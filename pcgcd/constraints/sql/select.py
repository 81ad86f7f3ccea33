"""One SELECT over one scope: its results, its tables, its conditions, its groups and its order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from pcgcd.constraints.sql.database import Schema
from pcgcd.constraints.sql.diagram import Diagram, Part, byte, either, maybe, names, then, word
from pcgcd.constraints.sql.expressions import Form, Names, SubQuery, expression
from pcgcd.constraints.sql.lexical import Lexicon, spellings
from pcgcd.constraints.sql.scopes import Scope
from pcgcd.constraints.sql.shapes import REST, Shape
from pcgcd.constraints.sql.tables import from_clause
from pcgcd.constraints.sql.windows import window, window_call

# What a window may be called.
_WINDOW = "w"


@dataclass(frozen=True)
class SubQueries:
    """What draws sub-queries in each clause; None where there are none."""

    item: SubQuery | None = None
    where: SubQuery | None = None
    having: SubQuery | None = None


@dataclass(frozen=True)
class Live:
    """Names for results, or their numbers, that clauses after them may use."""

    labels: tuple[str, ...]
    plain: tuple[str, ...] = ()  # those that stand for no aggregate: GROUP BY may use them too
    window: str | None = None  # what a window is called, whose clause must follow

    @property
    def part(self) -> Part:
        """One of them."""
        return _labels(self.labels)


@dataclass(frozen=True)
class Core:
    """A SELECT over a scope, of a shape."""

    diagram: Diagram
    lexicon: Lexicon
    schema: Schema
    scope: Scope
    shape: Shape
    subs: SubQueries = field(default_factory=SubQueries)
    labels: Sequence[str] = ()
    is_ordered: bool = True  # whether ORDER BY may follow
    source: Part | None = None  # what stands for FROM and the tables, if it is no list of tables

    def draw(self, start: int, finish: int, width: int | None = None) -> int:
        """Draw it, from after SELECT to before LIMIT; return the state after the results."""
        if width is None:
            after, done, first = self._results(start)
            if self.labels:
                self._named_results(start, done, first, finish)
        else:
            after = self._counted_results(start, width)
        self.tables(after, finish)
        return after

    def tables(self, after: int, finish: int, live: Live | None = None) -> None:
        """FROM and what follows it."""
        if not self.scope.sources:
            self.diagram.skip(after, finish)
            return
        listed = self.source or from_clause(self.lexicon, self.schema, self.scope, self.shape)
        self._clauses(listed(self.diagram, after), finish, live)

    # -- results ------------------------------------------------------------------------------

    def _value(self, form: Form) -> Part:
        return expression(self.lexicon, form, self._quoted(), self.subs.item)

    def _quoted(self) -> Names:
        """Columns, in rich shapes also in quotes."""
        reference = self.scope.reference
        if not self.shape.is_rich:
            return Names.of(reference)
        return Names(either(reference, names(self.scope.quoted)), reference)

    def _use(self, labels: tuple[str, ...] = ()) -> Names:
        reference = self.scope.reference
        if not labels:
            return Names.of(reference)
        return Names(either(reference, _labels(labels)), reference)

    def _results(self, start: int) -> tuple[int, int, int]:
        """A list of results: where it ends, where a value ends, and where one begins."""
        diagram, lexicon = self.diagram, self.lexicon
        again, after = diagram.state(), diagram.state()
        diagram.skip(start, again)
        done = self._value(self.shape.item)(diagram, again)
        unnamed = diagram.state()
        diagram.skip(done, unnamed)
        if self.shape.is_rich and self.scope.sources:
            self._windows(again, unnamed)
        diagram.skip(unnamed, after)
        if self.shape.has_labels:
            diagram.skip(self._free_label()(diagram, unnamed), after)
        if self.scope.sources:
            diagram.skip(self._stars()(diagram, again), after)
        diagram.skip(lexicon.comma(diagram, after), again)
        return after, done, again

    def _stars(self) -> Part:
        every = byte(b"*")
        return every if self.scope.stars is None else either(every, self.scope.stars)

    def _free_label(self) -> Part:
        return then(self.lexicon.space, self.lexicon.any_label)

    def _counted_results(self, start: int, width: int) -> int:
        """So many results; or all columns, if there are so many."""
        diagram = self.diagram
        value = self._value(self.shape.item)
        if not self.shape.is_brief:
            value = then(value, maybe(self._free_label()))
        parts = [value]
        for _ in range(width - 1):
            parts += [self.lexicon.comma, value]
        listed = then(*parts)
        if self.scope.width == width:
            listed = either(listed, byte(b"*"))
        return listed(diagram, start)

    def _windows(self, again: int, unnamed: int) -> None:
        """Window functions, alone or between numbers, whose window is here or has a name."""
        diagram, lexicon = self.diagram, self.lexicon
        reference = self.scope.reference
        sign = either(lexicon.sign("+", "*", "/"), lexicon.infix("-"))  # -- begins a comment
        value = either(reference, lexicon.number)
        start = maybe(value, sign)(diagram, again)
        over = window_call(lexicon, reference)(diagram, start)
        rest = then(window(lexicon, reference), maybe(sign, value))
        diagram.skip(rest(diagram, over), unnamed)

    def _named_results(self, start: int, done: int, again: int, finish: int) -> None:
        """Results whose names are used later: the rest of the query is drawn for each name."""
        diagram, lexicon, shape = self.diagram, self.lexicon, self.shape
        named = lexicon.infix("as")(diagram, done)
        entries = [(named, label, Live((label,))) for label in self.labels]
        if shape.is_rich and shape.plain is not None:
            plain = expression(lexicon, shape.plain, self._use())
            spelled = lexicon.infix("as")(diagram, plain(diagram, again))
            entries += [(spelled, label, Live((label,), (label,))) for label in self.labels]
        for state, label, live in entries:
            self._rest(_labels((label,))(diagram, state), live, finish)
        if shape.plain is not None:
            self._numbered_results(start, shape.plain, finish)
        if shape.is_rich:
            over = window_call(lexicon, self.scope.reference)(diagram, again)
            spaced = lexicon.space(diagram, over)
            self._rest(word(_WINDOW)(diagram, spaced), Live((), window=_WINDOW), finish)

    def _numbered_results(self, start: int, plain: Form, finish: int) -> None:
        """A first result without aggregates, so that GROUP BY and ORDER BY may use numbers."""
        diagram, lexicon = self.diagram, self.lexicon
        label = maybe(lexicon.space, lexicon.any_label)
        first = then(expression(lexicon, plain, self._use()), label)(diagram, start)
        if self.shape.is_rich:
            self._rest(first, Live(("1",), ("1",)), finish)
        second = then(lexicon.comma, self._value(REST.item), label)(diagram, first)
        self._rest(second, Live(("1", "2"), ("1",)), finish)

    def _rest(self, entry: int, live: Live, finish: int) -> None:
        """More results, and the clauses, all of the leanest shape."""
        diagram, lexicon = self.diagram, self.lexicon
        after = diagram.state()
        diagram.skip(entry, after)
        lean = Core(
            diagram,
            lexicon,
            self.schema,
            self.scope,
            REST,
            is_ordered=self.is_ordered,
        )
        called = then(lexicon.infix("as"), lexicon.short_label)
        if live.window:
            diagram.skip(called(diagram, entry), after)
        more = then(lexicon.comma, lean._value(REST.item), maybe(called))
        diagram.skip(more(diagram, after), after)
        lean.tables(after, finish, live)

    # -- clauses ------------------------------------------------------------------------------

    def _clauses(self, start: int, finish: int, live: Live | None) -> None:
        diagram, lexicon, shape = self.diagram, self.lexicon, self.shape
        labels, plain = (live.labels, live.plain) if live else ((), ())
        filtered, grouped = diagram.state(), diagram.state()
        diagram.skip(start, filtered)
        where = expression(lexicon, shape.where, self._quoted(), self.subs.where)
        diagram.skip(then(lexicon.clause("where"), where)(diagram, start), filtered)
        if shape.group is None:
            self._ending(filtered, shape.order, finish, live)
            return
        group = expression(lexicon, shape.group, self._use(plain))
        by = then(lexicon.clause("group by"), lexicon.listed(group))(diagram, filtered)
        diagram.skip(by, grouped)
        if live is None:
            having = expression(lexicon, shape.having, self._use(), self.subs.having)
            diagram.skip(then(lexicon.clause("having"), having)(diagram, by), grouped)
        elif labels:
            having = expression(lexicon, shape.having, Names(live.part, self.scope.reference))
            diagram.skip(then(lexicon.clause("having"), having)(diagram, by), grouped)
        if shape.order == shape.grouped_order:
            diagram.skip(filtered, grouped)
            self._ending(grouped, shape.order, finish, live)
            return
        for state, form in ((filtered, shape.order), (grouped, shape.grouped_order)):
            self._ending(state, form, finish, live)

    def _ending(self, state: int, form: Form, finish: int, live: Live | None) -> None:
        """WINDOW and ORDER BY."""
        diagram, lexicon = self.diagram, self.lexicon
        if live is not None and live.window:
            state = self._window_clause()(diagram, state)
        diagram.skip(state, finish)
        if self.is_ordered:
            term = expression(lexicon, form, self._use(live.labels if live else ()))
            if not self.shape.is_brief:
                drawn = then(word("random"), lexicon.opening, byte(b")"))
                term = either(term, drawn)
            diagram.skip(
                order_by(lexicon, term, has_nulls=not self.shape.is_brief)(diagram, state), finish
            )

    def _window_clause(self) -> Part:
        lexicon = self.lexicon
        return then(
            lexicon.clause("window"),
            word(_WINDOW),
            lexicon.space,
            word("as"),
            window(lexicon, self.scope.reference),
        )


def order_by(lexicon: Lexicon, term: Part, has_nulls: bool = True) -> Part:
    """``ORDER BY`` and its terms."""
    direction = lexicon.direction
    if has_nulls:
        nulls = maybe(lexicon.space, lexicon.phrase("nulls first", "nulls last"))
        direction = then(direction, nulls)
    return then(lexicon.clause("order by"), lexicon.listed(then(term, direction)))


def limit(lexicon: Lexicon) -> Part:
    """``LIMIT`` with ``OFFSET``."""
    number = then(maybe(byte(b"-")), lexicon.integer)
    more = then(either(lexicon.clause("offset"), lexicon.comma), number)
    return then(lexicon.clause("limit"), number, maybe(more))


def _labels(labels: tuple[str, ...]) -> Part:
    texts = ([label] if label.isdigit() else spellings(label) for label in labels)
    return names(chain.from_iterable(texts))
