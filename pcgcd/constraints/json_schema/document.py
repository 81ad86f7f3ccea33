"""A schema as a document: its places, what they refer to, and errors that name them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from pcgcd.constraints.json_schema.plain import check_plain
from pcgcd.errors import InvalidParameterError, UnsupportedConstraintError

__all__ = ["Document", "Place"]

_DATA_KEYWORDS = frozenset({"enum", "const", "default", "examples", "example"})


class Place:
    """A sub-schema, by its JSON pointer. Places of one document are compared by identity.

    Attributes:
        schema: What stands there.
        pointer: Where, as ``#/properties/a``.
        base: The address that references there are relative to.
    """

    __slots__ = ("base", "pointer", "schema")

    def __init__(self, schema: Any, pointer: str, base: str) -> None:
        self.schema = schema
        self.pointer = pointer
        self.base = base

    def __repr__(self) -> str:
        return f"Place({self.pointer})"

    def invalid(self, keyword: str, expected: str) -> InvalidParameterError:
        """The error of a keyword that is not what the specification asks for."""
        return InvalidParameterError(
            f"the schema is broken at {self.at(keyword)}: {keyword!r} must be {expected}, but it "
            f"is {_shown(self.schema.get(keyword))}"
        )

    def unsupported(self, keyword: str, why: str) -> UnsupportedConstraintError:
        """The error of a keyword that cannot be honoured."""
        return UnsupportedConstraintError(
            f"{keyword!r} at {self.at(keyword)} cannot be honoured: {why}; change the schema, or "
            f"accept more than it says with strict=False"
        )

    def at(self, keyword: str) -> str:
        """The pointer to a keyword of the place."""
        return f"{self.pointer}/{_escape(keyword)}"


class Document:
    """A whole schema and the names inside it."""

    def __init__(self, root: Any) -> None:
        """Index the identifiers and anchors of a schema."""
        if not isinstance(root, dict | bool):
            raise InvalidParameterError(
                f"a JSON schema is an object or a boolean, but {type(root).__name__} was given"
            )
        check_plain(root)
        self._places: dict[str, Place] = {}
        self._resources: dict[str, str] = {}
        self._anchors: dict[tuple[str, str], str] = {}
        self._dynamic: dict[str, int] = {}
        self.uses_unevaluated = False
        self.lengths: list[int] = []
        self.root = self._place("#", root, _base(root, ""))
        self._resources[self.root.base] = "#"
        self._resources.setdefault("", "#")
        self._index(root)

    @property
    def draft(self) -> int:
        """The draft that the schema names: 4, 6, 7, 2019, or 2020 if it names none."""
        named = self.root.schema.get("$schema") if isinstance(self.root.schema, dict) else None
        for draft in (3, 4, 6, 7):
            if isinstance(named, str) and f"draft-0{draft}" in named:
                return draft
        return 2019 if isinstance(named, str) and "2019-09" in named else 2020

    def child(self, place: Place, *tokens: str | int) -> Place:
        """The place of a sub-schema."""
        pointer, schema = place.pointer, place.schema
        for token in tokens:
            pointer += "/" + _escape(str(token))
            schema = schema[token]
        known = self._places.get(pointer)
        if known is not None:
            return known
        if not isinstance(schema, dict | bool):
            raise InvalidParameterError(
                f"the schema is broken at {pointer}: a schema must be an object or a boolean, but "
                f"it is {_shown(schema)}"
            )
        return self._place(pointer, schema, _base(schema, place.base))

    def resolve(self, place: Place, keyword: str) -> Place:
        """What a reference at a place refers to."""
        reference = place.schema[keyword]
        if not isinstance(reference, str):
            raise place.invalid(keyword, "a string")
        if keyword == "$dynamicRef" and self._dynamic.get(reference.rpartition("#")[2], 0) > 1:
            raise place.unsupported(keyword, "several anchors have its name")
        address, fragment = urldefrag(_join(place.base, reference))
        start = self._resources.get(address, self._resources.get(address.rstrip("#")))
        if start is None:
            raise place.unsupported(
                keyword, f"{reference[:200]!r} is in another document, and none are fetched"
            )
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            anchor = self._anchors.get((address, fragment), self._anchors.get(("", fragment)))
            if anchor is None:
                raise self._unknown(place, keyword, reference)
            return self._walk(anchor, "", place, keyword)
        if start != "#" and not self._exists(start, fragment):
            start = "#"
        return self._walk(start, fragment, place, keyword)

    # -- inside -------------------------------------------------------------------------------

    def _place(self, pointer: str, schema: Any, base: str) -> Place:
        return self._places.setdefault(pointer, Place(schema, pointer, base))

    def _unknown(self, place: Place, keyword: str, reference: str) -> InvalidParameterError:
        return InvalidParameterError(
            f"the schema is broken at {place.at(keyword)}: {reference[:200]!r} refers to nothing "
            f"in the schema; define it, for instance under '$defs'"
        )

    def _exists(self, start: str, fragment: str) -> bool:
        value: Any = self.root.schema
        for token in [*start.split("/")[1:], *fragment.split("/")[1:]]:
            value = _step(value, _unescape(token))
            if value is None:
                return False
        return True

    def _walk(self, start: str, fragment: str, origin: Place, keyword: str) -> Place:
        pointer, value, base = "#", self.root.schema, self.root.base
        for token in [*start.split("/")[1:], *fragment.split("/")[1:]]:
            value = _step(value, _unescape(token))
            pointer += "/" + token
            if value is None:
                raise self._unknown(origin, keyword, origin.schema[keyword])
            base = _base(value, base)
        if not isinstance(value, dict | bool):
            raise self._unknown(origin, keyword, origin.schema[keyword])
        return self._place(pointer, value, base)

    def _index(self, root: Any) -> None:
        """Find all names, without recursion."""
        stack: list[tuple[Any, str, str]] = [(root, "#", self.root.base)]
        while stack:
            value, pointer, base = stack.pop()
            if isinstance(value, dict):
                base = self._name(value, pointer, base)
            for token, item in _items(value):
                if isinstance(item, dict | list):
                    stack.append((item, f"{pointer}/{_escape(str(token))}", base))

    def _name(self, schema: dict[str, Any], pointer: str, base: str) -> str:
        inner = _base(schema, base)
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
        return inner


def _shown(value: Any) -> str:
    try:
        return repr(value)[:100]
    except (ValueError, RecursionError):
        return f"a large {type(value).__name__}"


def _items(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidParameterError(
                    f"the keys of a JSON schema are strings, but {key!r} was found"
                )
            if key not in _DATA_KEYWORDS or isinstance(item, dict):
                yield key, item
    elif isinstance(value, list):
        yield from enumerate(value)


def _base(schema: Any, base: str) -> str:
    if isinstance(schema, dict):
        for keyword in ("$id", "id"):
            name = schema.get(keyword)
            if isinstance(name, str) and not name.startswith("#"):
                return urldefrag(_join(base, name)).url
    return base


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


def _escape(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1")


def _unescape(token: str) -> str:
    return token.replace("~1", "/").replace("~0", "~")
