"""JSON objects as byte expressions.

Names that a schema mentions are written at most once. Other names cannot be told apart by an
automaton, so a free name may come twice; what is required of such properties is required of each,
and a property that must be there is the last one, so that reading the text (where the last of two
equal names counts) keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from pcgcd.automata.expressions import (
    EMPTY_STRING,
    NOTHING,
    Expression,
    Member,
    any_order,
    concatenation,
    intersection,
    star,
    union,
)
from pcgcd.automata.limits import STATE_LIMIT
from pcgcd.constraints.json_schema.counting import MOST_TOLD_APART, Bounds, counted
from pcgcd.constraints.json_schema.document import unsupported
from pcgcd.constraints.json_schema.formulas import FALSE, TRUE, Formula, among, both
from pcgcd.constraints.json_schema.layout import in_order, listing
from pcgcd.constraints.json_schema.specs import ObjectSpec, Rule, StringSpec, Witness, meet_all
from pcgcd.constraints.json_schema.strings import string_literal
from pcgcd.errors import UnsupportedConstraintError

if TYPE_CHECKING:
    from pcgcd.constraints.json_schema.building import Builder
    from pcgcd.constraints.json_schema.reading import Reader

_MAX_PATTERNS = 6
_FEW_IN_ANY_ORDER = 8
_MAX_CHOICES = 256
_MOST_COUNTED = 60_000


class Group(NamedTuple):
    """Free names of one kind, and the condition on their values."""

    keys: tuple[StringSpec, ...]
    formula: Formula


class Parts(NamedTuple):
    """The properties of an object."""

    named: tuple[tuple[str, Formula, bool], ...]  # the condition on the value, and if it is needed
    groups: tuple[Group, ...]  # all other names
    witnesses: tuple[Witness, ...]  # of which the last property must satisfy all


def object_parts(reader: Reader, spec: ObjectSpec, order: tuple[str, ...] = ()) -> list[Parts]:
    """The ways to satisfy a specification; several only where a property must exist somewhere."""
    known = reader.parts.get(spec)
    if known is None:
        known = reader.parts[spec] = list(_ways(reader, spec))
    if not order:
        return known
    rank = {name: i for i, name in enumerate(order)}

    def ordered(parts: Parts) -> Parts:
        named = sorted(parts.named, key=lambda entry: rank.get(entry[0], len(rank)))
        return parts._replace(named=tuple(named))

    return [ordered(parts) for parts in known]


def _ways(reader: Reader, spec: ObjectSpec) -> Iterator[Parts]:
    choices: list[list[tuple[str | None, Witness]]] = []
    for witness in spec.witnesses:
        names = [name for name in spec.names if _may_be(reader, witness, name)]
        choices.append([*((name, witness) for name in names), (None, witness)])
    if prod(map(len, choices)) > _MAX_CHOICES:
        raise UnsupportedConstraintError(
            f"negated conditions on properties allow more than {_MAX_CHOICES} combinations; name "
            f"fewer properties under 'not', 'if' or 'oneOf'"
        )
    usual = {name: _on(reader, spec, name) for name in spec.names}
    groups = tuple(_groups(reader, spec))
    for chosen in product(*choices):
        required = {*spec.required, *(name for name, _ in chosen if name is not None)}
        if spec.most is not None and len(required) > spec.most:
            continue
        formulas = dict(usual)
        for name, witness in chosen:
            if name is not None:
                formulas[name] = _if_possible(reader, both((formulas[name], witness.value)))
        if not any(formulas[name] is FALSE for name in required):
            alive = ((name, formula) for name, formula in formulas.items() if formula is not FALSE)
            named = tuple((name, formula, name in required) for name, formula in alive)
            yield Parts(named, groups, tuple(witness for name, witness in chosen if name is None))


def _on(reader: Reader, spec: ObjectSpec, name: str) -> Formula:
    """The condition on the value of a property that may be there, or FALSE."""
    if spec.keys and not reader.options(both((among([name]), *spec.keys)), "string"):
        return FALSE
    return _if_possible(reader, spec.on(name))


def _if_possible(reader: Reader, formula: Formula) -> Formula:
    return formula if reader.possible(formula) else FALSE


def _may_be(reader: Reader, witness: Witness, name: str) -> bool:
    return witness.may_have(name) and bool(
        reader.options(both((among([name]), witness.key)), "string")
    )


def _groups(reader: Reader, spec: ObjectSpec) -> list[Group]:
    """Free names, split by the patterns that are found in them."""
    patterns = tuple(dict.fromkeys(p for rule in spec.rules for p, _ in rule.patterns))
    if len(patterns) > _MAX_PATTERNS:
        raise UnsupportedConstraintError(
            f"the patterns of properties that apply together are {len(patterns)}, more than "
            f"{_MAX_PATTERNS}; use fewer 'patternProperties'"
        )
    bases = reader.options(both(spec.keys), "string")
    names = frozenset(spec.names)
    result = []
    for found in product((True, False), repeat=len(patterns)):
        formula = both(_free(rule, dict(zip(patterns, found, strict=True))) for rule in spec.rules)
        if not reader.possible(formula):
            continue
        mask = StringSpec(excluded=names, patterns=tuple(zip(patterns, found, strict=True)))
        if keys := meet_all(bases, [mask]):
            result.append(Group(tuple(keys), formula))
    return result


def _free(rule: Rule, found: dict[str, bool]) -> Formula:
    parts = [formula for pattern, formula in rule.patterns if found[pattern]]
    return both(parts) if parts else rule.others


# -- expressions --------------------------------------------------------------------------------


def object_expression(
    builder: Builder, spec: ObjectSpec, order: tuple[str, ...], depth: int
) -> Expression:
    """All objects of a specification."""
    ways = object_parts(builder.reader, spec, order)
    parts = (_body(builder, spec, each, depth) for each in ways)
    return builder.style.layout.bracketed("{", union(*parts), "}")


def _body(builder: Builder, spec: ObjectSpec, parts: Parts, depth: int) -> Expression:
    layout = builder.style.layout
    named = []
    for name, formula, required in parts.named:
        key = string_literal(name, builder.style.notations)
        entry = concatenation(key, layout.colon, builder.part(formula, depth))
        if entry != NOTHING or required:
            named.append((entry, required))
    free = union(*(_entry(builder, group, depth, bool(named)) for group in parts.groups))
    last = _last(builder, parts, depth) if parts.witnesses else NOTHING
    if parts.witnesses and last == NOTHING:
        return NOTHING
    if builder.style.order == "any":
        body = _any_order(builder, named, free, bounded=free == last == NOTHING)
    else:
        body = in_order(named, layout.comma, free)
    if parts.witnesses:
        alone = NOTHING if any(required for _, required in named) else last
        body = alone | (body & ~EMPTY_STRING) + layout.comma + last
    counted_body = _counted(builder, spec, body, parts, free)
    plain = builder.style.order == "schema" and not parts.witnesses and counted_body is body
    if not plain:
        builder.note_written_out()
    return counted_body


def _entry(builder: Builder, group: Group, depth: int, beside: bool) -> Expression:
    """Free properties; beside named ones they are an afterthought, and nested less deep."""
    keys = union(*(builder.string(key) for key in group.keys))
    if group.formula == TRUE and beside:
        value = builder.anything(builder.style.free_depth)
    else:
        value = builder.part(group.formula, depth)
    return concatenation(keys, builder.style.layout.colon, value)


def _last(builder: Builder, parts: Parts, depth: int) -> Expression:
    """The last property, which has all that is asked for."""
    options = []
    for group in parts.groups:
        keys, formula = list(group.keys), group.formula
        for witness in parts.witnesses:
            patterns = [(pattern, False) for pattern in witness.no_patterns]
            if witness.pattern is not None:
                patterns.append((witness.pattern, True))
            mask = StringSpec(excluded=frozenset(witness.no_names), patterns=tuple(patterns))
            keys = meet_all(keys, meet_all([mask], builder.reader.options(witness.key, "string")))
            formula = both((formula, witness.value))
        if keys and builder.reader.possible(formula):
            options.append(_entry(builder, Group(tuple(keys), formula), depth, True))
    return union(*options)


def _counted(
    builder: Builder, spec: ObjectSpec, body: Expression, parts: Parts, free: Expression
) -> Expression:
    """With as many properties as allowed."""
    num_named = len(parts.named)
    needed = sum(required for *_, required in parts.named) + bool(parts.witnesses)
    open_end = free != NOTHING or bool(parts.witnesses)
    least, most = spec.least if spec.least > needed else 0, spec.most
    if most is not None and open_end:
        most = builder.at_most("maxProperties", most, free, beside=num_named)
    elif most is not None and most >= num_named:
        most = None
    if least > num_named + MOST_TOLD_APART * open_end:
        why = (
            f"at least {least} properties are asked for, but only {num_named} have names, and an "
            f"automaton can tell only {MOST_TOLD_APART} other names apart"
        )
        builder.reader.drop(spec.least_at, unsupported(spec.least_at, why))
        least = min(1, least)
    elif open_end and least > needed + 1:
        builder.note(f"{spec.least_at}: names that differ may count as one")
    if least == 1 and most is None:
        return body & ~EMPTY_STRING
    if not least and most is None:
        return body
    keys = union(*(string_literal(name, builder.style.notations) for name, *_ in parts.named))
    return counted(body, Bounds(least, most, keys), min(_MOST_COUNTED, builder.style.max_states))


def _any_order(
    builder: Builder, named: list[tuple[Expression, bool]], free: Expression, bounded: bool
) -> Expression:
    """Properties in any order: each name at most once, and required ones once.

    Which of n names were seen is remembered along each of them: 2 ** (n - 1) copies.
    """
    comma, limit = builder.style.layout.comma, max(STATE_LIMIT, builder.style.max_states)
    size = sum(entry.size for entry, _ in named) + free.size
    if len(named) > _FEW_IN_ANY_ORDER and size << len(named) - 1 > limit:
        each = size / len(named)
        fitting = next((n for n in range(len(named), 0, -1) if n * each * 2 ** (n - 1) < limit), 1)
        raise UnsupportedConstraintError(
            f"{len(named)} named properties in any order need about {size << len(named) - 1:,} "
            f"states, and there may be {limit:,}, which is enough for {fitting} of their "
            f"size; use order='schema', raise state_limit, or group them in objects"
        )
    if bounded:
        members = [Member(entry, required) for entry, required in named]
        return any_order(members, comma, 0, None)
    parts = []
    for i, (entry, required) in enumerate(named):
        others = union(free, *(other for j, (other, _) in enumerate(named) if j != i))
        once = star(others + comma) + entry + star(comma + others)
        parts.append(once if required else once | listing(others, comma))
    return intersection(*parts) if parts else listing(free, comma)
