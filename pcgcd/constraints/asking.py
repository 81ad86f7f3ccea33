"""Constraints from what callers of other libraries have at hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pcgcd.constraints.base import Constraint
from pcgcd.constraints.json_schema import json_schema
from pcgcd.constraints.python_types import is_type, options_of
from pcgcd.constraints.regex import regex
from pcgcd.constraints.simple import any_text, choice
from pcgcd.constraints.tools import function_call, openai_tools
from pcgcd.errors import InvalidParameterError

_FORMATS = ("json_schema", "json_object", "text")


def constraint_of(thing: Any) -> Constraint:
    """Return the constraint that a plain value stands for, where its meaning is clear.

    A dict is a JSON schema, or a ``response_format`` of OpenAI. A ``Literal``, an enum or a list of
    texts is a choice. Any other type is a JSON value of it. A list of functions or descriptions of
    tools is a call of one of them. A text could be a pattern, a literal or a schema: it is refused.

    >>> constraint_of(["yes", "no"])
    Constraint(choice of 2)
    """
    if isinstance(thing, Constraint):
        return thing
    if isinstance(thing, Mapping):
        return (
            of_response_format(thing) if thing.get("type") in _FORMATS else json_schema(dict(thing))
        )
    if is_type(thing):
        return json_schema(thing) if options_of(thing) is None else choice(thing)
    if isinstance(thing, list | tuple) and thing:
        if all(isinstance(item, str | Constraint) for item in thing):
            return choice(thing)
        if all(callable(item) or isinstance(item, Mapping) for item in thing):
            return function_call(thing)
    hint = "; a text could mean several things: write regex(...), literal(...) or json_schema(...)"
    raise InvalidParameterError(
        "what to generate must be a constraint, a circuit such as hmm * fa, a JSON schema as a "
        "dict, a type, a list of options or a list of tools, but got "
        f"{type(thing).__name__} {thing!r:.80}" + (hint if isinstance(thing, str) else "")
    )


def of_response_format(response_format: Any) -> Constraint:
    """Return the constraint of OpenAI's ``response_format``, given as a dict or a type.

    >>> of_response_format({"type": "json_object"}).matches('{"a": 1}')
    True
    """
    if is_type(response_format):
        return json_schema(response_format)
    kind = response_format.get("type") if isinstance(response_format, Mapping) else None
    if kind == "text":
        return any_text()
    if kind == "json_object":
        return json_schema({"type": "object"})
    # Chat completions wrap the schema, responses do not.
    inner = response_format.get("json_schema", response_format) if kind == "json_schema" else None
    if not isinstance(inner, Mapping) or "schema" not in inner:
        raise InvalidParameterError(
            'response_format must be {"type": "json_schema", "json_schema": {"schema": ...}}, '
            '{"type": "json_object"}, {"type": "text"} or a type, but is '
            f"{response_format!r:.100}"
        )
    return json_schema(inner["schema"])


def of_tool_choice(tools: Any, tool_choice: Any = "required") -> Constraint:
    """Return the constraint of OpenAI's ``tools`` and ``tool_choice``.

    Args:
        tools: What :func:`function_call` takes.
        tool_choice: "required": a call of some tool. The name of a tool, or OpenAI's
            ``{"type": "function", "function": {"name": ...}}``: a call of that one. "auto": a call,
            or a text that does not begin with a brace. "none": any text.

    >>> from pcgcd.constraints.tools import Call
    >>> auto = of_tool_choice([{"name": "now"}], "auto")
    >>> auto.parse('{"name": "now", "arguments": {}}')
    Call(name='now', arguments={})
    >>> auto.parse("It is noon."), auto.matches('{"name": "then"}')
    ('It is noon.', False)
    """
    if tool_choice == "none":
        return any_text()
    if tool_choice in ("required", "any"):
        return function_call(tools)
    if tool_choice == "auto":
        return function_call(tools) | regex(r"[^{\s](.|\n)*")
    name = tool_choice
    if isinstance(name, Mapping):
        name = name.get("function", name)
        name = name.get("name") if isinstance(name, Mapping) else None
    given = openai_tools(tools)
    names = [tool["function"]["name"] for tool in given]
    if name not in names:
        raise InvalidParameterError(
            'tool_choice must be "auto", "none", "required" or name one of the tools '
            f"({', '.join(names)}), but is {tool_choice!r:.100}"
        )
    place = names.index(name)
    # As it was given, if it was one of a list: a function reads its own arguments.
    return function_call([tools[place] if isinstance(tools, list | tuple) else given[place]])
