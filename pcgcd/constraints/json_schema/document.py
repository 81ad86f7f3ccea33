"""A schema as a document: its places, what they refer to, and errors that name them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from pcgcd.constraints.json_schema.likeness import DATA_KEYWORDS, NAMED, Likeness
from pcgcd.errors import InvalidParameterError, UnsupportedConstraintError

_COUNTS = ("minItems", "maxItems", "minProperties", "maxProperties")
# Up to this draft, what stands beside "$ref" says nothing.
_LAST_LONE_REFERENCE = 7
_MAX_NESTING = 200
_MAX_VALUES = 300_000
_MAX_BITS = 4096


@dataclass(frozen=True, eq=False)
class Place:
    """A sub-schema, by its JSON pointer. Places of one document are compared by identity.

    Sub-schemas that say the same are one place, which has the pointer of the first. A sub-schema
    may be two places: one where it describes values, and one where it is a condition, in which
    nothing is closed.
    """

    schema: Any = field(repr=False)
    pointer: str  # such as #/properties/a
    base: str  # the address that references there are relative to
    closed: bool  # whether objects have no other properties where the schema names some

    def invalid(self, keyword: str, expected: str) -> InvalidParameterError:
        """The error of a keyword that is not what the specification asks for."""
        return InvalidParameterError(
            f"the schema is broken at {self.at(keyword)}: {keyword!r} must be {expected}, but it "
            f"is {_shown(self.schema.get(keyword))}"
        )

    def unsupported(self, keyword: str, why: str) -> UnsupportedConstraintError:
        """The error of a keyword that cannot be honoured."""
        return unsupported(self.named(keyword), why)

    def named(self, keyword: str) -> str:
        """A keyword and its place."""
        return f"{keyword} at {self.at(keyword)}"

    def at(self, keyword: str) -> str:
        """The pointer to a keyword of the place."""
        return f"{self.pointer}/{escaped(keyword)}"


def unsupported(where: str, why: str) -> UnsupportedConstraintError:
    """The error of a keyword, such as "format at #/format", that cannot be honoured."""
    return UnsupportedConstraintError(
        f"{where} cannot be honoured: {why}; change the schema, or accept more than it says with "
        f"relax={{{where.split(' ')[0]!r}}}"
    )


class Document:
    """A whole schema and the names inside it.

    Args:
        root: The schema.
        of_python: Whether it describes types of Python, whose times need no offset.
        closed: Whether objects have no other properties where a schema names some.
    """

    def __init__(self, root: Any, *, of_python: bool = False, closed: bool = False) -> None:
        if not isinstance(root, dict | bool):
            raise InvalidParameterError(
                f"a JSON schema is an object or a boolean, but {type(root).__name__} was given"
            )
        _check_plain(root)
        self.of_python = of_python
        self.draft = _draft(root)
        self._places: dict[tuple[str, bool], Place] = {}
        self._likeness = Likeness()
        # By what is said, relative to what, and whether objects are closed.
        self._first: dict[tuple[int, str, bool], Place] = {}
        self._alike: dict[tuple[str, str], None] = {}  # pointers: of the first, and of another
        self._resolved: dict[tuple[Place, str], Place] = {}
        self._resources: dict[str, str] = {}
        self._anchors: dict[tuple[str, str], str] = {}
        self._dynamic: dict[str, int] = {}
        self._recursive = 0
        self.uses_unevaluated = False
        self.lengths: list[int] = []  # how far characters, and how far items or properties count
        self.counts: list[int] = []
        self.root = self._place("#", root, self._base(root, ""), closed)
        self._resources[self.root.base] = "#"
        if isinstance(root, dict) and isinstance(root.get("$id"), str):
            self._resources.setdefault(urldefrag(root["$id"]).url, "#")
        self._resources.setdefault("", "#")
        self._index()

    def child(self, place: Place, *tokens: str | int) -> Place:
        """The place of a sub-schema."""
        pointer, schema = place.pointer, place.schema
        for token in tokens:
            pointer += "/" + escaped(str(token))
            schema = schema[token]
        known = self._places.get((pointer, place.closed))
        if known is not None:
            return known
        if not isinstance(schema, dict | bool):
            raise InvalidParameterError(
                f"the schema is broken at {pointer}: a schema must be an object or a boolean, but "
                f"it is {_shown(schema)}"
            )
        return self._place(pointer, schema, self._base(schema, place.base), place.closed)

    def condition(self, place: Place) -> Place:
        """The same sub-schema where it is a condition, in which nothing is closed."""
        return self._place(place.pointer, place.schema, place.base, closed=False)

    def resolve(self, place: Place, keyword: str) -> Place:
        """What a reference at a place refers to."""
        known = self._resolved.get((place, keyword))
        if known is None:
            known = self._resolved[place, keyword] = self._resolve(place, keyword)
        return known

    def everywhere(self, lines: Iterable[str]) -> dict[str, None]:
        """Lines about places (such as "format at #/format"), repeated where others are alike."""
        found: dict[str, None] = {}
        alike = tuple(reversed(self._alike))
        for line in lines:
            waiting = [line]
            while waiting:
                line = waiting.pop()
                if line in found:
                    continue
                found[line] = None
                what, at, rest = line.partition(" at #")
                end = rest.rfind(" lowered from ")
                pointer, rest = ("#" + rest, "") if end < 0 else ("#" + rest[:end], rest[end:])
                for first, other in alike if at else ():
                    if pointer == first or pointer.startswith(first + "/"):
                        waiting.append(f"{what} at {other}{pointer[len(first) :]}{rest}")
        return found

    # -- inside -------------------------------------------------------------------------------

    def _resolve(self, place: Place, keyword: str) -> Place:
        reference = place.schema[keyword]
        if not isinstance(reference, str):
            raise place.invalid(keyword, "a string")
        if keyword == "$dynamicRef" and self._dynamic.get(reference.rpartition("#")[2], 0) > 1:
            raise place.unsupported(keyword, "several anchors have its name")
        if keyword == "$recursiveRef" and self._recursive > 1:
            raise place.unsupported(keyword, "several schemas have a '$recursiveAnchor'")
        address, fragment = urldefrag(_join(place.base, reference))
        start = self._resources.get(address, self._resources.get(address.rstrip("#")))
        if start is None:
            raise place.unsupported(
                keyword, f"{reference[:200]!r} is in another document, and none are fetched"
            )
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            pointers = [self._anchors.get((address, fragment)), self._anchors.get(("", fragment))]
        else:
            pointers = [start + fragment, "#" + fragment]
        found = next((at for p in pointers if p and (at := self._find(p, place.closed))), None)
        if found is None:
            raise InvalidParameterError(
                f"the schema is broken at {place.at(keyword)}: {reference[:200]!r} refers to "
                f"nothing in the schema; define it, for instance under '$defs'"
            )
        return found

    def _place(self, pointer: str, schema: Any, base: str, closed: bool) -> Place:
        known = self._places.get((pointer, closed))
        if known is None:
            known = place = Place(schema, pointer, base, closed)
            if isinstance(schema, dict):
                said = (self._likeness.number(schema), base, closed)
                known = self._first.setdefault(said, place)
                if known is not place:
                    self._alike[known.pointer, pointer] = None
            self._places[pointer, closed] = known
        return known

    def _find(self, pointer: str, closed: bool) -> Place | None:
        """The place at a pointer, if a schema stands there."""
        value, base = self.root.schema, self.root.base
        for token in pointer.split("/")[1:]:
            value = _step(value, token.replace("~1", "/").replace("~0", "~"))
            base = self._base(value, base)
        return self._place(pointer, value, base, closed) if isinstance(value, dict | bool) else None

    def _base(self, schema: Any, base: str) -> str:
        """The address that references inside are relative to."""
        if isinstance(schema, dict) and not self.is_lone_reference(schema):
            for keyword in ("$id", "id"):
                name = schema.get(keyword)
                if isinstance(name, str) and not name.startswith("#"):
                    return urldefrag(_join(base, name)).url
        return base

    def is_lone_reference(self, schema: dict[str, Any]) -> bool:
        """Whether a reference is all that counts: up to draft 7, its neighbours say nothing."""
        return self.draft <= _LAST_LONE_REFERENCE and isinstance(schema.get("$ref"), str)

    def _index(self) -> None:
        """Find all names, without recursion."""
        stack: list[tuple[Any, str, str, bool]] = [(self.root.schema, "#", self.root.base, True)]
        while stack:
            value, pointer, base, is_schema = stack.pop()
            items: Any = enumerate(value) if isinstance(value, list) else ()
            if isinstance(value, dict):
                base = self._name(value, pointer, base) if is_schema else base
                items = value.items()
            for token, item in items:
                if isinstance(item, list | dict) and not (is_schema and token in DATA_KEYWORDS):
                    inside = not (is_schema and token in NAMED and isinstance(item, dict))
                    stack.append((item, f"{pointer}/{escaped(str(token))}", base, inside))

    def _name(self, schema: dict[str, Any], pointer: str, base: str) -> str:
        if self.is_lone_reference(schema):
            return base
        inner = self._base(schema, base)
        self._recursive += schema.get("$recursiveAnchor") is True
        if inner != base or pointer == "#":
            self._resources.setdefault(inner, pointer)
        for keyword in ("$id", "id"):
            name = schema.get(keyword)
            if isinstance(name, str) and name.startswith("#") and len(name) > 1:
                self._anchors.setdefault((inner, name[1:]), pointer)
        for keyword in ("$anchor", "$dynamicAnchor"):
            name = schema.get(keyword)
            if isinstance(name, str):
                self._anchors.setdefault((inner, name), pointer)
                if keyword == "$dynamicAnchor":
                    self._dynamic[name] = self._dynamic.get(name, 0) + 1
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            self.uses_unevaluated = True
        if isinstance(schema.get("maxLength"), int):
            self.lengths.append(schema["maxLength"])
        for keyword in _COUNTS:
            if isinstance(schema.get(keyword), int):
                self.counts.append(schema[keyword])
        return inner


def _shown(value: Any) -> str:
    try:
        return repr(value)[:100]
    except (ValueError, RecursionError):
        return f"a large {type(value).__name__}"


def _draft(root: Any) -> int:
    """The draft that a schema names: 3, 4, 6, 7, 2019, or 2020 if it names none."""
    named = root.get("$schema") if isinstance(root, dict) else None
    for draft in (3, 4, 6, 7):
        if isinstance(named, str) and f"draft-0{draft}" in named:
            return draft
    return 2019 if isinstance(named, str) and "2019-09" in named else 2020


def _join(base: str, reference: str) -> str:
    if base.startswith("urn:") and reference.startswith("#"):
        return base + reference
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference


def _step(value: Any, token: str) -> Any:
    if isinstance(value, dict):
        return value.get(token)
    if isinstance(value, list) and token.isascii() and token.isdigit() and int(token) < len(value):
        return value[int(token)]
    return None


def escaped(token: str) -> str:
    """A name as it is written in a JSON pointer."""
    return token.replace("~", "~0").replace("/", "~1")


def _check_plain(root: Any) -> None:
    """Refuse what JSON cannot write, and what is too deep or too large; without recursion."""
    stack: list[tuple[Any, str, int]] = [(root, "#", 0)]
    count = 0
    while stack:
        value, pointer, depth = stack.pop()
        count += 1
        if depth > _MAX_NESTING or count > _MAX_VALUES:
            raise UnsupportedConstraintError(
                f"the schema is nested deeper than {_MAX_NESTING} or has more than "
                f"{_MAX_VALUES:,} values, at {pointer[:200]}; make it smaller, for instance "
                f"by '$ref'"
            )
        if isinstance(value, dict):
            for key, item in value.items():
                if not isinstance(key, str):
                    raise _not_json(f"the name {key!r:.80}", pointer)
                stack.append((item, f"{pointer}/{key[:80]}", depth + 1))
        elif isinstance(value, list):
            stack.extend((item, f"{pointer}/{i}", depth + 1) for i, item in enumerate(value))
        elif isinstance(value, int):
            if value.bit_length() > _MAX_BITS:
                raise UnsupportedConstraintError(
                    f"the number at {pointer[:200]} has more than {_MAX_BITS} bits; give a "
                    f"smaller one"
                )
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise _not_json(str(value), pointer)
        elif value is not None and not isinstance(value, str):
            raise _not_json(f"a {type(value).__name__}", pointer)


def _not_json(what: str, pointer: str) -> InvalidParameterError:
    return InvalidParameterError(
        f"the schema is not JSON at {pointer[:200]}: expected objects with names that are strings, "
        f"arrays (lists), strings, finite numbers, booleans or null (None), but found {what}"
    )
