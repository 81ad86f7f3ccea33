"""Schemas from what Python programs have already: types, and functions with type hints.

Types are read by pydantic's ``TypeAdapter``: models, dataclasses, ``TypedDict``, ``Literal``,
enums, ``list[int]``. It also reads the texts back into values of the type.
"""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from pcgcd.basics.packages import package
from pcgcd.errors import InvalidParameterError

# Where a schema holds values, in which nothing is a schema.
_VALUES = frozenset({"default", "examples", "const", "enum"})
# How the text of a date with a time ends, by whether the type wants an offset.
_ENDS = {
    "aware": r"(?:[zZ]|[+-][0-9]{2}:[0-9]{2})$",
    "naive": r":[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?$",
}
_ARGUMENT = re.compile(r"^\s*\*{0,2}(\w+)(?:\s*\([^)]*\))?\s*:\s*(.*)$")


class TypeSchema(NamedTuple):
    """A Python type as a schema, and the way back.

    Attributes:
        schema: Its JSON schema. Objects have no properties but those of the type, unless it says
            so.
        read: From a value of JSON to one of the type.
    """

    schema: dict[str, Any]
    read: Callable[[Any], Any]


def is_type(thing: object) -> bool:
    """Say whether a thing is a type, or a typing construct such as ``Literal`` or ``list[int]``."""
    return isinstance(thing, type) or typing.get_origin(thing) is not None


def type_schema(kind: Any) -> TypeSchema:
    """The schema of a type.

    Raises:
        InvalidParameterError: pydantic has no schema for it.
        MissingDependencyError: pydantic is not installed.
    """
    pydantic = package("pydantic", "a schema from a Python type", "give the JSON schema itself")
    try:
        adapter = pydantic.TypeAdapter(_typed_dict(kind))
        schema = adapter.json_schema(schema_generator=_schema_generator())
    except (pydantic.errors.PydanticUserError, pydantic.errors.PydanticSchemaGenerationError) as e:
        raise InvalidParameterError(
            f"{_name(kind)} has no JSON schema: {str(e).splitlines()[0].rstrip('.')}; give a "
            "schema, a pydantic model, a dataclass, a TypedDict, a Literal or an Enum"
        ) from e

    def read(value: Any) -> Any:
        try:
            return adapter.validate_json(json.dumps(value))
        except pydantic.ValidationError as error:
            raise InvalidParameterError(
                f"the text satisfies the schema of {_name(kind)}, but not what the type checks "
                f"beyond it: {error.errors()[0]['msg']}"
            ) from error

    return TypeSchema(_closed(schema), read)


def _schema_generator() -> Any:
    """Pydantic's schemas, which also say whether a time has an offset where the type says so."""
    base: Any = package("pydantic.json_schema", "a schema from a Python type").GenerateJsonSchema

    class Generator(base):  # type: ignore[misc]  # pydantic may be missing
        def datetime_schema(self, schema: Any) -> dict[str, Any]:
            result: dict[str, Any] = super().datetime_schema(schema)
            end = _ENDS.get(schema.get("tz_constraint"))
            return {**result, "pattern": end} if end else result

    return Generator


def options_of(kind: Any) -> dict[str, Any] | None:
    """The texts of a ``Literal`` or an enum and what they stand for; None for other things.

    >>> from typing import Literal
    >>> options_of(Literal["yes", 1])
    {'yes': 'yes', '1': 1}
    """
    if typing.get_origin(kind) is typing.Literal:
        pairs = [(value, value) for value in typing.get_args(kind)]
    elif isinstance(kind, type) and issubclass(kind, Enum):
        pairs = [(member.value, member) for member in kind]
    else:
        return None
    wrong = [value for value, _ in pairs if not isinstance(value, str | int)]
    if wrong or len({str(value) for value, _ in pairs}) < len(pairs):
        raise InvalidParameterError(
            f"the options of {_name(kind)} must be different texts or whole numbers, but are "
            f"{[value for value, _ in pairs]!r:.100}"
        )
    return {str(value): meaning for value, meaning in pairs}


class FunctionTool(NamedTuple):
    """A function (or a class) as a tool that a model may call.

    Attributes:
        description: As OpenAI writes it: ``{"type": "function", "function": ...}``.
        read: From the arguments of JSON to those of the function: a dict, or an instance.
    """

    description: dict[str, Any]
    read: Callable[[Any], Any]


