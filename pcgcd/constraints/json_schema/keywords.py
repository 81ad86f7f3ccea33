"""The keywords that speak of one type, each (or its negation) read into alternatives."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from pcgcd.constraints.json_schema.document import Document, Place
from pcgcd.constraints.json_schema.formats import EXACT, FORMATS, PYTHON_FORMATS, SIGNS
from pcgcd.constraints.json_schema.formulas import FALSE, TRUE, Formula, holds, negation
from pcgcd.constraints.json_schema.numbers import multiples
from pcgcd.constraints.json_schema.patterns import listed, not_found, searched
from pcgcd.constraints.json_schema.specs import (
    ArraySpec,
    Bound,
    Contains,
    NumberSpec,
    ObjectSpec,
    Rule,
    Seen,
    StringSpec,
    Witness,
)
from pcgcd.errors import UnsupportedConstraintError

Options = list[Any]

_LEAST = {"minLength": StringSpec, "minItems": ArraySpec}
_MOST = {"maxLength": StringSpec, "maxItems": ArraySpec}
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_SIZES = ("minProperties", "maxProperties")
_VALUES = ("properties", "patternProperties", "additionalProperties")
# What speaks of properties that have no names of their own in the schema.
_OTHERS = {
    "additionalProperties",
    "patternProperties",
    "unevaluatedProperties",
    "propertyNames",
}
_ITEMS = ("prefixItems", "items", "additionalItems")
OWN_KEYWORDS: dict[str, tuple[str, ...]] = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": (*_BOUNDS, "multipleOf"),
    "array": ("minItems", "maxItems", *_ITEMS, "contains", "uniqueItems"),
    "object": (*_SIZES, "required", *_VALUES, "propertyNames", "dependentRequired"),
}


def own_options(document: Document, place: Place, keyword: str, positive: bool) -> Options:
    """What a keyword of one type, or its negation, leaves of the values of that type."""
    if keyword in _SIZES:
        return _size(place, keyword, positive)
    if keyword in _LEAST:
        spec, least = _LEAST[keyword], _count(place, keyword)
        if positive:
            return [spec(least=least)]
        return [spec(most=least - 1)] if least else []
    if keyword in _MOST:
        spec, most = _MOST[keyword], _count(place, keyword)
        return [spec(most=most) if positive else spec(least=most + 1)]
    if keyword == "pattern":
        pattern = _text(place, keyword)
        _check_pattern(place, keyword, pattern, positive)
        texts = listed(pattern)
        if texts:
            return [StringSpec(values=texts) if positive else StringSpec(excluded=frozenset(texts))]
        return [StringSpec(patterns=((pattern, positive),))]
    if keyword == "format":
        return _format(document, place, positive)
    if keyword == "multipleOf":
        return _multiple(place, positive)
    if keyword in _BOUNDS:
        return _bound(place, keyword, positive)
    if keyword == "uniqueItems":
        return _unique(place, positive)
    if keyword == "contains":
        return _contains(document, place, positive)
    if keyword in _ITEMS:
        return _items(document, place, keyword, positive)
    if keyword == "required":
        return _required(place, positive)
    if keyword == "propertyNames":
        formula = holds(document.child(place, keyword))
        if positive:
            return [ObjectSpec(keys=(formula,))]
        return [ObjectSpec(witnesses=(Witness(key=negation(formula)),))]
    return _values(document, place, keyword, positive)


def _count(place: Place, keyword: str, default: Any = None) -> Any:
    """A whole number that is not negative; the default where there is none."""
    if keyword not in place.schema:
        return default
    value = place.schema[keyword]
    whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
    if not whole or value < 0:
        raise place.invalid(keyword, "a whole number that is not negative")
    return int(value)


def _trivial(spec: type[Any], positive: bool) -> Options:
    """What a keyword leaves that says nothing."""
    return [spec()] if positive else []


# -- strings ------------------------------------------------------------------------------------


def _text(place: Place, keyword: str) -> str:
    value = place.schema[keyword]
    if not isinstance(value, str):
        raise place.invalid(keyword, "a string")
    return value


def _check_pattern(place: Place, keyword: str, pattern: str, positive: bool = True) -> None:
    """Refuse a pattern that cannot be followed, naming the place."""
    try:
        searched(pattern)
        if not positive:
            not_found(pattern)
    except UnsupportedConstraintError as error:
        raise UnsupportedConstraintError(f"{keyword!r} at {place.at(keyword)}: {error}") from error


def _format(document: Document, place: Place, positive: bool) -> Options:
    name = _text(place, "format")
    if document.of_python and name in PYTHON_FORMATS:
        return [StringSpec(patterns=((PYTHON_FORMATS[name], positive),))]
    if name not in FORMATS:
        return _trivial(StringSpec, positive)
    if positive or name in EXACT:
        return [StringSpec(patterns=((FORMATS[name], positive),))]
    if name not in SIGNS:
        raise place.unsupported("format", f"only a part of {name!r} is known, so not its opposite")
    return [StringSpec(patterns=((SIGNS[name], False),))]


# -- numbers ------------------------------------------------------------------------------------


def _fraction(place: Place, keyword: str) -> Fraction:
    value: Any = place.schema[keyword]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise place.invalid(keyword, "a number")
    if abs(value) > 10**300:
        raise place.invalid(keyword, "a number that a float can hold")
    return Fraction(repr(value))


def _multiple(place: Place, positive: bool) -> Options:
    step = _fraction(place, "multipleOf")
    if step <= 0:
        raise place.invalid("multipleOf", "a number greater than zero")
    try:
        multiples(step, positive)
    except UnsupportedConstraintError as error:
        raise place.unsupported("multipleOf", str(error)) from error
    return [NumberSpec(multiple=step) if positive else NumberSpec(no_multiples=(step,))]


def _bound(place: Place, keyword: str, positive: bool) -> Options:
    exclusive = keyword.startswith("exclusive")
    if exclusive and isinstance(place.schema[keyword], bool):
        return _trivial(NumberSpec, positive)
    # Up to draft 4, "exclusiveMinimum": true made "minimum" exclusive.
    exclusive |= place.schema.get("exclusive" + keyword.capitalize()) is True
    bound = Bound(_fraction(place, keyword), inclusive=(not exclusive) == positive)
    if keyword.lower().endswith("maximum") == positive:
        return [NumberSpec(upper=bound)]
    return [NumberSpec(lower=bound)]


# -- arrays -------------------------------------------------------------------------------------


def _unique(place: Place, positive: bool) -> Options:
    asked = place.schema["uniqueItems"]
    if not isinstance(asked, bool):
        raise place.invalid("uniqueItems", "a boolean")
    if not asked:
        return _trivial(ArraySpec, positive)
    return [ArraySpec(unique=place) if positive else ArraySpec(repeated=place, least=2)]


def _contains(document: Document, place: Place, positive: bool) -> Options:
    # How many items satisfy it counts, so nothing more may be asked of them.
    formula = holds(document.child(document.condition(place), "contains"))
    least, most = _count(place, "minContains", 1), _count(place, "maxContains")
    if positive:
        if most is not None and most < least:
            return []
        seen = Seen(contained=(formula,))
        return [ArraySpec(contains=(Contains(formula, least, most),), seen=seen)]
    options = []
    if least:
        options.append(ArraySpec(contains=(Contains(formula, 0, least - 1),)))
    if most is not None:
        options.append(ArraySpec(contains=(Contains(formula, most + 1, None),)))
    return options


def _prefix(document: Document, place: Place) -> tuple[Formula, ...]:
    """The schemas of the first items: ``prefixItems``, or a list of ``items`` as up to 2019."""
    for keyword in ("prefixItems", "items"):
        value = place.schema.get(keyword)
        if isinstance(value, list):
            return tuple(holds(document.child(place, keyword, i)) for i in range(len(value)))
        if keyword == "prefixItems" and keyword in place.schema:
            raise place.invalid(keyword, "a list of schemas")
    return ()


def _items(document: Document, place: Place, keyword: str, positive: bool) -> Options:
    prefix = _prefix(document, place)
    listed = isinstance(place.schema.get("items"), list)
    if keyword == "prefixItems" or (keyword == "items" and listed):
        if positive:
            return [ArraySpec(prefix=prefix, seen=Seen(items=len(prefix)))]
        return [
            ArraySpec(prefix=(*[TRUE] * i, negation(item)), least=i + 1)
            for i, item in enumerate(prefix)
        ]
    if keyword == "additionalItems" and not listed:
        return _trivial(ArraySpec, positive)
    rest = holds(document.child(place, keyword))
    if positive:
        free = (TRUE,) * len(prefix)
        return [ArraySpec(prefix=free, rest=rest, seen=Seen(everything=True))]
    return [ArraySpec(contains=(Contains(negation(rest), 1, None, len(prefix)),))]


# -- objects ------------------------------------------------------------------------------------


def _size(place: Place, keyword: str, positive: bool) -> Options:
    number = _count(place, keyword)
    if (keyword == "minProperties") == positive:
        least = number if positive else number + 1
        return [ObjectSpec(least=least, least_at=place.named(keyword))]
    most = number if positive else number - 1
    return [ObjectSpec(most=most)] if most >= 0 else []


def absent(name: str) -> ObjectSpec:
    """An object without a property."""
    return ObjectSpec(rules=(Rule(properties=((name, FALSE),)),))


def required_at(place: Place, names: tuple[str, ...]) -> ObjectSpec:
    """An object with the properties that a place requires."""
    return ObjectSpec(required=names, asked=frozenset(names) if place.closed else frozenset())


def names_at(place: Place, keyword: str, names: Any) -> tuple[str, ...]:
    """A list of names."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise place.invalid(keyword, "a list of names")
    return tuple(dict.fromkeys(names))


