"""The keywords of arrays and objects, each read into alternatives."""

from __future__ import annotations

from typing import Any

from pcgcd.constraints.json_schema.document import Document, Place
from pcgcd.constraints.json_schema.formulas import FALSE, TRUE, Formula, holds, negation
from pcgcd.constraints.json_schema.scalar_keywords import check_pattern, count
from pcgcd.constraints.json_schema.specs import (
    ArraySpec,
    Contains,
    ObjectSpec,
    Rule,
    Seen,
    Witness,
)

__all__ = [
    "ARRAY_KEYWORDS",
    "OBJECT_KEYWORDS",
    "absent",
    "array_options",
    "names_at",
    "object_options",
]

ARRAY_KEYWORDS = (
    "minItems",
    "maxItems",
    "prefixItems",
    "items",
    "additionalItems",
    "contains",
    "uniqueItems",
)
OBJECT_KEYWORDS = (
    "minProperties",
    "maxProperties",
    "required",
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "dependentRequired",
)


def absent(name: str) -> ObjectSpec:
    """An object without a property."""
    return ObjectSpec(rules=(Rule(properties=((name, FALSE),)),))


def _mapping(place: Place, keyword: str) -> dict[str, Any]:
    value = place.schema.get(keyword, {})
    if not isinstance(value, dict):
        raise place.invalid(keyword, "an object")
    return value


