"""Conjunctions of conditions on values of one type, and how two of them meet.

A schema is read, for each JSON type, into a few alternatives; each is one of these. All are frozen
and hashable. ``meet`` gives None where nothing is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from math import gcd, isfinite, lcm
from typing import Any, NamedTuple, TypeAlias, TypeVar

from pcgcd.constraints.json_schema.document import Place
from pcgcd.constraints.json_schema.formats import FORMATS, SIGNS
from pcgcd.constraints.json_schema.formulas import FALSE, TRUE, Formula, both, json_key
from pcgcd.constraints.json_schema.patterns import finds

# What is found in every text of some formats, by their patterns.
_SIGN_OF = {FORMATS[name]: sign for name, sign in SIGNS.items()}
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


def _limit(first: T | None, second: T | None, meet: Callable[[T, T], T]) -> T | None:
    """Where two limits meet; None is no limit."""
    if first is None or second is None:
        return second if first is None else first
    return meet(first, second)


def _common(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    keys = {json_key(value) for value in second}
    return tuple(value for value in first if json_key(value) in keys)


def _common_multiple(first: Fraction, second: Fraction) -> Fraction:
    return Fraction(
        lcm(first.numerator, second.numerator), gcd(first.denominator, second.denominator)
    )


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


_higher = partial(max, key=lambda bound: (bound.value, not bound.inclusive))


@dataclass(frozen=True)
class NumberSpec:
    """A number in an interval."""

    integer: bool | None = None  # whether it must (True) or must not (False) be whole
    lower: Bound | None = None
    upper: Bound | None = None
    multiple: Fraction | None = None
    no_multiples: tuple[Fraction, ...] = ()
    values: tuple[Any, ...] | None = None  # the only ones allowed

    def meet(self, other: NumberSpec) -> NumberSpec | None:
        """Both."""
        if self.integer is not None and other.integer is not None and self.integer != other.integer:
            return None
        lower = _limit(self.lower, other.lower, _higher)
        upper = _limit(self.upper, other.upper, min)
        spec = NumberSpec(
            other.integer if self.integer is None else self.integer,
            lower,
            upper,
            _limit(self.multiple, other.multiple, _common_multiple),
            _join(self.no_multiples, other.no_multiples),
            _limit(self.values, other.values, _common),
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
        """Return whether a number satisfies everything but ``values``."""
        if isinstance(value, float) and not isfinite(value):
            return False
        x = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
        lower, upper = self.lower, self.upper
        return (
            (self.integer is None or (x.denominator == 1) == self.integer)
            and (not lower or x > lower.value or (x == lower.value and lower.inclusive))
            and (not upper or x < upper.value or (x == upper.value and upper.inclusive))
            and (not self.multiple or (x / self.multiple).denominator == 1)
            and all((x / step).denominator != 1 for step in self.no_multiples)
        )


@dataclass(frozen=True)
class StringSpec:
    """A string."""

    least: int = 0  # characters
    most: int | None = None
    values: tuple[str, ...] | None = None  # the only ones allowed
    excluded: frozenset[str] = frozenset()
    patterns: tuple[tuple[str, bool], ...] = ()  # each with whether it must or must not be found

    def meet(self, other: StringSpec) -> StringSpec | None:
        """Both."""
        spec = StringSpec(
            max(self.least, other.least),
            _limit(self.most, other.most, min),
            _limit(self.values, other.values, _common),
            self.excluded | other.excluded,
            _join(self.patterns, other.patterns),
        )
        if spec.most is not None and spec.most < spec.least:
            return None
        if any((source, not positive) in spec.patterns for source, positive in spec.patterns):
            return None
        if any((_SIGN_OF.get(source, ""), False) in spec.patterns for source, _ in spec.patterns):
            return None
        if spec.values is not None:
            spec = replace(spec, values=tuple(v for v in spec.values if spec.admits(v)))
            return spec if spec.values else None
        return spec

    def admits(self, text: str) -> bool:
        """Return whether a text satisfies everything but ``values``."""
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
    """An array."""

    prefix: tuple[Formula, ...] = ()  # conditions on the first items
    rest: Formula = TRUE  # the condition on all others
    least: int = 0
    most: int | None = None
    contains: tuple[Contains, ...] = ()
    unique: Place | None = None  # the place that asks for distinct items
    repeated: Place | None = None  # the place that asks for two equal items
    seen: Seen = _NOTHING_SEEN

    def item(self, index: int) -> Formula:
        """The condition on the item at an index."""
        return self.prefix[index] if index < len(self.prefix) else self.rest

    def meet(self, other: ArraySpec) -> ArraySpec | None:
        """Both."""
        size = max(len(self.prefix), len(other.prefix))
        spec = ArraySpec(
            tuple(both((self.item(i), other.item(i))) for i in range(size)),
            both((self.rest, other.rest)),
            max(self.least, other.least),
            _limit(self.most, other.most, min),
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
    """What one schema says about the value of each property."""

    properties: tuple[tuple[str, Formula], ...] = ()
    patterns: tuple[tuple[str, Formula], ...] = ()
    others: Formula = TRUE  # for all names that are in neither

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
    """A property that must be there, though its name is not known."""

    pattern: str | None = None  # is found in its name
    no_names: tuple[str, ...] = ()
    no_patterns: tuple[str, ...] = ()
    key: Formula = TRUE  # holds of its name
    value: Formula = TRUE

    def may_have(self, name: str) -> bool:
        """Return whether a name is one of those that it may have, but for ``key``."""
        return (
            (self.pattern is None or finds(self.pattern, name))
            and name not in self.no_names
            and not any(finds(pattern, name, wide=True) for pattern in self.no_patterns)
        )


@dataclass(frozen=True)
class ObjectSpec:
    """An object."""

    required: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    keys: tuple[Formula, ...] = ()  # conditions on all names
    least: int = 0
    most: int | None = None
    witnesses: tuple[Witness, ...] = ()
    seen: Seen = _NOTHING_SEEN
    least_at: str = ""  # the keyword that says so, and its place
    closed_at: Place | None = None  # the place that names properties and says nothing of others
    asked: frozenset[str] = frozenset()  # required where the object is described

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
            _limit(self.most, other.most, min),
            _join(self.witnesses, other.witnesses),
            self.seen.join(other.seen),
            self.least_at if self.least >= other.least else other.least_at,
            self.closed_at or other.closed_at,
            self.asked | other.asked,
        )
        fewest = max(spec.least, len(spec.required))
        return None if spec.most is not None and spec.most < fewest else spec

    def closed(
        self, is_possible: Callable[[Formula], bool], conditions: bool = False
    ) -> ObjectSpec | None:
        """Return it without properties that nothing names, if a place asks for that.

        None if that leaves nothing. It stays as it is where something is said of other properties.

        Args:
            is_possible: Whether a formula may hold of something.
            conditions: Whether what conditions require, such as "not", counts as named.
        """
        if self.closed_at is None:
            return self
        said = self.seen.everything or self.seen.patterns or self.keys
        if said or any(rule.others == FALSE and not rule.patterns for rule in self.rules):
            return replace(self, closed_at=None)
        asked = self.required if conditions else self.asked
        named = [name for name in self.names if name in self.seen.names or name in asked]
        if not set(self.required).issubset(named):
            return None
        if self.least or self.witnesses:
            possible = [name for name in named if is_possible(self.on(name))]
            met = all(any(map(witness.may_have, possible)) for witness in self.witnesses)
            if len(possible) < self.least or not met:
                return None
        only = Rule(tuple((name, TRUE) for name in named), others=FALSE)
        return replace(self, rules=(*self.rules, only), seen=_NOTHING_SEEN, asked=frozenset())


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
