"""Random JSON schemas, values that probe them, and the texts of a value; for tests of both sides.

Plain seeded generators: they know nothing of the package, and ``jsonschema`` judges the values.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

NAMES = ["a", "b", "c", "id"]
OTHER_NAMES = ["x", "ab", "X", "a\n"]
PATTERNS = ["^a", "b$", "^[a-c]$", "^(a|x)", "[0-9]"]
STRINGS = ["", "a", "ab", "b", "é", '"', "abc", "b1", "a\n"]
NUMBERS = [-3, -1, 0, 1, 2, 3, 6, 0.5, 1.0, -2.5]
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]


class SchemaMaker:
    """Draws schemas; the smaller ``depth``, the simpler."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def value(self, depth: int = 1) -> Any:
        """A JSON value."""
        rng = self.rng
        kind = rng.randrange(7 if depth else 4)
        if kind < 4:
            return rng.choice([[None, True, False], NUMBERS, STRINGS, NUMBERS + STRINGS][kind])
        if kind == 4:
            return [self.value(depth - 1) for _ in range(rng.randrange(3))]
        names = self._names(3, [*NAMES, *OTHER_NAMES])
        return {name: self.value(depth - 1) for name in names}

    def schema(self, depth: int = 2) -> Any:
        """A schema."""
        rng = self.rng
        if rng.random() < 0.08:
            return rng.random() < 0.7
        if not depth or rng.random() < 0.2:
            return self._some(self._leaves(), 2)
        pools = [self._objects, self._objects, self._objects, self._arrays, self._combined]
        keywords = rng.choice(pools)()
        if rng.random() < 0.5:
            keywords = {**keywords, **self._combined()}
        if rng.random() < 0.3:
            keywords = {**keywords, **self._leaves()}
        schema = self._some(keywords, 4, depth)
        if rng.random() < 0.3:
            schema.setdefault("type", rng.choice(["object", "object", "array", rng.choice(TYPES)]))
        return schema

    def _some(self, keywords: dict[str, Any], most: int, depth: int = 0) -> dict[str, Any]:
        chosen = self.rng.sample(sorted(keywords), min(self.rng.randint(1, most), len(keywords)))
        return {name: keywords[name](depth - 1) for name in chosen}

    def _names(self, most: int, pool: list[str] = NAMES) -> list[str]:
        return self.rng.sample(pool, self.rng.randint(0, most))

    def _leaves(self) -> dict[str, Any]:
        rng = self.rng
        count = lambda _: rng.randrange(4)  # noqa: E731
        number = lambda _: rng.randint(-2, 4)  # noqa: E731
        return {
            "type": lambda _: rng.choice([rng.choice(TYPES), rng.sample(TYPES, 2)]),
            "const": lambda _: self.value(),
            "enum": lambda _: [self.value() for _ in range(rng.randint(1, 3))],
            "minLength": count,
            "maxLength": count,
            "pattern": lambda _: rng.choice(PATTERNS),
            "minimum": number,
            "exclusiveMaximum": number,
            "multipleOf": lambda _: rng.choice([2, 3, 0.5]),
        }

    def _objects(self) -> dict[str, Any]:
        rng = self.rng
        count = lambda _: rng.randrange(4)  # noqa: E731
        return {
            "properties": lambda d: {name: self.schema(d) for name in self._names(3)},
            "required": lambda _: self._names(2),
            "additionalProperties": self.schema,
            "patternProperties": lambda d: {p: self.schema(d) for p in self._names(2, PATTERNS)},
            "propertyNames": lambda _: rng.choice([{"maxLength": 1}, {"pattern": "^a"}]),
            "minProperties": count,
            "maxProperties": count,
            "dependentRequired": lambda _: {rng.choice(NAMES): self._names(2)},
            "dependentSchemas": lambda d: {rng.choice(NAMES): self.schema(d)},
            "unevaluatedProperties": self.schema,
        }

    def _arrays(self) -> dict[str, Any]:
        rng = self.rng
        count = lambda _: rng.randrange(4)  # noqa: E731
        return {
            "items": self.schema,
            "prefixItems": lambda d: [self.schema(d) for _ in range(rng.randint(1, 2))],
            "contains": self.schema,
            "minContains": count,
            "maxContains": count,
            "minItems": count,
            "maxItems": count,
            "uniqueItems": lambda _: True,
        }

    def _combined(self) -> dict[str, Any]:
        some = lambda d: [self.schema(d) for _ in range(self.rng.randint(1, 2))]  # noqa: E731
        return {
            **dict.fromkeys(("allOf", "anyOf", "oneOf"), some),
            **dict.fromkeys(("not", "if", "then", "else"), self.schema),
        }

    def mutated(self, value: Any) -> Any:
        """A neighbour of a value: a part of it exchanged, removed or added."""
        rng = self.rng
        if isinstance(value, dict) and rng.random() < 0.9:
            kind = rng.randrange(3)
            left = dict(value)
            if kind and left:
                name = rng.choice(sorted(left))
                old = left.pop(name)
                if kind == 1:
                    left[name] = self.mutated(old)
                return left
            return {**left, rng.choice([*NAMES, *OTHER_NAMES]): self.value()}
        if isinstance(value, list) and rng.random() < 0.9:
            items = list(value)
            if items and rng.random() < 0.6:
                place = rng.randrange(len(items))
                items[place : place + 1] = rng.choice([[], [self.mutated(items[place])]])
                return items
            return [*items, self.value()]
        return self.value()


class PlainSchemaMaker(SchemaMaker):
    """Draws schemas that name properties, and say nothing of others."""

    def _objects(self) -> dict[str, Any]:
        found = super()._objects()
        for keyword in ("additionalProperties", "patternProperties", "propertyNames"):
            del found[keyword]
        return found

    def _some(self, keywords: dict[str, Any], most: int, depth: int = 0) -> dict[str, Any]:
        chosen = super()._some(keywords, most, depth)
        if "properties" in keywords and self.rng.random() < 0.7:
            chosen["properties"] = keywords["properties"](depth - 1)
        return chosen


def constants_of(schema: Any) -> Iterator[Any]:
    """The values that a schema mentions, and objects with the names that it mentions."""
    if isinstance(schema, list):
        for item in schema:
            yield from constants_of(item)
    if not isinstance(schema, dict):
        return
    for key, value in schema.items():
        if key == "const":
            yield value
        elif key == "enum":
            yield from value
        elif key == "required":
            yield dict.fromkeys(value, 1)
        else:
            inner = value.values() if key.endswith("roperties") and isinstance(value, dict) else ()
            for item in inner:
                yield from constants_of(item)
            yield from constants_of(value)


def texts_of(value: Any) -> Iterator[str]:
    """The texts of a value in every order of its properties."""
    if isinstance(value, dict):
        for order in itertools.permutations(value):
            parts = [[f"{json.dumps(k)}: {t}" for t in texts_of(value[k])] for k in order]
            yield from ("{" + ", ".join(chosen) + "}" for chosen in itertools.product(*parts))
    elif isinstance(value, list):
        for items in itertools.product(*(list(texts_of(item)) for item in value)):
            yield "[" + ", ".join(items) + "]"
    else:
        yield json.dumps(value, ensure_ascii=False)
