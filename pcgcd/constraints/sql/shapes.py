"""How much of the language the clauses of a query have: more where there are fewer scopes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pcgcd.constraints.sql.expressions import BARE, PLAIN, SIMPLE, Form


@dataclass(frozen=True)
class Shape:
    """The expressions of each clause."""

    item: Form
    where: Form
    group: Form | None
    having: Form
    order: Form  # where there are no groups, so no aggregates
    grouped_order: Form
    plain: Form | None = None  # results without aggregates that GROUP BY may use by name or number
    is_rich: bool = False  # windows, quoted names of tables, labels in quotes and without AS
    has_labels: bool = True  # names for results that nothing refers to
    is_brief: bool = False  # no rare joins, no NULLS FIRST and LAST


_COUNTED = Form(aggregate=BARE)
_SUMMARY = Form(aggregate=BARE, columns=False)

RICH = Shape(
    item=Form(
        call=Form(aggregate=Form(case=PLAIN), call=BARE, pair=BARE),
        pair=Form(aggregate=Form(case=PLAIN), call=BARE),
        aggregate=Form(call=PLAIN, case=Form(tests=True), wide=True, tests=True),
        case=Form(aggregate=BARE, tests=True),
        cast=Form(aggregate=Form(case=PLAIN)),
        tests=True,
        strings=True,
        wide=True,
    ),
    where=Form(
        call=Form(call=BARE, tests=True, strings=True),
        pair=BARE,
        case=PLAIN,
        cast=BARE,
        dates=True,
        tests=True,
        strings=True,
        wide=True,
    ),
    group=Form(call=PLAIN, pair=BARE, case=PLAIN, dates=True, constants=False),
    having=Form(aggregate=PLAIN, call=_COUNTED, tests=True),
    order=Form(call=PLAIN, pair=BARE, case=PLAIN, constants=False, tests=True, wide=True),
    grouped_order=Form(aggregate=PLAIN, call=_COUNTED, constants=False),
    plain=Form(call=BARE, pair=BARE, case=PLAIN, dates=True, constants=False),
    is_rich=True,
)
MEDIUM = Shape(
    item=Form(call=_COUNTED, pair=_COUNTED, aggregate=Form(case=PLAIN), cast=_COUNTED, case=PLAIN),
    where=Form(call=Form(tests=True), dates=True, tests=True, strings=True),
    group=Form(call=BARE, dates=True, operators=False, constants=False),
    having=Form(aggregate=BARE, tests=True),
    order=Form(call=BARE, operators=False, constants=False),
    grouped_order=Form(aggregate=BARE, constants=False),
    plain=Form(dates=True, operators=False, constants=False),
)
LEAN = Shape(
    item=Form(aggregate=Form(constants=False)),
    where=replace(SIMPLE, now=True),
    group=BARE,
    having=_SUMMARY,
    order=BARE,
    grouped_order=Form(aggregate=BARE, operators=False, constants=False),
)
# An arm of a set operation, or a sub-query.
BRIEF = replace(LEAN, item=Form(aggregate=BARE, operators=False), is_brief=True)
# A query over another.
VIEW = replace(BRIEF, where=PLAIN, group=None, has_labels=False)
# What follows a result whose name is used later.
REST = Shape(
    item=Form(aggregate=BARE, operators=False, constants=False),
    where=replace(PLAIN, now=True),
    group=BARE,
    having=_COUNTED,
    order=BARE,
    grouped_order=BARE,
    has_labels=False,
    is_brief=True,
)