def function_tool(function: Callable[..., Any]) -> FunctionTool:
    """A tool from the signature and the docstring of a function, or from a class with fields.

    The first paragraph of the docstring describes the function; entries of its section ``Args:``
    describe the arguments. Defaults make arguments optional.

    Raises:
        InvalidParameterError: An argument has no type, or the function takes any number of them.
        MissingDependencyError: pydantic is not installed.
    """
    summary, notes = _docstring(function)
    if isinstance(function, type):
        found = type_schema(function)
    else:
        found = type_schema(_arguments_model(function, notes))
    schema = {key: value for key, value in found.schema.items() if key != "description"}
    tool: dict[str, Any] = {"name": function.__name__}
    if summary:
        tool["description"] = summary
    tool["parameters"] = schema

    def read(value: Any) -> Any:
        arguments = found.read(value)
        if isinstance(function, type):
            return arguments
        # Only those that were given: defaults are the function's own.
        given = arguments.model_fields_set  # a set, whose order would differ from run to run
        names = (name for name in type(arguments).model_fields if name in given)
        return {name: getattr(arguments, name) for name in names}

    return FunctionTool({"type": "function", "function": tool}, read)


def _arguments_model(function: Callable[..., Any], notes: dict[str, str]) -> Any:
    """A pydantic model with a field for each argument."""
    pydantic = package("pydantic", "a tool from a Python function", "describe it by a schema")
    name = getattr(function, "__name__", None)
    if not name or not name.isidentifier():
        raise InvalidParameterError(
            f"a tool must be a function with a name, but got {function!r:.80}; use def, or "
            "describe it by a schema"
        )
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise InvalidParameterError(
            f"the type hints of {name} cannot be read: {error}; import the types at run time"
        ) from error
    fields: dict[str, Any] = {}
    for argument, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise InvalidParameterError(
                f"{name} takes any number of arguments (*{argument}), which a tool cannot; name "
                "them, or describe the tool by a schema"
            )
        if argument not in hints:
            raise InvalidParameterError(
                f"the argument {argument!r} of {name} has no type; annotate it, for instance "
                f"{argument}: str"
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[argument] = (
            hints[argument],
            pydantic.Field(default, description=notes.get(argument)),
        )
    return pydantic.create_model(name, **fields)


def _docstring(function: Any) -> tuple[str, dict[str, str]]:
    """The first paragraph of a docstring, and what its section on arguments says of each."""
    own = not isinstance(function, type) or vars(function).get("__doc__")
    text = inspect.getdoc(function) if own else None
    if not text:
        return "", {}
    summary = " ".join(text.split("\n\n", 1)[0].split())
    section = re.search(
        r"^(?:Args|Arguments|Parameters):\n((?:[ \t]+.*\n?|\n)*)", text, re.MULTILINE
    )
    notes: dict[str, str] = {}
    if section is None:
        return summary, notes
    body = inspect.cleandoc(section[1]).splitlines()
    last = ""
    for line in body:
        match = _ARGUMENT.match(line) if not line.startswith((" ", "\t")) else None
        if match:
            last = match[1]
            notes[last] = match[2].strip()
        elif last:
            notes[last] = f"{notes[last]} {line.strip()}".strip()
    return summary, notes


def _closed(schema: Any) -> Any:
    """The schema with objects that have no properties but those described."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {
        key: value if key in _VALUES else _closed(value)
        for key, value in schema.items()
        if key != "title" or not isinstance(value, str)  # it only repeats the name
    }
    if result.get("type") == "object" and isinstance(result.get("properties"), dict):
        result.setdefault("additionalProperties", False)
    return result


def _typed_dict(kind: Any) -> Any:
    """Replace a ``typing.TypedDict``, which pydantic refuses before Python 3.12, by its like."""
    extensions = package("typing_extensions", "a schema from a Python type")
    if not typing.is_typeddict(kind):
        return kind
    required = extensions.Required, extensions.NotRequired
    fields = {
        name: required[name in kind.__optional_keys__][_bare(hint)]
        for name, hint in typing.get_type_hints(kind, include_extras=True).items()
    }
    same = extensions.TypedDict(kind.__name__, fields)
    same.__doc__ = kind.__doc__
    return same


def _bare(hint: Any) -> Any:
    """A type without the mark that says whether its key is required."""
    origin = typing.get_origin(hint)
    marked = getattr(origin, "_name", "") in ("Required", "NotRequired")
    return typing.get_args(hint)[0] if marked else hint


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", None) or str(kind)
