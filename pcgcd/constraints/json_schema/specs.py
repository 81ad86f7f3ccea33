"""Conjunctions of conditions on values of one type, and how two of them meet.

A schema is read, for each JSON type, into a few alternatives; each is one of these. All are frozen
and hashable. ``meet`` gives None where nothing is left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import gcd
from typing import Any, NamedTuple, TypeAlias, TypeVar

from pcgcd.constraints.json_schema.document import Place
from pcgcd.constraints.json_schema.formulas import TRUE, Formula, both, json_key
from pcgcd.constraints.json_schema.patterns import finds

__all__ = [
    "KINDS",
    "TOP",
    "ArraySpec",
    "Bound",
    "ConstantSpec",
    "Contains",
    "NumberSpec",
    "ObjectSpec",
    "Rule",
    "Seen",
    "Spec",
    "StringSpec",
    "Witness",
    "kind_of",
    "meet_all",
]

KINDS = ("null", "boolean", "number", "string", "array", "object")
T = TypeVar("T")


def kind_of(value: Any) -> str:
    """The JSON type of a value; integers are numbers."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def _join(first: tuple[T, ...], second: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def _common(
    first: tuple[Any, ...] | None, second: tuple[Any, ...] | None
) -> tuple[Any, ...] | None:
    if first is None or second is None:
        return second if first is None else first
    keys = {json_key(value) for value in second}
    return tuple(value for value in first if json_key(value) in keys)


def _smaller(first: int | None, second: int | None) -> int | None:
    return min((x for x in (first, second) if x is not None), default=None)


@dataclass(frozen=True)
class ConstantSpec:
    """One of the given nulls or booleans."""

    values: tuple[Any, ...]

    def meet(self, other: ConstantSpec) -> ConstantSpec | None:
        """Both."""
        values = tuple(value for value in self.values if value in other.values)
        return ConstantSpec(values) if values else None


class Bound(NamedTuple):
    """An end of an interval."""

    value: Fraction
    inclusive: bool


@dataclass(frozen=True)
class NumberSpec:
    """A number in an interval.

    Attributes:
        integer: Whether it must (True) or must not (False) be whole.
        lower: The lower bound.
        upper: The upper bound.
        multiple: What it must be a multiple of.
        no_multiples: What it must not be a multiple of.
        values: The only numbers allowed.
    """

    integer: bool | None = None
    lower: Bound | None = None
    upper: Bound | None = None
    multiple: Fraction | None = None
    no_multiples: tuple[Fraction, ...] = ()
    values: tuple[Any, ...] | None = None

    def meet(self, other: NumberSpec) -> NumberSpec | None:
        """Both."""
        if self.integer is not None and other.integer is not None and self.integer != other.integer:
            return None
        bounds = [b for b in (self.lower, other.lower) if b]
        lower = max(bounds, key=lambda b: (b.value, not b.inclusive), default=None)
        bounds = [b for b in (self.upper, other.upper) if b]
        upper = min(bounds, key=lambda b: (b.value, b.inclusive), default=None)
        spec = NumberSpec(
            other.integer if self.integer is None else self.integer,
            lower,
            upper,
            _common_multiple(self.multiple, other.multiple),
            _join(self.no_multiples, other.no_multiples),
            _common(self.values, other.values),
        )
        if spec.values is not None:
            spec = replace(spec, values=tuple(v for v in spec.values if spec.admits(v)))
            return spec if spec.values else None
        if lower and upper:
            closed = lower.inclusive and upper.inclusive
            if lower.value > upper.value or (lower.value == upper.value and not closed):
                return None
        return spec

    def admits(self, value: float) -> bool:
        """Whether a number satisfies everything but ``values``."""
        if value != value or value in (float("inf"), float("-inf")):
            return False
        x = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
        return (
            (self.integer is None or (x.denominator == 1) == self.integer)
            and (
                not self.lower
                or x > self.lower.value
                or (x == self.lower.value and self.lower.inclusive)
            )
            and (
                not self.upper
                or x < self.upper.value
                or (x == self.upper.value and self.upper.inclusive)
            )
            and (not self.multiple or (x / self.multiple).denominator == 1)
            and all((x / step).denominator != 1 for step in self.no_multiples)
        )


def _common_multiple(first: Fraction | None, second: Fraction | None) -> Fraction | None:
    if first is None or second is None:
        return second if first is None else first
    top = first.numerator * second.numerator // gcd(first.numerator, second.numerator)
    return Fraction(top, gcd(first.denominator, second.denominator))


@dataclass(frozen=True)
class StringSpec:
    """A string.

    Attributes:
        least: The fewest characters.
        most: The most characters.
        values: The only strings allowed.
        excluded: Strings that are not allowed.
        patterns: Patterns that must (or must not) be found.
        formats: Formats that it must (or must not) have.
    """

    least: int = 0
    most: int | None = None
    values: tuple[str, ...] | None = None
    excluded: frozenset[str] = frozenset()
    patterns: tuple[tuple[str, bool], ...] = ()
    formats: tuple[tuple[str, bool], ...] = ()

    def meet(self, other: StringSpec) -> StringSpec | None:
        """Both."""
        spec = StringSpec(
            max(self.least, other.least),
            _smaller(self.most, other.most),
            _common(self.values, other.values),
            self.excluded | other.excluded,
            _join(self.patterns, other.patterns),
            _join(self.formats, other.formats),
        )
        if spec.most is not None and spec.most < spec.least:
            return None
        for conditions in (spec.patterns, spec.formats):
            if any((name, not positive) in conditions for name, positive in conditions):
                return None
        if spec.values is not None:
            spec = replace(spec, values=tuple(v for v in spec.values if spec.admits(v)))
            return spec if spec.values else None
        return spec

    def admits(self, text: str) -> bool:
        """Whether a text satisfies everything but ``values`` and ``formats``."""
        return (
            self.least <= len(text)
            and (self.most is None or len(text) <= self.most)
            and text not in self.excluded
            and all(
                finds(source, text, wide=not positive) == positive
                for source, positive in self.patterns
            )
        )


