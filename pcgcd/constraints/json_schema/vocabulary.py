"""The keywords of JSON Schema, and what stands in a schema that is none of them.

What a schema means hangs on the spelling of its keywords, and the standard ignores what it does not
know: a schema with "propertes" would allow everything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any
from urllib.parse import unquote

from pcgcd.constraints.json_schema.document import escaped
from pcgcd.constraints.json_schema.keywords import OWN_KEYWORDS
from pcgcd.constraints.json_schema.likeness import NAMED
from pcgcd.constraints.json_schema.notices import warn
from pcgcd.constraints.json_schema.specs import KINDS
from pcgcd.errors import InvalidParameterError, UnknownKeywordWarning

_SCHEMAS = """
    additionalItems additionalProperties contains contentSchema else if items not propertyNames then
    unevaluatedItems unevaluatedProperties
"""
# The keywords whose values are schemas, lists of them, or have them under names.
SCHEMAS = frozenset(_SCHEMAS.split())
SCHEMA_LISTS = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
SCHEMA_MAPS = NAMED
_VALUES = """
    $dynamicRef $recursiveRef $ref const dependencies dependentSchemas enum maxContains minContains
    type
"""
# The keywords that decide which values are valid.
DECIDING = frozenset(_VALUES.split()).union(
    SCHEMAS - {"contentSchema"}, SCHEMA_LISTS, *OWN_KEYWORDS.values()
)
# The other keywords of any draft (3 to 2020-12) and of OpenAPI.
_OTHERS = """
    $anchor $comment $defs $dynamicAnchor $id $recursiveAnchor $schema $vocabulary base
    binaryEncoding contentEncoding contentMediaType contentSchema default definitions deprecated
    description disallow discriminator divisibleBy example examples extends externalDocs
    fragmentResolution id links media nullable pathStart readOnly title writeOnly xml
"""
_KEYWORDS = DECIDING.union(_OTHERS.split())
# Those of editors, forms, code generators and validators.
_FOREIGN = """
    $async $data allowComments allowTrailingCommas defaultSnippets deprecationMessage doNotSuggest
    enumDescriptions enumNames enumTitles errorMessage errorMessages faker formatMaximum
    formatMinimum headerTemplate javaName javaType markdownDescription markdownEnumDescriptions
    optional options patternErrorMessage propertyOrder propertyOrdering strict suggestSortText
    tsEnumNames tsType
