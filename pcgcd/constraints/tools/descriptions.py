"""Where a tool says what its arguments are: the dialects of OpenAI, MCP, Anthropic and others."""

from __future__ import annotations

from typing import Any

from pcgcd.constraints.tools.argument_types import is_flat, names_type
from pcgcd.errors import InvalidParameterError

# OpenAI and plain; MCP; Anthropic; Gemini.
_ARGUMENTS = (
    "parameters",
    "inputSchema",
    "input_schema",
    "parametersJsonSchema",
    "parameters_json_schema",
)
# Schemas of something else than the arguments.
_RESULTS = frozenset(
    {"outputSchema", "output_schema", "responseJsonSchema", "response", "returns", "return"}
)
_SIGNS = ("properties", "$ref", "anyOf", "oneOf", "allOf", "items", "enum", "additionalProperties")


def listed_tools(given: Any) -> list[dict[str, Any]]:
    """The tools as objects with a name, without what wraps them: OpenAI's, Bedrock's, MCP's."""
    if isinstance(given, dict):
        given = given["tools"] if "tools" in given and "name" not in given else [given]
    if not isinstance(given, list | tuple) or not given:
        raise InvalidParameterError(
            f"tools must be a list of functions that is not empty, but it is {repr(given)[:100]}"
        )
    return [_unwrapped(tool, i) for i, tool in enumerate(given)]


def _unwrapped(tool: Any, index: int) -> dict[str, Any]:
    wrapper = next(
        (k for k in ("function", "toolSpec") if isinstance(tool, dict) and k in tool), ""
    )
    inner = tool[wrapper] if wrapper else tool
    name = inner.get("name") if isinstance(inner, dict) else None
    if not isinstance(name, str) or not name:
        raise InvalidParameterError(
            f"each tool must be an object with a 'name', but number {index} is {repr(tool)[:100]}"
        )
    if wrapper:
        _check_read(name, {key: value for key, value in tool.items() if key != wrapper}, ())
    return inner  # type: ignore[no-any-return]  # a dict, since it has a name


def arguments_of(tool: dict[str, Any]) -> Any:
    """What a tool says about its arguments; None if it says nothing.

    Raises:
        InvalidParameterError: It says it twice, or under a key that is not read here.
    """
    name = tool["name"]
    said = {key: tool[key] for key in _ARGUMENTS if tool.get(key) is not None}
    if len(said) > 1:
        raise InvalidParameterError(
            f"the tool {name!r} describes its arguments more than once, under "
            f"{', '.join(map(repr, said))}; keep one of them"
        )
    _check_read(name, tool, _ARGUMENTS)
    for key, value in said.items():
        # Bedrock has one more level: {"json": <schema>}.
        wrapped = key == "inputSchema" and isinstance(value, dict) and set(value) == {"json"}
        return value["json"] if wrapped else value
    return None


def _check_read(name: str, tool: dict[str, Any], read: tuple[str, ...]) -> None:
    """Refuse a key that is not read, but describes arguments by the looks of it."""
    for key, value in tool.items():
        if key in read or key in _RESULTS or not isinstance(value, dict):
            continue
        if _looks_like_schema(value):
            raise InvalidParameterError(
                f"the tool {name!r} has a schema under {key!r}, which is not read; put the schema "
                f"of the arguments under one of {', '.join(map(repr, _ARGUMENTS))}, or remove it"
            )


def _looks_like_schema(value: dict[str, Any]) -> bool:
    if any(isinstance(value.get(sign), dict | list) for sign in _SIGNS) or "$ref" in value:
        return True
    return names_type(value.get("type")) or (bool(value) and is_flat(value))
