"""Where a tool says what its arguments are: the dialects of OpenAI, MCP, Anthropic and others."""

from __future__ import annotations

from typing import Any

from pcgcd.constraints.tools.recognition import describes_arguments, looks_like_schema
from pcgcd.errors import InvalidParameterError, UnsupportedConstraintError

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
# What describes a tool otherwise. A schema itself under one of these is still an error.
_OTHER_KEYS = """
    name description title type annotations _meta meta metadata icons tags version strict behavior
    cache_control defer_loading eager_input_streaming input_examples examples example execution
    allowed_callers securitySchemes
"""
# What could only be arguments, or further functions, whatever stands there.
_ARGUMENT_KEYS = """
    parameter parameters params param argument arguments args arg kwargs properties required
    input inputs schema jsonschema inputschema argsschema argumentsschema paramsschema
    parameterschema parametersschema parametersjsonschema inputparameters $ref $defs definitions
    anyof oneof allof additionalproperties patternproperties tools functions functiondeclarations
"""
_OTHERS, _MEANT = frozenset(_OTHER_KEYS.split()), frozenset(_ARGUMENT_KEYS.split())


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
        _check_kind(name, tool.get("type"), inner)
    _check_kind(name, inner.get("type"), inner)
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


def _check_kind(name: str, kind: Any, tool: dict[str, Any]) -> None:
    """Refuse a tool that is no function, whose arguments only its vendor knows."""
    is_function = kind is None or (isinstance(kind, str) and kind.lower() == "function")
    if is_function or any(tool.get(key) is not None for key in _ARGUMENTS):
        return
    inside = "give the tools inside it themselves, " if kind == "namespace" else ""
    raise UnsupportedConstraintError(
        f"the tool {name!r} has the type {repr(kind)[:60]} and no schema of arguments, so it is no "
        f"function that can be constrained; {inside}describe its arguments under 'parameters', or "
        "leave it out"
    )


def _check_read(name: str, tool: dict[str, Any], read: tuple[str, ...]) -> None:
    """Refuse a key that is not read, but describes arguments by its name or its looks."""
    for key, value in tool.items():
        if key in read or key in _RESULTS:
            continue
        meant = isinstance(key, str) and key.lower().replace("_", "").replace("-", "") in _MEANT
        filled = bool(value) and isinstance(value, dict | list | tuple | str)
        found = looks_like_schema if key in _OTHERS else describes_arguments
        if (meant and filled) or found(value):
            raise InvalidParameterError(
                f"the tool {name!r} describes arguments under {key!r}, which is not read; put the "
                f"schema of the arguments under one of {', '.join(map(repr, _ARGUMENTS))}, or "
                "remove it"
            )
