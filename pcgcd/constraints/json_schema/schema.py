"""From a JSON schema to a constraint."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from typing import Any, Literal

from pcgcd.automata.expressions import NOTHING, Expression
from pcgcd.automata.limits import STATE_LIMIT
from pcgcd.basics.choices import check_one_of
from pcgcd.constraints.base import Constraint
from pcgcd.constraints.json_schema.building import Builder, Style
from pcgcd.constraints.json_schema.checking import text_satisfies
from pcgcd.constraints.json_schema.document import Document
from pcgcd.constraints.json_schema.formulas import holds
from pcgcd.constraints.json_schema.layout import make_layout
from pcgcd.constraints.json_schema.limits import Limits, largest
from pcgcd.constraints.json_schema.reading import Reader, relaxed_keywords
from pcgcd.constraints.json_schema.vocabulary import unknown_keywords, warn_of_unknown
from pcgcd.constraints.python_types import is_type, type_schema
from pcgcd.errors import EmptyLanguageError, InvalidParameterError


def json_schema(
    schema: dict[str, Any] | bool | str | Any,
    *,
    order: Literal["schema", "any"] = "schema",
    whitespace: Literal["compact", "bounded", "free"] = "bounded",
    max_depth: int | None = None,
    free_depth: int | None = None,
    max_length: int | None = None,
    state_limit: int | None = None,
    strict: bool = True,
    relax: Iterable[str] = (),
    open_objects: bool = False,
) -> Constraint:
    r"""Accept the JSON texts that validate against a schema (draft 2020-12).

    Every text of the constraint is valid; every valid value has a text in it, within these limits:

    - Where a schema names ``properties`` and says nothing of others, there are no others. Names in
      ``required`` count, and so do those of sub-schemas that look at the same object (``$ref``,
      ``allOf``, ``if``, the branch of an ``anyOf`` or ``oneOf``). ``open_objects`` lifts this.
    - Properties are in the order of the schema: those of a schema before those of its sub-schemas,
      then names that only ``required`` and its like mention, then all others.
    - Where the bounds on lengths are long (2,857 characters in all), strings of more than 32 are
      written without escapes by number (``\u00e9``), and ``dropped`` says so: their characters
      stand for themselves, and control characters that have no short escape are left out.
    - Whole numbers are written as ``12`` or ``12.0``; bounded numbers plainly or in normalised
      scientific notation. Strings with a pattern or a format escape only what must be escaped, and
      what is not ASCII.
    - Values of which nothing is said, and schemas that contain themselves, are nested to a depth.
      ``dropped`` says to which, and which objects are closed.
    - Names of properties that the schema does not mention may repeat, since an automaton cannot
      remember them; the last one counts, as in :func:`json.loads`, and the value is still valid.
    - ``format`` is enforced (see :mod:`pcgcd.constraints.json_schema.formats`), ``pattern`` is read
      so that ECMA-262 and Python agree. A ``$schema`` of draft 4 to 7 is honoured in what differs.

    Args:
        schema: The schema, as a value or as JSON text; or a Python type: a pydantic model, a
            dataclass, a ``TypedDict``, a ``Literal``, an enum, ``list[int]``. Objects of a type
            have no properties but its fields, and texts are parsed into values of the type.
            ``{}`` is any JSON value.
        order: Whether properties keep the order of the schema, or come in any order.
        whitespace: None at all (``"compact"``); what :func:`json.dumps` writes with any indentation
            (``"bounded"``: after commas and colons at most one space, or inside of brackets a line
            break and then spaces or tabs); or whatever JSON allows (``"free"``).
        max_depth: How many levels of values of a schema that contains itself there may be below the
            outermost one.
        free_depth: How deep unmentioned properties are nested; places that the schema leaves open
            on purpose are one level deeper.
        max_length: How far characters are counted; a larger ``maxLength`` is taken as this. The
            depths are by default as large as keeps the automaton moderate (6, and 2 to 6, if they
            can be), and lengths are as the schema says, up to 4,096.
        state_limit: How many states the automaton may have (250,000). If the bounds of the schema
            need more, the largest ones (``maxLength``, ``maxItems``, ``maxProperties``) are
            lowered until it fits. Each bound that is lowered is listed in ``dropped``, and there is
            a warning.
        strict: Raise on what cannot be honoured. Otherwise the automaton accepts more than the
            schema says, and ``dropped`` lists what was left out.
        relax: The keywords that may be left out in this way, such as ``{"uniqueItems"}``; all
            others are still honoured or refused. What was left out and can be read is checked when
            a text has ended (:meth:`~pcgcd.constraints.Constraint.check`): in
            :func:`pcgcd.generate` a text that fails has the weight zero.
        open_objects: Follow the standard to the letter: properties that the schema does not name
            are allowed unless it forbids them, and a misspelled keyword says nothing (there is
            the warning of unknown keywords).

    Raises:
        UnsupportedConstraintError: A keyword cannot be honoured; names it and its place.
        InvalidParameterError: The schema is broken, a keyword is misspelled, or there is none;
            names the place.
        EmptyLanguageError: No value satisfies the schema.
        AutomatonTooLargeError: The schema is too large even within the smallest limits.

    Warns:
        LoweredBoundWarning: Bounds were lowered, so some valid values have no text.
        UnknownKeywordWarning: The schema has keywords that nobody knows, which say nothing.

    >>> person = json_schema(
    ...     {
    ...         "type": "object",
    ...         "properties": {
    ...             "name": {"type": "string", "minLength": 1},
    ...             "age": {"type": "integer", "minimum": 0},
    ...         },
    ...         "required": ["name"],
    ...     }
    ... )
    >>> person.matches('{"name": "Ada", "age": 36}'), person.matches('{"age": 36}')
    (True, False)
    >>> person.matches('{"name": "Ada", "born": 1815}'), person.dropped
    (False, ('closed object at #',))
    """
    check_one_of("order", order, "schema", "any")
    typed = type_schema(schema) if is_type(schema) else None
    document = Document(
        parsed(schema) if typed is None else typed.schema,
        of_python=typed is not None,
        closed=not open_objects,
    )
    if typed is None:
        warn_of_unknown(unknown_keywords(document.root.schema, to_the_letter=open_objects))
    reader = Reader(document, strict, relaxed_keywords(relax))
    style = Style(make_layout(whitespace), order, whole_floats=document.draft > 4)
    limits = Limits(max_depth, free_depth, max_length, state_limit)

    def whole(builder: Builder) -> Expression:
        return builder.value(holds(document.root), builder.style.max_depth)

    value = largest(reader, style, limits, whole, deepen=True)
    if value == NOTHING:
        raise EmptyLanguageError("no JSON value satisfies the schema")
    expression = style.layout.around + value + style.layout.around

    def read(text: str) -> Any:
        found = json.loads(text)
        return found if typed is None else typed.read(found)

    checker = partial(text_satisfies, reader, holds(document.root)) if reader.is_relaxed else None
    dropped, limit = tuple(reader.dropped), state_limit or STATE_LIMIT
    return Constraint(expression, "json_schema", dropped, read, limit, checker)


def parsed(schema: Any) -> Any:
    """A schema that may be given as JSON text."""
    if not isinstance(schema, str):
        return schema
    try:
        return json.loads(schema)
    except (ValueError, RecursionError) as error:
        raise InvalidParameterError(f"the schema is not JSON: {error}") from error
