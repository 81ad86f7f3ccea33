"""The ways in which functions describe their arguments, made one: JSON Schema."""

from __future__ import annotations

import re
from typing import Any

from pcgcd.constraints.json_schema.vocabulary import DECIDING, SCHEMA_LISTS, SCHEMA_MAPS, SCHEMAS
from pcgcd.constraints.tools.recognition import (
    TYPE_NAMES,
    TYPES,
    is_flat,
    is_type_text,
    looks_like_schema,
)
from pcgcd.errors import InvalidParameterError

_ANYTHING = frozenset({"any", "object or any", ""})
# What may stand in the schema of the arguments and informs readers; it may hold anything.
_NOTES = """
    $anchor $comment $dynamicAnchor $id $recursiveAnchor $schema $vocabulary contentEncoding
    contentMediaType contentSchema default deprecated description example examples id nullable
    propertyOrdering readOnly strict title writeOnly
"""
_KEYWORDS = frozenset(_NOTES.split()).union(DECIDING, SCHEMA_MAPS)
# With one of these, arguments may be described elsewhere than under "properties".
_OTHER_PLACES = """
    $dynamicRef $recursiveRef $ref allOf anyOf dependencies dependentSchemas if oneOf
    patternProperties propertyNames unevaluatedProperties
"""
_NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}
_MAX_DEPTH = 100
_MAX_SCHEMAS = 50_000


def parameters_schema(
    tool: str, parameters: Any, index: int, *, openapi: bool = False
) -> dict[str, Any]:
    """The JSON schema of the arguments of a tool.

    References inside the schema are relative to an address made of its number.

    Args:
        tool: The name of the tool.
        parameters: What it says about its arguments.
        index: Its number.
        openapi: Whether ``nullable`` has a meaning, as in OpenAPI. Beside a type in capital
            letters, as Gemini writes it, it always has.
    """
    if parameters is None or parameters == {}:
        return dict(_NO_ARGUMENTS)
    if not isinstance(parameters, dict):
        raise InvalidParameterError(
            f"the parameters of the tool {tool!r} must be an object, but they are "
            f"{repr(parameters)[:100]}"
        )
    schema = _flat(parameters) if is_flat(parameters) else parameters
    converter = _Converter(tool, openapi)
    result: dict[str, Any] = converter.converted(schema, 0)
    _check_described(tool, schema, converter.references)
    kinds = result.get("type", "object")
    if "object" not in (kinds if isinstance(kinds, list) else [kinds]):
        raise InvalidParameterError(
            f"the arguments of the tool {tool!r} must be an object, but their type is "
            f"{schema['type']!r}; describe them under 'properties' of an object"
        )
    said = {key for key in DECIDING if result.get(key) not in (None, {}, [])}
    if said <= {"type"}:
        result.update(_NO_ARGUMENTS)
    result["type"] = "object"
    result.setdefault("$id", f"http://tools.invalid/{index}")
    return result


def undescribed(schema: dict[str, Any]) -> list[str]:
    """The arguments that a schema requires, but neither describes nor allows.

    >>> undescribed({"properties": {"x": {}}, "required": ["x", "y"]})
    ['y']
    """
    required, properties = schema.get("required"), schema.get("properties", {})
    others = schema.get("additionalProperties", False)
    if others is not False or not schema.keys().isdisjoint(_OTHER_PLACES.split()):
        return []
    return [name for name in required or () if name not in properties]


def _check_described(tool: str, parameters: dict[str, Any], references: set[str]) -> None:
    """Refuse arguments that stand beside the keywords of a schema, where nothing reads them."""
    for key, value in parameters.items():
        if key in _KEYWORDS or not isinstance(key, str) or key.startswith("x-"):
            continue
        typed = "properties" not in parameters and is_type_text(value)
        referred = any(f"{reference}/".startswith(f"#/{key}/") for reference in references)
        if typed or (looks_like_schema(value) and not referred):
            raise InvalidParameterError(
                f"the parameters of the tool {tool!r} have {key!r}, which is no keyword of JSON "
                f"Schema, so nothing reads it; describe arguments under 'properties', each by a "
                f"schema, or remove it"
            )


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
    """Gives a schema the types of JSON Schema."""

    def __init__(self, tool: str, openapi: bool) -> None:
        self.tool = tool
        self.openapi = openapi
        self.count = 0
        self.references: set[str] = set()

    def converted(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, dict):
            return schema
        self.count += 1
        if depth > _MAX_DEPTH or self.count > _MAX_SCHEMAS:
            raise InvalidParameterError(
                f"the parameters of the tool {self.tool!r} are nested more than {_MAX_DEPTH} deep, "
                f"or have more than {_MAX_SCHEMAS:,} parts; make them smaller"
            )
        if isinstance(schema.get("$ref"), str):
            self.references.add(schema["$ref"])
        result: dict[str, Any] = {}
        for key, value in schema.items():
            if key in SCHEMA_MAPS and isinstance(value, dict):
                result[key] = {k: self.converted(item, depth + 1) for k, item in value.items()}
            elif key in SCHEMA_LISTS and isinstance(value, list):
                result[key] = [self.converted(item, depth + 1) for item in value]
            elif key in SCHEMAS:
                result[key] = self.converted(value, depth + 1)
            elif not (key == "required" and isinstance(value, bool)):
                result[key] = value
        typed = _typed(self.tool, result.pop("type", None))
        if "anyOf" in typed and "anyOf" in result:
            typed = {"allOf": [typed, *result.pop("allOf", [])]}
        # What the schema says itself is more exact than what its type implies.
        result = {**typed, **result}
        if depth and self._may_be_null(schema):
            return {"anyOf": [result, {"type": "null"}]}
        return result

    def _may_be_null(self, schema: dict[str, Any]) -> bool:
        named = schema.get("type")
        capital = isinstance(named, str) and named.isupper()
        return schema.get("nullable") is True and (self.openapi or capital)


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
    if head not in TYPE_NAMES:
        raise InvalidParameterError(
            f"the tool {tool!r} has the type {text[:100]!r}, which is none of JSON Schema's nor of "
            f"Python's; known are {', '.join(sorted(TYPES))}, float, dict, List[int]"
        )
    result: dict[str, Any] = {"type": TYPE_NAMES[head]}
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
