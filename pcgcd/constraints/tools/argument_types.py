"""The ways in which functions describe their arguments, made one: JSON Schema."""

from __future__ import annotations

import re
from typing import Any

from pcgcd.errors import InvalidParameterError

_TYPES = {
    "object": "object dict map hashmap mapping",
    "number": "number float double decimal",
    "integer": "integer int long short byte",
    "string": "string str char",
    "boolean": "boolean bool",
    "array": "array list arraylist tuple set sequence",
    "null": "null none nonetype",
}
_NAMES = {name: kind for kind, names in _TYPES.items() for name in names.split()}
_ANYTHING = frozenset({"any", "object or any", ""})
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_SCHEMA_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_CONDITIONS = ("not", "if", "then", "else", "propertyNames")
_SCHEMAS = ("items", "additionalProperties", "contains", *_CONDITIONS, *_UNEVALUATED)
_MAX_DEPTH = 100
_MAX_SCHEMAS = 50_000


def parameters_schema(tool: str, parameters: Any, index: int) -> dict[str, Any]:
    """The JSON schema of the arguments of a tool.

    References inside the schema are relative to an address made of its number.
    """
    if parameters is None or parameters == {}:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    if not isinstance(parameters, dict):
        raise InvalidParameterError(
            f"the parameters of the tool {tool!r} must be an object, but they are "
            f"{repr(parameters)[:100]}"
        )
    schema = _flat(parameters) if is_flat(parameters) else parameters
    result = _Converter(tool).converted(schema, 0)
    if not isinstance(result, dict):
        raise InvalidParameterError(f"the parameters of the tool {tool!r} must be an object")
    result.setdefault("type", "object")
    result.setdefault("$id", f"http://tools.invalid/{index}")
    return result


def names_type(named: Any) -> bool:
    """Return whether something is a type, or a list of types, that is known here."""
    names = named if isinstance(named, list) else [named]
    return all(isinstance(name, str) and name.lower() in _NAMES for name in names)


def is_flat(parameters: dict[str, Any]) -> bool:
    """Return whether arguments are described directly, and not under ``properties``."""
    marks = {"properties", "type", "$ref", "anyOf", "oneOf", "allOf", "required", "$defs"}
    plain = not any(mark in parameters and not _is_argument(parameters[mark]) for mark in marks)
    return plain and all(_is_argument(value) for value in parameters.values())


def _is_argument(value: Any) -> bool:
    return isinstance(value, dict) and ("type" in value or "description" in value)


def _flat(parameters: dict[str, Any]) -> dict[str, Any]:
    required = [
        name
        for name, argument in parameters.items()
        if "default" not in argument and not _is_optional(argument.get("type"))
    ]
    return {"type": "object", "properties": parameters, "required": required}


def _is_optional(named: Any) -> bool:
    return isinstance(named, str) and bool(re.search(r",\s*optional|^\s*optional\b", named, re.I))


class _Converter:
    """Gives a schema the types of JSON Schema, and closes its objects."""

    def __init__(self, tool: str) -> None:
        self.tool = tool
        self.count = 0

    def converted(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, dict):
            return schema
        self.count += 1
        if depth > _MAX_DEPTH or self.count > _MAX_SCHEMAS:
            raise InvalidParameterError(
                f"the parameters of the tool {self.tool!r} are nested more than {_MAX_DEPTH} deep, "
                f"or have more than {_MAX_SCHEMAS:,} parts; make them smaller"
            )
        result: dict[str, Any] = {}
        for key, value in schema.items():
            if key in _SCHEMA_MAPS and isinstance(value, dict):
                result[key] = {k: self.converted(item, depth + 1) for k, item in value.items()}
            elif key in _SCHEMA_LISTS and isinstance(value, list):
                result[key] = [self.converted(item, depth + 1) for item in value]
            elif key in _SCHEMAS:
                result[key] = self.converted(value, depth + 1)
            elif not (key == "required" and isinstance(value, bool)):
                result[key] = value
        typed = _typed(self.tool, result.pop("type", None))
        if "anyOf" in typed and "anyOf" in result:
            typed = {"allOf": [typed, *result.pop("allOf", [])]}
        # What the schema says itself is more exact than what its type implies.
        result = {**typed, **result}
        listed = result.get("type") == "object" and isinstance(result.get("properties"), dict)
        if listed and (result["properties"] or depth == 0) and not _extends(result):
            result.setdefault("additionalProperties", False)
        return result


