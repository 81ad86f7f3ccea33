"""What looks like a type, an argument or a schema, in whatever dialect."""

from __future__ import annotations

import json
import re
from typing import Any

TYPES = {
    "object": "object dict map hashmap mapping",
    "number": "number float double decimal",
    "integer": "integer int long short byte",
    "string": "string str char",
    "boolean": "boolean bool",
    "array": "array list arraylist tuple set sequence",
    "null": "null none nonetype",
}
TYPE_NAMES = {name: kind for kind, names in TYPES.items() for name in names.split()}
# Types whose names are also plain words: {"auth": "none"} describes no arguments.
_WORDS = {"map", "set", "sequence", "mapping", "long", "short", "byte", "null", "none"}
_GENERIC = {"optional", "union", "literal"}
_TYPE = re.compile(
    r"\s*(?:\w+\.)*(\w+)\s*([\[<(|].*)?(?:,\s*optional)?\s*", re.DOTALL | re.IGNORECASE
)
_SIGNS = ("properties", "$ref", "anyOf", "oneOf", "allOf", "items", "enum", "additionalProperties")
_MARKS = ("properties", "type", "$ref", "anyOf", "oneOf", "allOf", "required", "$defs")
_MAX_DEPTH = 12


def names_type(named: Any) -> bool:
    """Return whether something is a type, or a list of types, that is known here."""
    names = named if isinstance(named, list) else [named]
    return all(isinstance(name, str) and name.lower() in TYPE_NAMES for name in names)


def is_type_text(text: Any) -> bool:
    """Return whether something is a type as programs write them, and no other word.

    >>> [is_type_text(text) for text in ("int", "List[int]", "str, optional", "none", "daily")]
    [True, True, True, False, False]
    """
    if not isinstance(text, str):
        return False
    found = _TYPE.fullmatch(text)
    if found is None:
        return False
    name = found[1].lower()
    return name in (_GENERIC if found[2] else ()) or (name in TYPE_NAMES and name not in _WORDS)


def is_flat(parameters: dict[str, Any]) -> bool:
    """Return whether arguments are described directly, and not under ``properties``."""
    plain = not any(mark in parameters and not _is_argument(parameters[mark]) for mark in _MARKS)
    return plain and all(_is_argument(value) for value in parameters.values())


def looks_like_schema(value: Any) -> bool:
    """Return whether something is a schema, or arguments described directly, by its looks."""
    if not isinstance(value, dict):
        return False
    if any(isinstance(value.get(sign), dict | list) for sign in _SIGNS) or "$ref" in value:
        return True
    return names_type(value.get("type")) or (bool(value) and is_flat(value))


def describes_arguments(value: Any, depth: int = 0) -> bool:
    """Return whether there is a schema or types in something, also in lists and in JSON text.

    >>> describes_arguments({"x": "int"}), describes_arguments('[{"type": "string"}]')
    (True, True)
    >>> describes_arguments({"type": "ephemeral", "ttl": "5m"}), describes_arguments(["int"])
    (False, False)
    """
    if depth > _MAX_DEPTH:
        return False
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return False
    if isinstance(value, list | tuple):
        return any(describes_arguments(item, depth + 1) for item in value)
    if not isinstance(value, dict):
        return False
    typed = bool(value) and all(map(is_type_text, value.values()))
    inside = (describes_arguments(item, depth + 1) for item in value.values())
    return typed or looks_like_schema(value) or any(inside)


def _is_argument(value: Any) -> bool:
    return isinstance(value, dict) and ("type" in value or "description" in value)