class Seen(NamedTuple):
    """What neighbouring keywords have evaluated, for ``unevaluated*``."""

    names: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    items: int = 0
    contained: tuple[Formula, ...] = ()
    everything: bool = False

    def join(self, other: Seen) -> Seen:
        """Evaluated by either."""
        return Seen(
            self.names | other.names,
            self.patterns | other.patterns,
            max(self.items, other.items),
            _join(self.contained, other.contained),
            self.everything or other.everything,
        )


_NOTHING_SEEN = Seen()


class Contains(NamedTuple):
    """From an index on, a number of items for which a formula holds."""

    formula: Formula
    least: int
    most: int | None
    start: int = 0


@dataclass(frozen=True)
class ArraySpec:
    """An array.

    Attributes:
        prefix: Conditions on the first items.
        rest: The condition on all others.
        least: The fewest items.
        most: The most items.
        contains: How many items must be of some kind.
        unique: The place that asks for distinct items.
        repeated: The place that asks for two equal items.
        seen: What is evaluated.
    """

    prefix: tuple[Formula, ...] = ()
    rest: Formula = TRUE
    least: int = 0
    most: int | None = None
    contains: tuple[Contains, ...] = ()
    unique: Place | None = None
    repeated: Place | None = None
    seen: Seen = _NOTHING_SEEN

    def item(self, index: int) -> Formula:
        """The condition on the item at an index."""
        return self.prefix[index] if index < len(self.prefix) else self.rest

    def meet(self, other: ArraySpec) -> ArraySpec | None:
        """Both."""
        spec = ArraySpec(
            tuple(
                both((self.item(i), other.item(i)))
                for i in range(max(len(self.prefix), len(other.prefix)))
            ),
            both((self.rest, other.rest)),
            max(self.least, other.least),
            _smaller(self.most, other.most),
            _join(self.contains, other.contains),
            self.unique or other.unique,
            self.repeated or other.repeated,
            self.seen.join(other.seen),
        )
        if spec.most is not None and spec.most < spec.least:
            return None
        return None if spec.unique and spec.repeated else spec


@dataclass(frozen=True)
class Rule:
    """What one schema says about the value of each property.

    Attributes:
        properties: By name.
        patterns: By pattern.
        others: For all names that are in neither.
    """

    properties: tuple[tuple[str, Formula], ...] = ()
    patterns: tuple[tuple[str, Formula], ...] = ()
    others: Formula = TRUE

    @cached_property
    def _by_name(self) -> dict[str, Formula]:
        return dict(self.properties)

    def on(self, name: str) -> Formula:
        """The condition on the value of a property."""
        parts = [self._by_name[name]] if name in self._by_name else []
        certain = bool(parts)
        for source, formula in self.patterns:
            if finds(source, name, wide=True):
                parts.append(formula)
                certain = certain or finds(source, name)
        return both(parts if certain else (*parts, self.others))


class Witness(NamedTuple):
    """A property that must be there, though its name is not known.

    Attributes:
        pattern: What is found in its name, if given.
        no_names: Names that it does not have.
        no_patterns: Patterns that are not found in its name.
        key: What holds of its name.
        value: What holds of its value.
    """

    pattern: str | None
    no_names: tuple[str, ...]
    no_patterns: tuple[str, ...]
    key: Formula
    value: Formula


@dataclass(frozen=True)
class ObjectSpec:
    """An object.

    Attributes:
        required: Names that must be there.
        rules: Conditions on values.
        keys: Conditions on all names.
        least: The fewest properties.
        most: The most properties.
        witnesses: Properties that must be there, by other marks than their name.
        seen: What is evaluated.
    """

    required: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    keys: tuple[Formula, ...] = ()
    least: int = 0
    most: int | None = None
    witnesses: tuple[Witness, ...] = ()
    seen: Seen = _NOTHING_SEEN

    def on(self, name: str) -> Formula:
        """The condition on the value of a property."""
        return both(rule.on(name) for rule in self.rules)

    @property
    def names(self) -> tuple[str, ...]:
        """All names that are mentioned."""
        named = (name for rule in self.rules for name, _ in rule.properties)
        return tuple(dict.fromkeys((*named, *self.required)))

    def meet(self, other: ObjectSpec) -> ObjectSpec | None:
        """Both."""
        spec = ObjectSpec(
            _join(self.required, other.required),
            _join(self.rules, other.rules),
            _join(self.keys, other.keys),
            max(self.least, other.least),
            _smaller(self.most, other.most),
            _join(self.witnesses, other.witnesses),
            self.seen.join(other.seen),
        )
        if spec.most is not None and spec.most < max(spec.least, len(spec.required)):
            return None
        return spec


Spec: TypeAlias = "ConstantSpec | NumberSpec | StringSpec | ArraySpec | ObjectSpec"

TOP: dict[str, Spec] = {
    "null": ConstantSpec((None,)),
    "boolean": ConstantSpec((False, True)),
    "number": NumberSpec(),
    "string": StringSpec(),
    "array": ArraySpec(),
    "object": ObjectSpec(),
}


def meet_all(first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    """Every one of the first with every one of the second, without doubles and empty ones."""
    others = list(second)
    met = (a.meet(b) for a in first for b in others)
    return list(dict.fromkeys(spec for spec in met if spec is not None))