def _extends(schema: dict[str, Any]) -> bool:
    """Whether sub-schemas may name further properties."""
    keys = ("allOf", "anyOf", "oneOf", "$ref", "if", "dependentSchemas", "unevaluatedProperties")
    return any(key in schema for key in keys)


def _typed(tool: str, named: Any) -> dict[str, Any]:
    """What a type, in whatever dialect, says in JSON Schema."""
    if named is None:
        return {}
    if isinstance(named, list):
        options = [_typed(tool, name) for name in named]
        if all(set(option) == {"type"} for option in options):
            return {"type": list(dict.fromkeys(option["type"] for option in options))}
        return {"anyOf": options} if all(options) else {}
    if not isinstance(named, str):
        raise InvalidParameterError(
            f"a type of the tool {tool!r} must be a name or a list of names, but it is "
            f"{repr(named)[:100]}"
        )
    return _read(tool, re.sub(r"\s*,\s*optional\s*$", "", named.strip(), flags=re.I), 0)


def _read(tool: str, text: str, depth: int) -> dict[str, Any]:
    """``List[int]``, ``Optional[str]``, ``Dict[str, float]``, ``Union[int, str]``, ``int | str``.

    >>> _read("f", "Optional[List[int]]", 0)
    {'anyOf': [{'type': 'array', 'items': {'type': 'integer'}}, {'type': 'null'}]}
    """
    text = text.strip()
    parts = _split(text, "|")
    if len(parts) > 1 and depth < _MAX_DEPTH:
        return _either([_read(tool, part, depth + 1) for part in parts])
    match = re.fullmatch(r"([\w.]+)\s*[\[<(](.*)[\])>]", text, re.S)
    head = (match.group(1) if match else text).rsplit(".", 1)[-1].lower()
    inside = _split(match.group(2), ",") if match and depth < _MAX_DEPTH else []
    arguments = [part for part in inside if part and part != "..."]
    if head == "optional" and arguments:
        return _either([_read(tool, arguments[0], depth + 1), {"type": "null"}])
    if head == "union":
        return _either([_read(tool, part, depth + 1) for part in arguments])
    if head == "literal":
        return {"enum": [_literal(part) for part in arguments]}
    if head in _ANYTHING:
        return {}
    if head not in _NAMES:
        raise InvalidParameterError(
            f"the tool {tool!r} has the type {text[:100]!r}, which is none of JSON Schema's nor of "
            f"Python's; known are {', '.join(sorted(_TYPES))}, float, dict, List[int]"
        )
    result: dict[str, Any] = {"type": _NAMES[head]}
    if head == "tuple" and arguments and "..." not in inside:
        result["prefixItems"] = [_read(tool, part, depth + 1) for part in arguments]
        result |= {"items": False, "minItems": len(arguments)}
    elif result["type"] == "array" and arguments:
        result["items"] = _read(tool, arguments[0], depth + 1)
    elif result["type"] == "object" and len(arguments) == 2:
        result["additionalProperties"] = _read(tool, arguments[1], depth + 1)
    return result


def _either(options: list[dict[str, Any]]) -> dict[str, Any]:
    return {"anyOf": options} if options and all(options) else {}


def _literal(text: str) -> Any:
    word = text.strip()
    if word[:1] in "'\"":
        return word[1:-1]
    if re.fullmatch(r"-?[0-9]{1,18}", word):
        return int(word)
    return {"True": True, "False": False, "None": None}.get(word, word)


def _split(text: str, mark: str) -> list[str]:
    """Split at a mark that is not inside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "[(<") - (c in "])>")
        if c == mark and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]
