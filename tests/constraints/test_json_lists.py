"""Lists of items that must be contained, and items with several options that begin alike."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from pcgcd.automata import compile_expression
from pcgcd.constraints import json_schema
from pcgcd.errors import EmptyLanguageError

ITEMS = (0, 1, [], [1], {"a": 1})
LISTS = [list(items) for n in range(4) for items in itertools.product(ITEMS, repeat=n)]
ONE: Any = {"enum": [1, [1]]}
FREE_OBJECTS = {"type": "object", "required": ["a"]}
SMALL = st.integers(0, 3)
CONDITIONS = (
    {"contains": ONE},
    {"not": {"items": {"not": ONE}}},
    {"not": {"items": {"type": "array"}}},
    {"not": {"items": FREE_OBJECTS}},
    {"contains": {"type": "array", "contains": ONE}},
    {"contains": {"not": {"type": "array", "items": {"type": "string"}}}},
)


@settings(max_examples=40, deadline=None)
@given(
    conditions=st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=2),
    counts=st.fixed_dictionaries(
        {},
        optional={
            "minContains": SMALL,
            "maxContains": SMALL,
            "minItems": SMALL,
            "maxItems": SMALL,
            "prefixItems": st.just([{"type": "array"}]),
            "items": st.sampled_from([{"type": ["integer", "array"]}, {"not": {"const": 0}}]),
        },
    ),
)
def test_a_list_contains_what_it_must(
    conditions: list[dict[str, Any]], counts: dict[str, Any]
) -> None:
    first, *others = conditions
    schema = {"type": "array", **counts, **first, "allOf": [True, *others]}
    validator = Draft202012Validator(schema)
    try:
        constraint = json_schema(schema)
        found = [value for value in LISTS if constraint.matches(json.dumps(value))]
    except EmptyLanguageError:
        found = []
    assert found == [value for value in LISTS if validator.is_valid(value)]


def objects(count: int) -> dict[str, Any]:
    """Objects of several kinds, which are told apart by their second property."""
    kinds = [
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 20},
                "kind": {"const": "kind " + "x" * i},
                "size": {"type": "integer", "multipleOf": i + 1},
            },
            "required": ["name", "kind"],
            "additionalProperties": False,
        }
        for i in range(count)
    ]
    return {"anyOf": kinds}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": objects(3)},
        {"type": "array", "prefixItems": [objects(3), objects(2)], "items": objects(3)},
        {"type": "object", "properties": {"a": objects(3), "b": objects(2)}},
        {"type": "object", "additionalProperties": objects(3)},
        {"type": "array", "items": {"anyOf": [objects(3), {"type": "array", "items": objects(2)}]}},
    ],
)
def test_options_that_begin_alike_are_told_apart_once_and_for_all(schema: dict[str, Any]) -> None:
    constraint = json_schema(schema, free_depth=1, open_objects=True)
    smallest = compile_expression(constraint.expression, deterministic=True)
    assert constraint.automaton.is_deterministic
    assert constraint.automaton.num_states == smallest.num_states
    validator = Draft202012Validator(schema)
    for kind, size in itertools.product((0, 1, 2, 3), (None, 1, 6)):
        value = {"name": "n", "kind": "kind " + "x" * kind, **({"size": size} if size else {})}
        for whole in ([value], [value, value], {"a": value}, {"b": value}, [[value]], value):
            found = constraint.matches(json.dumps(whole))
            assert found == validator.is_valid(whole), whole