def _required(place: Place, positive: bool) -> Options:
    value = place.schema["required"]
    # Up to draft 3, a property itself said that it was required; later that means nothing.
    if isinstance(value, bool):
        return _trivial(ObjectSpec, positive)
    names = names_at(place, "required", value)
    return [required_at(place, names)] if positive else [absent(name) for name in names]


def _named(document: Document, place: Place, keyword: str) -> tuple[tuple[str, Formula], ...]:
    """The sub-schemas of a keyword that is an object."""
    value = place.schema.get(keyword, {})
    if not isinstance(value, dict):
        raise place.invalid(keyword, "an object")
    if keyword == "patternProperties":
        for pattern in value:
            _check_pattern(place, keyword, pattern, positive=False)
    return tuple((name, holds(document.child(place, keyword, name))) for name in value)


def _values(document: Document, place: Place, keyword: str, positive: bool) -> Options:
    """``properties``, ``patternProperties`` and ``additionalProperties`` are one rule."""
    properties = _named(document, place, "properties")
    patterns = _named(document, place, "patternProperties")
    everything = "additionalProperties" in place.schema
    is_closed = place.closed and bool(properties) and not _OTHERS & place.schema.keys()
    others = holds(document.child(place, "additionalProperties")) if everything else TRUE
    names, sources = tuple(dict(properties)), tuple(dict(patterns))
    if positive:
        if keyword != next(each for each in _VALUES if each in place.schema):
            return [ObjectSpec()]
        seen = Seen(frozenset(names), frozenset(sources), everything=everything)
        closed_at = place if is_closed else None
        return [
            ObjectSpec(rules=(Rule(properties, patterns, others),), seen=seen, closed_at=closed_at)
        ]
    if keyword == "properties":
        return [
            ObjectSpec(required=(name,), rules=(Rule(((name, negation(formula)),)),))
            for name, formula in properties
        ]
    if keyword == "patternProperties":
        return [
            ObjectSpec(witnesses=(Witness(pattern, value=negation(formula)),))
            for pattern, formula in patterns
        ]
    return [ObjectSpec(witnesses=(Witness(None, names, sources, value=negation(others)),))]
