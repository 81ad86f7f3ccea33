"""Which sub-schemas say the same, so that they are read and built once.

Hash consing (Ershov 1958, "On programming of arithmetic operations") of JSON values: equal ones get
equal numbers, made from those of their parts. What only informs readers does not count.
"""

from __future__ import annotations

from typing import Any

# The values of these keywords are data, not schemas.
DATA_KEYWORDS = frozenset({"enum", "const", "default", "examples", "example"})
# The members of these have names that the user chose, and are schemas.
NAMED = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
_SAYS_NOTHING = frozenset(
    {"title", "description", "default", "examples", "$comment", "deprecated", "readOnly"}
    | {"writeOnly"}
)
# What the keys of an object are.
_KEYWORDS, _NAMES, _ANY = range(3)
_KIND_OF = (
    dict.fromkeys(DATA_KEYWORDS, _ANY)
    | dict.fromkeys(NAMED, _NAMES)
    | {"dependentRequired": _NAMES}
)


class Likeness:
    """Numbers for the sub-schemas of one document, which must not change meanwhile."""

    def __init__(self) -> None:
        """Begin without any."""
        self._numbers: dict[Any, int] = {}
        self._known: dict[tuple[int, int], int] = {}  # by id and kind, which both stay

    def number(self, schema: dict[str, Any]) -> int:
        """Return a number that sub-schemas share if they differ in annotations only.

        >>> a, b = {"type": "string", "title": "A"}, {"type": "string"}
        >>> c, d = {"const": {"title": 1}}, {"const": {}}
        >>> likeness = Likeness()
        >>> [likeness.number(each) for each in (a, b)], likeness.number(c) == likeness.number(d)
        ([1, 1], False)
        """
        return self._of(schema, _KEYWORDS)

    def _of(self, value: Any, kind: int) -> int:
        if isinstance(value, dict):
            key = (id(value), kind)
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = self._number((kind, *self._members(value, kind)))
            return known
        if isinstance(value, list):
            texts = all(type(item) is str for item in value)  # an enum may be long
            items = value if texts else [self._of(item, kind) for item in value]
            return self._number((list, texts, *items))
        # 1, 1.0 and true are equal in Python.
        return self._number(value if type(value) is str else (type(value), repr(value)))

    def _members(self, value: dict[str, Any], kind: int) -> list[Any]:
        """The names of an object and the numbers of its values, in order: it decides texts."""
        found: list[Any] = []
        for name, item in value.items():
            inside = kind
            if kind == _KEYWORDS:
                if name in _SAYS_NOTHING:
                    continue
                inside = _KIND_OF.get(name, _KEYWORDS)
            elif kind == _NAMES:
                inside = _KEYWORDS
            found += (name, self._of(item, inside))
        return found

    def _number(self, key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))
