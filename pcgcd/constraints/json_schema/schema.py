"""From a JSON schema to a constraint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from pcgcd.automata.expressions import NOTHING, Expression
from pcgcd.basics.choices import check_one_of
from pcgcd.basics.numbers import check_whole_number
from pcgcd.constraints.base import Constraint
from pcgcd.constraints.json_schema.building import Builder, Style
from pcgcd.constraints.json_schema.document import Document
from pcgcd.constraints.json_schema.formulas import holds
from pcgcd.constraints.json_schema.layout import make_layout
from pcgcd.constraints.json_schema.reading import Reader
from pcgcd.constraints.python_types import is_type, type_schema
from pcgcd.errors import AutomatonTooLargeError, EmptyLanguageError, InvalidParameterError


class Limits(NamedTuple):
    """What was asked for; None: as much as leaves the automaton small."""

    max_depth: int | None = None
    free_depth: int | None = None
    max_length: int | None = None


# First how far characters are counted, by how many must be; then what is tried if that is too much.
_LENGTHS = ((4096, True), (1024, True), (512, True), (256, True), (256, False), (64, False))
_RUNGS = ((6, 1, 64), (4, 1, 32), (3, 0, 32), (2, 0, 16))
_ENOUGH, _MOST = 100_000, 200_000
# How many states there may be if free values are nested so many levels deeper.
_DEEPER = {4: 8_000, 3: 8_000, 2: 20_000, 1: 20_000}
# The states that a counted character needs, and those that all of them may have, with and without
# escapes by number.
_STATES = {True: (21, 60_000), False: (9, _ENOUGH)}


def json_schema(
    schema: dict[str, Any] | bool | str | Any,
    *,
    order: Literal["schema", "any"] = "schema",
    whitespace: Literal["compact", "bounded", "free"] = "bounded",
    max_depth: int | None = None,
    free_depth: int | None = None,
    max_length: int | None = None,
    strict: bool = True,
) -> Constraint:
    r"""The JSON texts that a schema (draft 2020-12) accepts.

    Every text of the constraint is valid; every valid value has a text in it, within these limits:

    - Properties are in the order of the schema: those of a schema before those of its sub-schemas,
      then names that only ``required`` and its like mention, then all others.
    - Whole numbers are written as ``12`` or ``12.0``; bounded numbers plainly or in normalised
      scientific notation. Strings with a pattern or a format escape only what must be escaped, and
      what is not ASCII.
    - Values of which nothing is said, and schemas that contain themselves, are nested to a depth.
    - Names of properties that the schema does not mention may repeat, since an automaton cannot
      remember them; the last one counts, as in :func:`json.loads`, and the value is still valid.
    - ``format`` is enforced (see :mod:`pcgcd.constraints.json_schema.formats`), ``pattern`` is read
      so that ECMA-262 and Python agree. A ``$schema`` of draft 4 to 7 is honoured in what differs.

    Args:
        schema: The schema, as a value or as JSON text; or a Python type: a pydantic model, a
            dataclass, a ``TypedDict``, a ``Literal``, an enum, ``list[int]``. Objects of a type
            have no properties but its fields, and texts are parsed into values of the type.
        order: Whether properties keep the order of the schema, or come in any order.
        whitespace: None at all (``"compact"``), at most one space after commas and colons
            (``"bounded"``, so both of the usual styles of :func:`json.dumps`), or whatever JSON
            allows (``"free"``).
        max_depth: How many levels of values a schema that contains itself may have.
        free_depth: How deep unmentioned properties are nested; places that the schema leaves open
            on purpose are one level deeper.
        max_length: How far characters are counted; a larger ``maxLength`` is taken as this, and a
            ``maxItems`` that would need too many states is lowered too. All three limits are by
            default as large as keeps the automaton moderate (6, 2 to 6 and 4096 if they can be).
        strict: Raise on what cannot be honoured. Otherwise accept more than the schema says, and
            list what was left out in ``dropped``.

    Raises:
        UnsupportedConstraintError: A keyword cannot be honoured; names it and its place.
        InvalidParameterError: The schema is broken; names the place.
        EmptyLanguageError: No value satisfies the schema.
        AutomatonTooLargeError: The schema is too large even within the smallest limits.

    >>> person = json_schema(
    ...     {
    ...         "type": "object",
    ...         "properties": {
    ...             "name": {"type": "string", "minLength": 1},
    ...             "age": {"type": "integer", "minimum": 0},
    ...         },
    ...         "required": ["name"],
    ...         "additionalProperties": False,
    ...     }
    ... )
    >>> person.matches('{"name": "Ada", "age": 36}'), person.matches('{"age": 36}')
    (True, False)
    """
    check_one_of("order", order, "schema", "any")
    typed = type_schema(schema) if is_type(schema) else None
    document = Document(parsed(schema) if typed is None else typed.schema)
    reader = Reader(document, strict)
    style = Style(make_layout(whitespace), order, whole_floats=document.draft > 4)
    limits = Limits(max_depth, free_depth, max_length)

    def whole(builder: Builder) -> Expression:
        return builder.value(holds(document.root), builder.style.max_depth)

    value = largest(reader, style, limits, whole, deepen=True)
    if value == NOTHING:
        raise EmptyLanguageError("no JSON value satisfies the schema")
    expression = style.layout.spaces + value + style.layout.spaces

    def read(text: str) -> Any:
        found = json.loads(text)
        return found if typed is None else typed.read(found)

    return Constraint(expression, "json_schema", tuple(reader.dropped), read)


def largest(
    reader: Reader,
    style: Style,
    limits: Limits,
    build: Callable[[Builder], Expression],
    *,
    deepen: bool = False,
) -> Expression:
    """What is built within the widest limits that keep the automaton moderate.

    With ``deepen``, free values are nested deeper still where that leaves few states.
    """
    for name, value in zip(limits._fields, limits, strict=True):
        if value is not None:
            check_whole_number(name, value, most=100_000)
    failure = AutomatonTooLargeError("the schema needs too many states")
    for candidate in _styles(reader.document, style, limits):
        builder = Builder(reader, candidate)
        try:
            built = build(builder)
        except AutomatonTooLargeError as error:
            failure = error
            continue
        # Each level of free values at most doubles the automaton.
        levels = next((more for more, most in _DEEPER.items() if built.size << more <= most), 0)
        if levels and deepen and limits.free_depth is None and builder.has_free_values:
            deeper = replace(candidate, free_depth=candidate.free_depth + levels)
            with suppress(AutomatonTooLargeError):
                deep = Builder(reader, deeper)
                built, builder = build(deep), deep
        reader.dropped.update(builder.lowered)
        return built
    raise failure


def _styles(document: Document, style: Style, limits: Limits) -> Iterator[Style]:
    """The limits to try, the widest first; such as would change nothing are left out."""
    longest, escapes = _longest(document.lengths)
    before: Any = None
    for rung in ((6, 2, longest), *_RUNGS):
        wanted = (own if asked is None else asked for own, asked in zip(rung, limits))
        max_depth, free_depth, max_length = wanted
        effect = (max_depth, free_depth, [min(length, max_length) for length in document.lengths])
        if effect != before:
            yield replace(
                style,
                max_depth=max_depth,
                free_depth=free_depth,
                max_length=max_length,
                escapes=escapes and before is None,
                max_states=_MOST if rung is _RUNGS[-1] else _ENOUGH,
            )
        before = effect


def _longest(lengths: list[int]) -> tuple[int, bool]:
    """How far the counted characters alone need not too many states, and whether with escapes."""
    for longest, escapes in _LENGTHS:
        cost, most = _STATES[escapes]
        if cost * sum(min(length, longest) for length in lengths) <= most:
            break
    return longest, escapes


def parsed(schema: Any) -> Any:
    """A schema that may be given as JSON text."""
    if not isinstance(schema, str):
        return schema
    try:
        return json.loads(schema)
    except (ValueError, RecursionError) as error:
        raise InvalidParameterError(f"the schema is not JSON: {error}") from error
