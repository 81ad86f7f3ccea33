"""JSON arrays as byte expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pcgcd.automata.expressions import (
    EMPTY_STRING,
    NOTHING,
    Expression,
    Member,
    Union,
    any_order,
    intersection,
    option,
    repeat,
    star,
    union,
)
from pcgcd.constraints.json_schema.document import Place
from pcgcd.constraints.json_schema.formulas import Formula, among, both, json_key, negation
from pcgcd.constraints.json_schema.layout import listing
from pcgcd.constraints.json_schema.specs import (
    KINDS,
    ArraySpec,
    ConstantSpec,
    Contains,
    NumberSpec,
    StringSpec,
)

if TYPE_CHECKING:
    from pcgcd.constraints.json_schema.building import Builder

_MAX_DISTINCT = 12
_MAX_VALUES = 64


def array_expression(builder: Builder, spec: ArraySpec, depth: int) -> Expression:
    """All arrays of a specification."""
    layout = builder.style.layout
    most = _most(builder, spec)
    if most is not None and most < spec.least:
        return NOTHING
    parts: list[Expression | None] = []
    parts += [_contains(builder, spec, contains, depth) for contains in spec.contains]
    if not _says_all(spec, most):
        parts.insert(0, _items(builder, spec, most, depth))
    if spec.unique and (most is None or most > 1):
        parts.append(_distinct(builder, spec, spec.unique, most))
    if spec.repeated:
        parts.append(_repeated(builder, spec, spec.repeated))
    items = [part for part in parts if part is not None]
    if len(items) > 1 or spec.contains:
        builder.note_written_out()
    return layout.bracketed("[", intersection(*items), "]")


def _most(builder: Builder, spec: ArraySpec) -> int | None:
    """The most items there can be."""
    for i, item in enumerate((*spec.prefix, spec.rest)):
        if not builder.reader.possible(item):
            return i if spec.most is None else min(i, spec.most)
    return spec.most


def _items(builder: Builder, spec: ArraySpec, most: int | None, depth: int) -> Expression:
    comma = builder.style.layout.comma
    prefix = spec.prefix if most is None else spec.prefix[:most]
    open_end = most is None or most > len(prefix)
    rest = builder.part(spec.rest, depth) if open_end else NOTHING
    limit = builder.item_limit(rest)
    size = len(prefix)
    if spec.least - size > limit:
        raise builder.too_large(f"an array of at least {spec.least:,} items")
    if not size:
        most = None if most is None else builder.at_most("maxItems", most, rest, least=spec.least)
        return listing(rest, comma, spec.least, most)
    tail = EMPTY_STRING
    if open_end:
        needed = max(0, spec.least - size)
        last = None
        if most is not None:
            last = builder.at_most("maxItems", most, rest, least=needed, beside=size) - size
        tail = repeat(comma + rest, needed, last)
    for i in range(size - 1, -1, -1):
        tail = builder.part(prefix[i], depth) + tail
        tail = comma + tail if i else tail
        tail = option(tail) if i >= spec.least else tail
    return tail


def _kinds_of_items(spec: ArraySpec) -> tuple[Formula, ...]:
    return tuple(dict.fromkeys((*spec.prefix, spec.rest)))


def _says_all(spec: ArraySpec, most: int | None) -> bool:
    """Whether what must be contained is said of lists of items that nothing else is asked of."""
    fewest = [start + least if least else 0 for _, least, _, start in spec.contains]
    return most is None and not spec.prefix and spec.least <= max(fewest, default=-1)


def _contains(builder: Builder, spec: ArraySpec, contains: Contains, depth: int) -> Expression:
    """A number of items for which a formula holds, from an index on."""
    comma, formulas = builder.style.layout.comma, _kinds_of_items(spec)
    formula, least, most, start = contains
    everything = union(*(builder.value(f, depth) for f in formulas))
    inside = union(*(builder.value(both((f, formula)), depth) for f in formulas))
    inside = _common(builder, inside, everything)
    outside = everything
    if most is not None:
        against = negation(formula)
        outside = union(*(builder.value(both((f, against)), depth) for f in formulas))
        outside = _common(builder, outside, everything)
    one = star(outside + comma) + inside
    result = NOTHING
    skipped = repeat(everything + comma, start, start)
    if least == 0:
        result |= skipped + listing(outside, comma, 1) | listing(everything, comma, 0, start)
    if most is None or most > 0:
        # Without an upper bound, more of them are among all the others that may follow.
        times = repeat(
            comma + one, max(0, least - 1), max(1, least) - 1 if most is None else most - 1
        )
        result |= skipped + one + times + star(comma + outside)
    return result


def _common(builder: Builder, items: Expression, others: Expression) -> Expression:
    """The texts that are items of both kinds; options that both kinds have stay as they are.

    Where commas separate items, lists of both kinds are lists of items of both kinds.
    """
    left, right = (_options(each) for each in (items, others))
    same = [option for option in left if option in right]
    rest = union(*(option for option in right if option not in same))
    both_ways = (builder.settled(option & rest) for option in left if option not in same)
    return builder.joined(union(*same, *both_ways))


def _options(expression: Expression) -> tuple[Expression, ...]:
    return expression.options if isinstance(expression, Union) else (expression,)


def _distinct(
    builder: Builder, spec: ArraySpec, place: Place, most: int | None
) -> Expression | None:
    values = _values(builder, spec)
    if values is None:
        why = "the items are not from a finite set, and an automaton cannot remember them"
        _drop(builder, place, why)
        return None
    size = len(values)
    if size > _MAX_DISTINCT and (most is None or size**most > 4**_MAX_DISTINCT):
        why = f"there are {size} different items, and only {_MAX_DISTINCT} can be in any order"
        _drop(builder, place, why)
        return None
    members = [Member(builder.value(among([value]), 1), required=False) for value in values]
    return any_order(members, builder.style.layout.comma, 0, most)


def _repeated(builder: Builder, spec: ArraySpec, place: Place) -> Expression | None:
    values = _values(builder, spec)
    if values is None:
        why = "two equal items of an infinite set cannot be told from others by an automaton"
        _drop(builder, place, why)
        return None
    comma = builder.style.layout.comma
    spelled = [builder.value(among([value]), 1) for value in values]
    everything = union(*spelled)
    before, after = star(everything + comma), star(comma + everything)
    return union(*(before + item + comma + before + item + after for item in spelled))


def _drop(builder: Builder, place: Place, why: str) -> None:
    builder.reader.drop(place.named("uniqueItems"), place.unsupported("uniqueItems", why))


def _values(builder: Builder, spec: ArraySpec) -> list[Any] | None:
    """All values that items may have, if they are finitely many."""
    result: dict[Any, Any] = {}
    for formula in _kinds_of_items(spec):
        for kind in KINDS:
            for item in builder.reader.options(formula, kind):
                values = _finite(item)
                if values is None:
                    return None
                result.update((json_key(value), value) for value in values)
    return list(result.values()) if len(result) <= _MAX_VALUES else None


def _finite(spec: Any) -> list[Any] | None:
    if isinstance(spec, ConstantSpec | StringSpec | NumberSpec) and spec.values is not None:
        return list(spec.values)
    if isinstance(spec, StringSpec) and spec.most == 0:
        return [""]
    if isinstance(spec, NumberSpec) and spec.integer and spec.lower and spec.upper:
        first, last = int(spec.lower.value // 1), int(spec.upper.value // 1)
        if last - first <= _MAX_VALUES:
            return [n for n in range(first, last + 1) if spec.admits(n)]
    return None
