"""Expressions of queries.

SQLite takes operands and operators in any sequence (a condition is a number to it), so that one
operand with a way back draws them all. What is nested is drawn again: a :class:`Form` says how far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

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
from pcgcd.constraints.sql.functions import (
    AGGREGATES,
    COLLATIONS,
    COMMON,
    DATES,
    ONE_ARGUMENT,
    SIZED_TYPES,
    THREE_ARGUMENTS,
    TWO_ARGUMENTS,
    TYPES,
)
from pcgcd.constraints.sql.lexical import Lexicon

# Draws sub-queries: from where a parenthesis may open, from after EXISTS, and to where the
# expression goes on.
SubQuery = Callable[[Diagram, int, int, int], None]


@dataclass(frozen=True)
class Form:
    """What an expression may have in it; None where it may not."""

    call: Form | None = None  # parentheses and functions of one argument, with this inside
    pair: Form | None = None  # functions of several arguments, of which the first is this
    aggregate: Form | None = None  # calls such as sum(x), with this inside
    case: Form | None = None
    cast: Form | None = None
    constants: bool = True  # a literal at the beginning (ORDER BY takes a number for a column's)
    operators: bool = True  # more than one operand
    tests: bool = False  # IN, BETWEEN, LIKE, IS, NOT
    strings: bool = False  # strings in either quotes; otherwise in single ones, and numbers
    wide: bool = False  # rare operators, literals and functions
    columns: bool = True  # columns outside of calls
    dates: bool = False  # functions of dates, with columns and literals in any number
    now: bool = False  # the same with literals only


# A column, and nothing else.
BARE = Form(constants=False, operators=False)
# Comparisons and arithmetic.
PLAIN = Form()
SIMPLE = Form(tests=True, strings=True)


@dataclass(frozen=True)
class Names:
    """What stands for columns: at the top of an expression, and deeper in it."""

    top: Part
    inside: Part

    @classmethod
    def of(cls, part: Part) -> Names:
        """The same everywhere."""
        return cls(part, part)


def expression(lexicon: Lexicon, form: Form, use: Names, sub: SubQuery | None = None) -> Part:
    """Operands with operators between them."""
    if form == BARE:
        return use.top
    calls = _calls(lexicon, form, use)
    operators = _operators(lexicon, form, use.top)
    literals = [lexicon.literal if form.strings else lexicon.short_literal]
    if form.tests:
        literals.append(word("null"))
    if form.wide:
        literals.append(lexicon.rare_literal)

    def draw(diagram: Diagram, start: int) -> int:
        first, operand, done = diagram.state(), diagram.state(), diagram.state()
        diagram.skip(start, operand if form.constants else first)
        diagram.skip(operand, first)

        def edge(source: int, part: Part, target: int) -> None:
            diagram.skip(part(diagram, source), target)

        if form.columns:
            edge(first, use.top, done)
        for part in literals:
            edge(operand, part, done)
        if form.tests:
            edge(operand, then(word("not"), lexicon.space), operand)
        if form.wide:
            signed = diagram.state()
            edge(first, byte(b"+-~"), signed)
            edge(signed, use.inside, done)
        for part in calls:
            edge(first, part, done)
        if not form.operators:
            return done
        spaced = lexicon.space(diagram, done)
        if sub is not None:
            opening, exists = diagram.state(), diagram.state()
            diagram.skip(first, opening)
            edge(first, then(word("exists"), lexicon.gap), exists)
            edge(spaced, lexicon.is_in, opening)
            sub(diagram, opening, exists, done)
        for part in operators.closed:
            edge(spaced, part, done)
        for part in operators.open:
            edge(spaced, part, operand)
        edge(done, lexicon.clause("and", "or"), operand)
        for state in (done, spaced):
            edge(state, operators.signs, operand)
        return done

    return draw


@dataclass(frozen=True)
class _Operators:
    """What may follow an operand: with a blank before it, or with signs."""

    closed: list[Part]  # nothing need follow
    open: list[Part]  # an operand follows
    signs: Part


_SIGNS = ("=", "==", "<", ">", "<=", ">=", "!=", "<>", "+", "*", "/", "%", "||")
_RARE_SIGNS = ("<<", ">>", "&", "|", "->", "->>")


def _operators(lexicon: Lexicon, form: Form, reference: Part) -> _Operators:
    phrases = ["-"]
    closed: list[Part] = []
    opened: list[Part] = []
    signs: tuple[str, ...] = _SIGNS
    if form.tests:
        phrases += ["like", "not like", "is", "is not"]
        negation = maybe(word("not"), lexicon.space)
        low = either(lexicon.short_literal, reference) if form.wide else lexicon.short_literal
        between = then(negation, word("between"), lexicon.space, low, lexicon.infix("and"))
        closed.append(then(lexicon.is_in, lexicon.enclosed(lexicon.listed(lexicon.literal))))
        opened.append(between)
    if form.wide:
        phrases += ["glob", "not glob", "is distinct from", "is not distinct from"]
        signs += _RARE_SIGNS
        escape = then(word("escape"), lexicon.space, byte(b"'"), byte(b"\\!#"), byte(b"'"))
        like = then(negation, word("like"), lexicon.space, lexicon.string, lexicon.space, escape)
        closed += [
            names(("isnull", "notnull")),
            lexicon.words("not null"),
            then(word("collate"), lexicon.space, names(COLLATIONS)),
            like,
            then(lexicon.is_in, lexicon.enclosed(lexicon.listed(reference))),
        ]
    opened.append(then(lexicon.phrase(*phrases), lexicon.space))
    return _Operators(closed, opened, then(names(signs), lexicon.gap))


def _calls(lexicon: Lexicon, form: Form, use: Names) -> list[Part]:
    """Parentheses, calls, CASE and CAST."""
    inner = Names.of(use.inside)
    parts = []
    if form.call is not None:
        called = ONE_ARGUMENT if form.wide else COMMON
        opening = then(maybe(names(called)), lexicon.opening)
        if not form.constants:  # (1) is a number as well
            opening = then(names(called), lexicon.opening)
        parts.append(then(opening, expression(lexicon, form.call, inner), lexicon.closing))
    if form.dates or form.now:
        value = either(lexicon.short_literal, inner.top) if form.dates else lexicon.short_literal
        parts.append(then(names(DATES), lexicon.opening, lexicon.listed(value), lexicon.closing))
    if form.pair is not None:
        parts += _many_arguments(lexicon, form.pair, inner, form.wide)
    if form.aggregate is not None:
        parts.append(aggregate(lexicon, form.aggregate, use.inside))
    if form.case is not None:
        parts.append(_case(lexicon, form.case, inner))
    if form.cast is not None:
        parts.append(_cast(lexicon, form.cast, inner))
    return parts


def _many_arguments(lexicon: Lexicon, form: Form, inner: Names, is_wide: bool) -> list[Part]:
    comma = lexicon.comma
    more = either(lexicon.short_literal, inner.top) if is_wide else lexicon.short_literal
    two = then(expression(lexicon, form, inner), comma, more, lexicon.closing)
    found = [then(names(TWO_ARGUMENTS), lexicon.opening, two)]
    if is_wide:
        formatted = then(lexicon.short_literal, comma, inner.top, lexicon.closing)
        found.append(then(names(("strftime", "printf", "format")), lexicon.opening, formatted))
        three = then(more, comma, more, comma, more, lexicon.closing)
        found.append(then(names(THREE_ARGUMENTS), lexicon.opening, three))
    else:
        three = then(inner.top, *[comma, lexicon.short_literal] * 2, lexicon.closing)
        found.append(then(names(("substr", "replace")), lexicon.opening, three))
    return found


def aggregate(
    lexicon: Lexicon, form: Form, reference: Part, *, may_be_distinct: bool = True
) -> Part:
    """``count(*)``, ``sum(x)`` and the like; in rare forms with a filter or a separator."""
    value = expression(lexicon, replace(form, aggregate=None), Names.of(reference))
    distinct = maybe(word("distinct"), lexicon.space) if may_be_distinct else then()
    every = then(word("count"), lexicon.enclosed(byte(b"*")))
    called = AGGREGATES[:5] if form == BARE else AGGREGATES
    one = then(names(called), lexicon.opening, distinct, value, lexicon.closing)
    if not form.wide:
        return either(every, one)
    listed = then(word("group_concat"), lexicon.opening, reference, lexicon.comma, lexicon.string)
    condition = expression(lexicon, PLAIN, Names.of(reference))
    filtered = then(
        lexicon.space,
        then(word("filter"), lexicon.gap, lexicon.opening, word("where"), lexicon.space),
        condition,
        lexicon.closing,
    )
    return then(either(every, one, then(listed, lexicon.closing)), maybe(filtered))


def _case(lexicon: Lexicon, form: Form, use: Names) -> Part:
    value = expression(lexicon, form, use)
    base = maybe(lexicon.space, use.inside) if form.tests else then()
    branch = then(lexicon.infix("when"), value, lexicon.infix("then"), value)
    otherwise = maybe(lexicon.infix("else"), value)
    return then(word("case"), base, repeated(branch), otherwise, lexicon.space, word("end"))


def _cast(lexicon: Lexicon, form: Form, use: Names) -> Part:
    sizes = lexicon.enclosed(then(lexicon.integer, maybe(lexicon.comma, lexicon.integer)))
    kind = either(names(TYPES), then(names(SIZED_TYPES), sizes))
    value = expression(lexicon, form, use)
    return then(word("cast"), lexicon.opening, value, lexicon.infix("as"), kind, lexicon.closing)
