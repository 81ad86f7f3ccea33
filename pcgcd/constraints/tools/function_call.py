"""Calls of functions that are described by schemas, as JSON or as Python writes them."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

from pcgcd.automata.expressions import NOTHING, Expression, literal, union
from pcgcd.automata.limits import STATE_LIMIT
from pcgcd.basics.choices import check_one_of
from pcgcd.constraints.base import Constraint
from pcgcd.constraints.checks import is_range
from pcgcd.constraints.json_schema.building import Builder, Style
from pcgcd.constraints.json_schema.characters import PYTHON
from pcgcd.constraints.json_schema.checking import satisfies
from pcgcd.constraints.json_schema.document import Document
from pcgcd.constraints.json_schema.formulas import holds
from pcgcd.constraints.json_schema.layout import in_order, listing, make_layout
from pcgcd.constraints.json_schema.limits import Limits, largest
from pcgcd.constraints.json_schema.objects import object_parts
from pcgcd.constraints.json_schema.reading import Reader, relaxed_keywords
from pcgcd.constraints.json_schema.vocabulary import unknown_keywords, warn_of_unknown
from pcgcd.constraints.tools.argument_types import parameters_schema, undescribed
from pcgcd.constraints.tools.calls import CallReader, without_functions
from pcgcd.constraints.tools.descriptions import arguments_of, listed_tools
from pcgcd.errors import EmptyLanguageError, InvalidParameterError, UnsupportedConstraintError

# The schema of the arguments of each function.
_Tools: TypeAlias = "dict[str, dict[str, Any]]"


def function_call(
    tools: Sequence[dict[str, Any] | Callable[..., Any]] | str,
    *,
    style: Literal["json", "python"] = "json",
    parallel: bool | tuple[int, int | None] = False,
    name_key: str = "name",
    arguments_key: str = "arguments",
    whitespace: Literal["compact", "bounded", "free"] = "bounded",
    max_depth: int | None = None,
    free_depth: int | None = None,
    max_length: int | None = None,
    state_limit: int | None = None,
    strict: bool = True,
    relax: Iterable[str] = (),
) -> Constraint:
    """Accept calls of some functions, with arguments that fit their descriptions.

    Arguments are in the order in which they are described; required ones are always there, others
    may be left out, and there are none but those described: a tool that describes none takes none.
    So it is inside objects whose properties are described, unless they say
    ``additionalProperties``. Whole numbers are written ``3``, not ``3.0``.

    Args:
        tools: The functions: ``{"name": ..., "parameters": <JSON schema>}``, bare or as OpenAI
            wraps them in ``{"type": "function", "function": ...}``; with ``inputSchema`` as MCP has
            them (also its whole ``{"tools": [...]}``), or with ``input_schema`` as Anthropic does;
            or any of these as JSON text. Arguments under another key are an error. Or Python
            functions with type hints, or classes with fields such as pydantic models.
            Types may also be those of Python (``float``, ``dict``, ``List[int]``,
            ``str, optional``), and ``parameters`` a plain
            ``{argument: {"type": ..., "default": ...}}``; there, arguments with a default are
            optional.
        style: ``{"name": "f", "arguments": {"x": 1}}``, or ``f(x=1)`` with literals of Python.
        parallel: Whether a list of calls is asked for instead of one: True for one or more, or the
            fewest and the most.
        name_key: What the name is called, in JSON.
        arguments_key: What the arguments are called, in JSON.
        whitespace: See :func:`pcgcd.constraints.json_schema.json_schema`. By default a space may,
            but need not, follow each comma and colon.
        max_depth: As there.
        free_depth: As there.
        max_length: As there.
        state_limit: As there.
        strict: As there.
        relax: As there.

    Raises:
        InvalidParameterError: A tool is none, or describes arguments where they are not read.
        UnsupportedConstraintError: A tool is built into a vendor's model and describes no
            arguments, or a keyword cannot be honoured; the message names both.
        EmptyLanguageError: No arguments satisfy the schema of a function.

    >>> weather = {
    ...     "name": "weather",
    ...     "parameters": {
    ...         "type": "object",
    ...         "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    ...         "required": ["city"],
    ...     },
    ... }
    >>> call = function_call([weather], style="python")
    >>> call.matches("weather(city='Oslo', days=3)"), call.matches("weather(days=3)")
    (True, False)
    >>> function_call([weather]).matches('{"name": "weather", "arguments": {"city": "Oslo"}}')
    True
    """
    plain, readers = without_functions(tools)
    described = _described(plain)
    least, most = _counts(parallel)
    check_one_of("style", style, "json", "python")
    limits = Limits(max_depth, free_depth, max_length, state_limit)
    layout = make_layout(whitespace)
    if style == "json":
        whole = _as_schema(described, name_key, arguments_key)
        base = Style(layout, whole_floats=False)
    else:
        whole = {"$defs": described}
        base = Style(
            layout, whole_floats=False, notations=PYTHON, constants=("None", "True", "False")
        )
        _check_names(described)
    document = Document(whole, of_python=len(readers) == len(described), closed=True)
    reader = Reader(document, strict, relaxed_keywords(relax))

    def build(builder: Builder) -> Expression:
        if style == "json":
            call = builder.value(holds(document.root), builder.style.max_depth)
        else:
            call = builder.settled(union(*(_python_call(builder, name) for name in described)))
        if parallel is False:
            return call
        if max(least, most or 0) * call.size > builder.style.max_states:
            raise builder.too_large(f"a list of {least:,} to {most or least:,} calls")
        return layout.bracketed("[", listing(call, layout.comma, least, most), "]")

    value = largest(reader, base, limits, build)
    paths: list[tuple[str | int, ...]] = [("$defs", name) for name in described]
    if style == "json":
        paths = [("anyOf", i, "properties", arguments_key) for i in range(len(described))]
    places = (document.child(document.root, *path) for path in paths)
    formulas = dict(zip(described, map(holds, places), strict=True))
    impossible = [name for name, formula in formulas.items() if not reader.possible(formula)]
    _check_possible(described, impossible)
    if value == NOTHING:
        _check_possible(described, list(described))
    expression = layout.spaces + value + layout.spaces

    def check(text: bytes) -> bool:
        found = CallReader(style, name_key, arguments_key)(text.decode())
        return all(
            satisfies(reader, formulas[call.name], call.arguments)
            for call in (found if isinstance(found, list) else [found])
        )

    return Constraint(
        expression,
        f"function_call({', '.join(described)})",
        tuple(reader.dropped),
        CallReader(style, name_key, arguments_key, readers),
        state_limit or STATE_LIMIT,
        check if reader.is_relaxed else None,
    )


def _counts(parallel: Any) -> tuple[int, int | None]:
    if isinstance(parallel, bool):
        return 1, None
    if not is_range(parallel):
        raise InvalidParameterError(
            f"parallel must be False, True, or the fewest and the most calls, but {parallel!r} was "
            f"given"
        )
    return parallel


def _described(tools: Any) -> _Tools:
    result: _Tools = {}
    unknown: dict[str, str] = {}
    for i, tool in enumerate(listed_tools(tools)):
        name = tool["name"]
        if name in result:
            raise InvalidParameterError(f"two tools are called {name!r}; names must differ")
        openapi = tool.get("parameters") is not None
        result[name] = parameters_schema(name, arguments_of(tool), i, openapi=openapi)
        unknown |= unknown_keywords(result[name], f"the schema of the tool {name!r}")
    warn_of_unknown(unknown)
    return result


def _check_possible(tools: _Tools, impossible: list[str]) -> None:
    """Refuse functions that nothing can call."""
    for name, schema in tools.items():
        missing = undescribed(schema)
        if missing:
            raise EmptyLanguageError(
                f"no arguments satisfy the schema of {name!r}: it requires {missing[0]!r}, which "
                f"it does not describe; describe it under 'properties', or remove it from "
                f"'required'"
            )
    if impossible:
        raise EmptyLanguageError(
            f"no arguments satisfy the schema of {', '.join(map(repr, impossible))}; make it "
            f"possible, or leave the function out"
        )


def _as_schema(tools: _Tools, name_key: str, arguments_key: str) -> dict[str, Any]:
    if name_key == arguments_key:
        raise InvalidParameterError(f"name_key and arguments_key are both {name_key!r}")
    calls = [
        {
            "type": "object",
            "properties": {name_key: {"const": name}, arguments_key: schema},
            "required": [name_key, arguments_key],
            "additionalProperties": False,
        }
        for name, schema in tools.items()
    ]
    return {"anyOf": calls}


# -- Python -------------------------------------------------------------------------------------


def _check_names(tools: _Tools) -> None:
    for name in tools:
        if not all(part.isidentifier() for part in name.split(".")):
            raise InvalidParameterError(
                f"{name!r} is not a name in Python; rename the function, or use style='json'"
            )


def _python_call(builder: Builder, tool: str) -> Expression:
    """``name(argument=value, ...)``."""
    document = builder.reader.document
    layout, depth = builder.style.layout, builder.style.max_depth
    formula = holds(document.child(document.root, "$defs", tool))
    options = []
    for spec in builder.reader.values(formula, "object"):
        if spec.least > len(spec.required) or spec.most is not None:
            raise UnsupportedConstraintError(
                f"the number of arguments of {tool!r} is bounded, which is not possible for "
                f"calls in Python; use style='json'"
            )
        for parts in object_parts(builder.reader, spec, builder.order_of(formula)):
            members = []
            for name, value, required in parts.named:
                if not name.isidentifier() or keyword.iskeyword(name):
                    raise UnsupportedConstraintError(
                        f"the argument {name!r} of {tool!r} is not a name in Python; rename "
                        f"it, or use style='json'"
                    )
                entry = literal(f"{name}=") + builder.value(value, depth)
                if entry != NOTHING or required:
                    members.append((entry, required))
            if not parts.witnesses:
                options.append(in_order(members, layout.comma))
    return layout.bracketed(f"{tool}(", union(*options), ")")
