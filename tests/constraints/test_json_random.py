"""Random schemas and values against the jsonschema package."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pcgcd.constraints.json_schema import json_schema
from pcgcd.errors import (
    AutomatonTooLargeError,
    EmptyLanguageError,
    UnsupportedConstraintError,
)
from tests.constraints.json_walks import random_text

jsonschema = pytest.importorskip("jsonschema")

NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 6),
    st.sampled_from([0.5, 1.0, -2.5]),
    st.sampled_from(["", "a", "ab", "b", "é", '"', "abc"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "c", "d", "ab"]), inner, max_size=3),
    ),
    max_leaves=5,
)
COUNTS = st.integers(0, 3)


def _objects(schemas):
    return {
        "properties": st.dictionaries(NAMES, schemas, max_size=2),
        "required": st.lists(NAMES, unique=True, max_size=2),
        "additionalProperties": schemas,
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), schemas, max_size=2),
        "propertyNames": st.sampled_from([{"maxLength": 1}, {"pattern": "^a"}, {"const": "a"}]),
        "minProperties": st.integers(0, 1),
        "maxProperties": COUNTS,
        "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, unique=True), max_size=1),
        "dependentSchemas": st.dictionaries(NAMES, schemas, max_size=1),
        "unevaluatedProperties": schemas,
    }


def _arrays(schemas):
    return {
        "items": schemas,
        "prefixItems": st.lists(schemas, min_size=1, max_size=2),
        "contains": schemas,
        "minContains": COUNTS,
        "maxContains": COUNTS,
        "minItems": COUNTS,
        "maxItems": COUNTS,
        "uniqueItems": st.booleans(),
        "unevaluatedItems": schemas,
    }


def _combinations(schemas):
    return {
        "allOf": st.lists(schemas, min_size=1, max_size=2),
        "anyOf": st.lists(schemas, min_size=1, max_size=2),
        "oneOf": st.lists(schemas, min_size=1, max_size=2),
        "not": schemas,
        "if": schemas,
        "then": schemas,
        "else": schemas,
    }


TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
LEAVES = {
    "type": st.one_of(TYPES, st.lists(TYPES, min_size=1, max_size=2, unique=True)),
    "const": SCALARS,
    "enum": st.lists(VALUES, min_size=1, max_size=3),
    "minLength": COUNTS,
    "maxLength": COUNTS,
    "pattern": st.sampled_from(["^a", "b$", "^ab?$", "a|b"]),
    "minimum": st.integers(-2, 4),
    "maximum": st.integers(-2, 4),
    "exclusiveMinimum": st.integers(-2, 4),
    "exclusiveMaximum": st.integers(-2, 4),
    "multipleOf": st.sampled_from([2, 3, 0.5]),
}


def _some(keywords, most):
    """Objects with a few of the keywords."""
    return st.lists(st.sampled_from(sorted(keywords)), max_size=most, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: keywords[name] for name in names})
    )


SCHEMAS = st.recursive(
    st.one_of(st.booleans(), _some(LEAVES, 2)),
    lambda inner: st.one_of(
        _some({**LEAVES, **_objects(inner)}, 3),
        _some({**LEAVES, **_arrays(inner)}, 3),
        _some({**LEAVES, **_objects(inner), **_arrays(inner), **_combinations(inner)}, 3),
    ),
    max_leaves=5,
)


def _built(schema, **options):
    try:
        return json_schema(schema, **options)
    except (UnsupportedConstraintError, AutomatonTooLargeError):
        assume(False)
    except EmptyLanguageError:
        return None


def _check(schema, values, seed):
    validator = jsonschema.Draft202012Validator(schema)
    constraint = _built(schema, order="any")
    for value in values:
        valid = validator.is_valid(value)
        accepted = constraint is not None and constraint.matches(json.dumps(value))
        if valid and not accepted:
            # A property that must be there without a name is written last.
            texts = [json.dumps(_turned(value, turn)) for turn in range(3)]
            accepted = constraint is not None and any(map(constraint.matches, texts))
        assert accepted == valid, (schema, value)
    for order in ("any", "schema"):
        constraint = _built(schema, order=order)
        for i in range(4 if constraint is not None and not constraint.automaton.is_empty() else 0):
            text = random_text(constraint, seed + i)
            assert validator.is_valid(json.loads(text)), (schema, text)


def _turned(value, turn):
    """The same value with its properties turned around."""
    if isinstance(value, list):
        return [_turned(item, turn) for item in value]
    if isinstance(value, dict):
        keys = list(value)
        turn = turn % max(1, len(keys))
        return {key: _turned(value[key], turn) for key in (*keys[turn:], *keys[:turn])}
    return value


SETTINGS = {"suppress_health_check": list(HealthCheck)}


@given(SCHEMAS, st.lists(VALUES, min_size=1, max_size=6), st.integers(0, 10**6))
@settings(max_examples=120, **SETTINGS)
def test_random_schemas_accept_exactly_the_valid_values(schema, values, seed):
    _check(schema, values, seed)


@pytest.mark.slow
@given(SCHEMAS, st.lists(VALUES, min_size=1, max_size=6), st.integers(0, 10**6))
@settings(max_examples=3000, **SETTINGS)
def test_many_random_schemas_accept_exactly_the_valid_values(schema, values, seed):
    _check(schema, values, seed)
