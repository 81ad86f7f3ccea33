"""The keywords of strings and numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from pcgcd.constraints.json_schema.document import Place
from pcgcd.constraints.json_schema.formats import EXACT, FORMATS
from pcgcd.constraints.json_schema.numbers import multiples
from pcgcd.constraints.json_schema.patterns import not_found, searched
from pcgcd.constraints.json_schema.specs import Bound, NumberSpec, Spec, StringSpec
from pcgcd.errors import UnsupportedConstraintError

__all__ = ["NUMBER_KEYWORDS", "STRING_KEYWORDS", "count", "number_options", "string_options"]

STRING_KEYWORDS = ("minLength", "maxLength", "pattern", "format")
NUMBER_KEYWORDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


def count(place: Place, keyword: str) -> int:
    """A keyword that is a whole number, at least zero."""
    value = place.schema[keyword]
    whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
    if not whole or value < 0:
        raise place.invalid(keyword, "a whole number that is not negative")
    return int(value)


def string_options(place: Place, keyword: str, positive: bool) -> list[Spec]:
    """What a keyword of strings, or its negation, leaves."""
    if keyword == "minLength":
        least = count(place, keyword)
        if positive:
            return [StringSpec(least=least)]
        return [StringSpec(most=least - 1)] if least else []
    if keyword == "maxLength":
        most = count(place, keyword)
        return [StringSpec(most=most) if positive else StringSpec(least=most + 1)]
    name = place.schema[keyword]
    if not isinstance(name, str):
        raise place.invalid(keyword, "a string")
    if keyword == "format":
        if name not in FORMATS:
            return [StringSpec()] if positive else []
        if not positive and name not in EXACT:
            raise place.unsupported(
                keyword, f"only a part of {name!r} is known, so not its opposite"
            )
        return [StringSpec(formats=((name, positive),))]
    check_pattern(place, keyword, name, positive)
    return [StringSpec(patterns=((name, positive),))]


def check_pattern(place: Place, keyword: str, pattern: str, positive: bool = True) -> None:
    """Refuse a pattern that cannot be followed, naming the place."""
    try:
        searched(pattern)
        if not positive:
            not_found(pattern)
    except UnsupportedConstraintError as error:
        raise UnsupportedConstraintError(f"{keyword!r} at {place.at(keyword)}: {error}") from error


def number_options(place: Place, keyword: str, positive: bool) -> list[Spec]:
    """What a keyword of numbers, or its negation, leaves."""
    value = place.schema[keyword]
    if keyword.startswith("exclusive") and isinstance(value, bool):
        return [NumberSpec()] if positive else []
    amount = _fraction(place, keyword)
    if keyword == "multipleOf":
        if amount <= 0:
            raise place.invalid(keyword, "a number greater than zero")
        try:
            multiples(amount, positive)
        except UnsupportedConstraintError as error:
            raise place.unsupported(keyword, str(error)) from error
        return [NumberSpec(multiple=amount) if positive else NumberSpec(no_multiples=(amount,))]
    # Up to draft 4, "exclusiveMinimum": true made "minimum" exclusive.
    exclusive = keyword.startswith("exclusive") or (
        place.schema.get("exclusive" + keyword.capitalize()) is True
    )
    below = keyword in ("maximum", "exclusiveMaximum")
    bound = Bound(amount, inclusive=(not exclusive) == positive)
    if below == positive:
        return [NumberSpec(upper=bound)]
    return [NumberSpec(lower=bound)]


def _fraction(place: Place, keyword: str) -> Fraction:
    value: Any = place.schema[keyword]
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise place.invalid(keyword, "a number")
    if abs(value) > 10**300:
        raise place.invalid(keyword, "a number that a float can hold")
    return Fraction(repr(value))