def names_at(place: Place, keyword: str, names: Any) -> tuple[str, ...]:
    """A list of names."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise place.invalid(keyword, "a list of names")
    return tuple(dict.fromkeys(names))


# -- arrays -------------------------------------------------------------------------------------


def _prefix(document: Document, place: Place) -> tuple[Formula, ...]:
    """The schemas of the first items: ``prefixItems``, or a list of ``items`` as up to 2019."""
    for keyword in ("prefixItems", "items"):
        value = place.schema.get(keyword)
        if isinstance(value, list):
            return tuple(holds(document.child(place, keyword, i)) for i in range(len(value)))
        if keyword == "prefixItems" and keyword in place.schema:
            raise place.invalid(keyword, "a list of schemas")
    return ()


def _rest(document: Document, place: Place) -> tuple[str, Formula]:
    """The keyword and the schema of the items that follow the first ones."""
    items = place.schema.get("items")
    if isinstance(items, list):
        keyword = "additionalItems"
        return keyword, holds(document.child(place, keyword)) if keyword in place.schema else TRUE
    return "items", holds(document.child(place, "items")) if "items" in place.schema else TRUE


def array_options(
    document: Document, place: Place, keyword: str, positive: bool
) -> list[ArraySpec]:
    """What a keyword of arrays, or its negation, leaves."""
    schema = place.schema
    if keyword == "minItems":
        least = count(place, keyword)
        if positive:
            return [ArraySpec(least=least)]
        return [ArraySpec(most=least - 1)] if least else []
    if keyword == "maxItems":
        most = count(place, keyword)
        return [ArraySpec(most=most) if positive else ArraySpec(least=most + 1)]
    if keyword == "uniqueItems":
        if not isinstance(schema[keyword], bool):
            raise place.invalid(keyword, "a boolean")
        if not schema[keyword]:
            return [ArraySpec()] if positive else []
        return [ArraySpec(unique=place) if positive else ArraySpec(repeated=place, least=2)]
    if keyword == "contains":
        return _contains(document, place, positive)
    prefix = _prefix(document, place)
    rest_keyword, rest = _rest(document, place)
    if keyword == "prefixItems" or (keyword == "items" and isinstance(schema["items"], list)):
        if positive:
            return [ArraySpec(prefix=prefix, seen=Seen(items=len(prefix)))]
        return [
            ArraySpec(prefix=(*[TRUE] * i, negation(item)), least=i + 1)
            for i, item in enumerate(prefix)
        ]
    if keyword != rest_keyword:
        return [ArraySpec()] if positive else []
    if positive:
        free = (TRUE,) * len(prefix)
        return [ArraySpec(prefix=free, rest=rest, seen=Seen(everything=True))]
    return [ArraySpec(contains=(Contains(negation(rest), 1, None, len(prefix)),))]


def _contains(document: Document, place: Place, positive: bool) -> list[ArraySpec]:
    formula = holds(document.child(place, "contains"))
    least = count(place, "minContains") if "minContains" in place.schema else 1
    most = count(place, "maxContains") if "maxContains" in place.schema else None
    seen = Seen(contained=(formula,))
    if positive:
        if most is not None and most < least:
            return []
        return [ArraySpec(contains=(Contains(formula, least, most),), seen=seen)]
    options = []
    if least:
        options.append(ArraySpec(contains=(Contains(formula, 0, least - 1),)))
    if most is not None:
        options.append(ArraySpec(contains=(Contains(formula, most + 1, None),)))
    return options


# -- objects ------------------------------------------------------------------------------------


def _rule(document: Document, place: Place) -> Rule:
    others = "additionalProperties"
    patterns = _mapping(place, "patternProperties")
    for pattern in patterns:
        check_pattern(place, "patternProperties", pattern, positive=False)
    return Rule(
        tuple(
            (name, holds(document.child(place, "properties", name)))
            for name in _mapping(place, "properties")
        ),
        tuple(
            (pattern, holds(document.child(place, "patternProperties", pattern)))
            for pattern in patterns
        ),
        holds(document.child(place, others)) if others in place.schema else TRUE,
    )


def object_options(
    document: Document, place: Place, keyword: str, positive: bool
) -> list[ObjectSpec]:
    """What a keyword of objects, or its negation, leaves."""
    schema = place.schema
    if keyword == "minProperties":
        least = count(place, keyword)
        if positive:
            return [ObjectSpec(least=least)]
        return [ObjectSpec(most=least - 1)] if least else []
    if keyword == "maxProperties":
        most = count(place, keyword)
        return [ObjectSpec(most=most) if positive else ObjectSpec(least=most + 1)]
    if keyword == "required":
        # Up to draft 3, a property itself said that it was required; later that means nothing.
        if isinstance(schema[keyword], bool):
            return [ObjectSpec()] if positive else []
        names = names_at(place, keyword, schema[keyword])
        return [ObjectSpec(required=names)] if positive else [absent(name) for name in names]
    if keyword == "propertyNames":
        formula = holds(document.child(place, keyword))
        if positive:
            return [ObjectSpec(keys=(formula,))]
        return [ObjectSpec(witnesses=(Witness(None, (), (), negation(formula), TRUE),))]
    if keyword == "dependentRequired":
        return _dependent_required(place, positive)
    return _values(document, place, keyword, positive)


def _values(document: Document, place: Place, keyword: str, positive: bool) -> list[ObjectSpec]:
    """``properties``, ``patternProperties`` and ``additionalProperties`` are one rule."""
    rule = _rule(document, place)
    first = next(
        k for k in ("properties", "patternProperties", "additionalProperties") if k in place.schema
    )
    names = tuple(name for name, _ in rule.properties)
    patterns = tuple(pattern for pattern, _ in rule.patterns)
    if positive:
        if keyword != first:
            return [ObjectSpec()]
        everything = "additionalProperties" in place.schema
        seen = Seen(frozenset(names), frozenset(patterns), everything=everything)
        return [ObjectSpec(rules=(rule,), seen=seen)]
    if keyword == "properties":
        return [
            ObjectSpec(required=(name,), rules=(Rule(((name, negation(formula)),)),))
            for name, formula in rule.properties
        ]
    if keyword == "patternProperties":
        return [
            ObjectSpec(witnesses=(Witness(pattern, (), (), TRUE, negation(formula)),))
            for pattern, formula in rule.patterns
        ]
    return [ObjectSpec(witnesses=(Witness(None, names, patterns, TRUE, negation(rule.others)),))]


def _dependent_required(place: Place, positive: bool) -> list[ObjectSpec]:
    result = [ObjectSpec()] if positive else []
    for name, others in _mapping(place, "dependentRequired").items():
        needed = names_at(place, "dependentRequired", others)
        if positive:
            choices = [absent(name), ObjectSpec(required=tuple(dict.fromkeys((name, *needed))))]
            met = (a.meet(b) for a in result for b in choices)
            result = [spec for spec in met if spec is not None]
        else:
            for other in needed:
                missing = ObjectSpec(required=(name,)).meet(absent(other))
                result += [missing] if missing else []
    return result
