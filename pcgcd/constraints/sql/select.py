"""One SELECT over one scope: its results, its tables, its conditions, its groups and its order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pcgcd.constraints.sql.database import Schema
from pcgcd.constraints.sql.diagram import Diagram, Part, byte, either, maybe, names, then, word
from pcgcd.constraints.sql.expressions import Form, Names, SubQuery, expression
from pcgcd.constraints.sql.lexical import Lexicon, spellings
from pcgcd.constraints.sql.scopes import Scope
from pcgcd.constraints.sql.shapes import PLAIN_ITEM, REST, Shape
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
    """A name for a result that clauses after it may use."""

    label: str
    is_plain: bool = False  # whether it stands for no aggregate, so that GROUP BY may use it too
    is_window: bool = False  # whether it stands for a window function, which HAVING may not use


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

    def _use(self, live: Live | None = None) -> Names:
        reference = self.scope.reference
        if live is None:
            return Names.of(reference)
        return Names(either(reference, _label(live)), reference)

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
        diagram.skip(lexicon.sign(",")(diagram, after), again)
        return after, done, again

    def _stars(self) -> Part:
        every = byte(b"*")
        return every if self.scope.stars is None else either(every, self.scope.stars)

    def _free_label(self) -> Part:
        lexicon = self.lexicon
        if not self.shape.is_rich:
            return then(lexicon.infix("as"), lexicon.label)
        named = then(maybe(word("as"), lexicon.space), lexicon.label)
        quoted = then(word("as"), lexicon.space, lexicon.string)
        return then(lexicon.space, either(named, quoted))

    def _counted_results(self, start: int, width: int) -> int:
        """So many results; or all columns, if there are so many."""
        diagram = self.diagram
        value = self._value(self.shape.item)
        if not self.shape.is_brief:
            value = then(value, maybe(self._free_label()))
        parts = [value]
        for _ in range(width - 1):
            parts += [self.lexicon.sign(","), value]
        listed = then(*parts)
        if self.scope.width == width:
            listed = either(listed, byte(b"*"))
        return listed(diagram, start)

    def _windows(self, again: int, unnamed: int) -> None:
        """Window functions, whose window is here or has a name."""
        diagram, lexicon = self.diagram, self.lexicon
        over = window_call(lexicon, self.scope.reference)(diagram, again)
        diagram.skip(self._window()(diagram, over), unnamed)

    def _window(self) -> Part:
        direction = maybe(self.lexicon.space, names(("asc", "desc")))
        terms = self.lexicon.listed(then(self.scope.reference, direction))
        return window(self.lexicon, self.scope.reference, terms)

    def _named_results(self, start: int, done: int, again: int, finish: int) -> None:
        """Results whose names are used later: the rest of the query is drawn for each name."""
        diagram, lexicon = self.diagram, self.lexicon
        named = lexicon.infix("as")(diagram, done)
        rests = [(named, Live(label)) for label in self.labels]
        if self.shape.is_rich:
            plain = expression(lexicon, PLAIN_ITEM, self._use())
            named = lexicon.infix("as")(diagram, plain(diagram, again))
            rests += [(named, Live(label, is_plain=True)) for label in self.labels]
            self._rest(plain(diagram, start), Live("1", is_plain=True), finish)
        for state, live in rests:
            self._rest(_label(live)(diagram, state), live, finish)
        if self.shape.is_rich:
            over = window_call(lexicon, self.scope.reference)(diagram, again)
            spaced = lexicon.space(diagram, over)
            self._rest(word(_WINDOW)(diagram, spaced), Live(_WINDOW, is_window=True), finish)

    def _rest(self, entry: int, live: Live, finish: int) -> None:
        """More results, and the clauses, all of the leanest shape."""
        diagram = self.diagram
        after = diagram.state()
        diagram.skip(entry, after)
        lean = Core(
            diagram,
            self.lexicon,
            self.schema,
            self.scope,
            REST,
            is_ordered=self.is_ordered,
        )
        value = lean._value(REST.item)
        if live.is_window:
            diagram.skip(lean._free_label()(diagram, entry), after)
        more = then(self.lexicon.sign(","), value)
        diagram.skip(more(diagram, after), after)
        lean.tables(after, finish, live)

    # -- clauses ------------------------------------------------------------------------------

    def _clauses(self, start: int, finish: int, live: Live | None) -> None:
        diagram, lexicon, shape = self.diagram, self.lexicon, self.shape
        label = None if live is None or live.is_window else live
        filtered, grouped = diagram.state(), diagram.state()
        diagram.skip(start, filtered)
        where = expression(lexicon, shape.where, self._quoted(), self.subs.where)
        diagram.skip(then(lexicon.infix("where"), where)(diagram, start), filtered)
        if shape.group is None:
            self._ending(filtered, shape.order, finish, live, label)
            return
        group = expression(
            lexicon, shape.group, self._use(label if label and label.is_plain else None)
        )
        by = then(lexicon.infix("group by"), lexicon.listed(group))(diagram, filtered)
        diagram.skip(by, grouped)
        if live is None:
            having = expression(lexicon, shape.having, self._use(), self.subs.having)
            diagram.skip(then(lexicon.infix("having"), having)(diagram, by), grouped)
        elif label is not None:
            having = expression(lexicon, shape.having, Names.of(_label(label)))
            diagram.skip(then(lexicon.infix("having"), having)(diagram, by), grouped)
        if shape.order == shape.grouped_order:
            diagram.skip(filtered, grouped)
            self._ending(grouped, shape.order, finish, live, label)
            return
        for state, form in ((filtered, shape.order), (grouped, shape.grouped_order)):
            self._ending(state, form, finish, live, label)

    def _ending(
        self, state: int, form: Form, finish: int, live: Live | None, label: Live | None
    ) -> None:
        """WINDOW and ORDER BY."""
        diagram, lexicon = self.diagram, self.lexicon
        if live is not None and live.is_window:
            state = self._window_clause()(diagram, state)
        diagram.skip(state, finish)
        if self.is_ordered:
            term = expression(lexicon, form, self._use(label))
            diagram.skip(
                order_by(lexicon, term, has_nulls=not self.shape.is_brief)(diagram, state), finish
            )

    def _window_clause(self) -> Part:
        lexicon = self.lexicon
        return then(lexicon.infix("window"), word(_WINDOW), lexicon.infix("as"), self._window())


def order_by(lexicon: Lexicon, term: Part, has_nulls: bool = True) -> Part:
    """``ORDER BY`` and its terms."""
    direction = maybe(lexicon.space, names(("asc", "desc")))
    if has_nulls:
        nulls = maybe(lexicon.space, lexicon.phrase("nulls first", "nulls last"))
        direction = then(direction, nulls)
    return then(lexicon.infix("order by"), lexicon.listed(then(term, direction)))


def limit(lexicon: Lexicon) -> Part:
    """``LIMIT`` with ``OFFSET``."""
    number = then(maybe(byte(b"-")), lexicon.integer)
    more = then(either(lexicon.infix("offset"), lexicon.sign(",")), number)
    return then(lexicon.infix("limit"), number, maybe(more))


def _label(live: Live) -> Part:
    if live.label.isdigit():
        return word(live.label)
    return names(spellings(live.label))