"""
_KNOWN = _KEYWORDS.union(_FOREIGN.split())
# Whose values are texts; otherwise they are more likely names of properties.
_TEXTS = frozenset({"$comment", "$id", "$schema", "description", "id", "title"})
# The types as JSON Schema and as Python call them.
_TYPES = {name: name for name in (*KINDS, "integer")} | {
    "bool": "boolean",
    "dict": "object",
    "float": "number",
    "int": "integer",
    "list": "array",
    "str": "string",
}
_PLAIN = {keyword.lower(): keyword for keyword in sorted(DECIDING)}
# How alike a word is to the keyword that it is meant to be, and how long that is at least: "note"
# is not "not".
_NEAR, _LONG = 0.85, 4
_SHOWN = 3


def unknown_keywords(
    root: Any, of: str = "the schema", *, to_the_letter: bool = False
) -> dict[str, str]:
    """Return what of a schema is no keyword, each with its first place.

    Args:
        root: The schema.
        of: What it is called in errors.
        to_the_letter: Whether a misspelled keyword says nothing, as the standard has it.

    Raises:
        InvalidParameterError: A keyword is misspelled, or names stand where keywords must.
    """
    schemas = _schemas(root)
    referred = _referred(schemas)
    found: dict[str, str] = {}
    for schema, pointer in schemas:
        unknown = [key for key in schema if not _is_known(key, schema[key])]
        _check_not_properties(schema, unknown, pointer, of)
        for key in unknown:
            place = f"{pointer}/{escaped(key)}"
            if f"{place}/" in referred:
                continue
            near = None if to_the_letter else _near(key)
            if near is not None:
                raise InvalidParameterError(
                    f"{of} is broken at {place}: {key!r} is no keyword of JSON Schema; write "
                    f"{near!r} if that is meant; otherwise remove it, or begin its name with 'x-'"
                )
            found.setdefault(key, place)
    return found


def warn_of_unknown(keywords: dict[str, str]) -> None:
    """Warn once of what is no keyword, if there is anything."""
    if not keywords:
        return
    shown = ", ".join(f"{key!r} at {place}" for key, place in list(keywords.items())[:_SHOWN])
    more = f", and {len(keywords) - _SHOWN} more" if len(keywords) > _SHOWN else ""
    warn(
        f"JSON Schema does not know these keywords, so they say nothing: {shown}{more}; put "
        f"properties under 'properties', correct what is misspelled, and begin the names of your "
        f"own notes with 'x-'",
        UnknownKeywordWarning,
    )


# -- inside ---------------------------------------------------------------------------------------


def _schemas(root: Any) -> list[tuple[dict[str, Any], str]]:
    """All schemas in a schema and their pointers, the outer ones first."""
    found: list[tuple[dict[str, Any], str]] = []
    level = [(root, "#")]
    while level:
        found += (entry for entry in level if isinstance(entry[0], dict))
        level = [inner for schema, at in level for inner in _inside(schema, at)]
    return found


def _inside(schema: Any, pointer: str) -> Iterator[tuple[Any, str]]:
    """List the schemas directly inside of a schema."""
    for key, value in schema.items() if isinstance(schema, dict) else ():
        at = f"{pointer}/{escaped(key)}"
        if key in SCHEMA_LISTS and isinstance(value, list):
            yield from ((item, f"{at}/{i}") for i, item in enumerate(value))
        elif key in SCHEMA_MAPS and isinstance(value, dict):
            yield from ((item, f"{at}/{escaped(name)}") for name, item in value.items())
        elif key in SCHEMAS:
            yield value, at


def _referred(schemas: list[tuple[dict[str, Any], str]]) -> set[str]:
    """The pointers that references lead through, each with a slash at its end."""
    found: set[str] = set()
    for schema, _ in schemas:
        reference = schema.get("$ref")
        if isinstance(reference, str):
            parts = unquote(reference.partition("#")[2]).split("/")
            found.update(f"#{'/'.join(parts[:end])}/" for end in range(1, len(parts) + 1))
    return found


def _is_known(key: str, value: Any) -> bool:
    if key.startswith(("x-", "x_")) or ":" in key:
        return True
    return key in _KNOWN and (key not in _TEXTS or isinstance(value, str))


def _near(key: str) -> str | None:
    """The keyword that a word is meant to be; none if it is private by its first character."""
    if key.startswith(("_", "$")):
        return None
    word = key.replace("_", "").replace("-", "").lower()
    if word in _PLAIN:
        return _PLAIN[word]
    alike = [each for each in _PLAIN if len(each) >= _LONG and each[0] == word[:1]]
    swapped = [each for each in alike if sorted(each) == sorted(word)]
    found = swapped or get_close_matches(word, alike, 1, _NEAR)
    return _PLAIN[found[0]] if found else None


def _check_not_properties(
    schema: dict[str, Any], unknown: list[str], pointer: str, of: str
) -> None:
    """Refuse a schema that has nothing but the names of properties, which belong under a keyword.

    The whole of a schema must have a keyword; of a part it must be plain to see that names have
    types, since there are dialects with parts of their own.
    """
    if not unknown or not DECIDING.isdisjoint(schema):
        return
    typed = all(_type_of(schema[key]) is not None for key in unknown)
    has_keywords = any(key in _KEYWORDS and key not in unknown for key in schema)
    if not typed and (pointer != "#" or has_keywords or any(map(_near, unknown))):
        return
    names = {key: _type_of(schema[key]) or {"type": "string"} for key in unknown[:_SHOWN]}
    meant = json.dumps({"type": "object", "properties": names}, ensure_ascii=False)
    raise InvalidParameterError(
        f"{of} is broken at {pointer}: {', '.join(map(repr, unknown))[:200]} "
        f"{'are' if unknown[1:] else 'is'} no keyword{'s' if unknown[1:] else ''} of JSON Schema; "
        f"describe the properties of an object as in {meant[:400]}"
    )


def _type_of(value: Any) -> dict[str, Any] | None:
    """The schema of a property that is described by its type or by a schema with a type."""
    described = {"type": value} if isinstance(value, str) else value
    named = described.get("type") if isinstance(described, dict) else None
    if isinstance(named, str) and named in _TYPES:
        return {**described, "type": _TYPES[named]}
    if isinstance(named, list) and named and all(str(name) in _TYPES for name in named):
        return {**described, "type": [_TYPES[name] for name in named]}
    return None
