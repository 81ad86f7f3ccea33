"""Sub-schemas that say the same are built once; those that only look alike are not mixed up."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from pcgcd.automata import compile_expression
from pcgcd.constraints import json_schema
from pcgcd.constraints.json_schema.document import Document
from pcgcd.errors import EmptyLanguageError, LoweredBoundWarning

# Names that are keywords elsewhere, above all those that only inform readers.
NAMES = ("title", "default", "const", "properties")
VALUES: tuple[Any, ...] = (0, 1, 1.5, True, "a", [], {}, {"title": 1}, {"title": 2}, {"default": 0})
OBJECTS = [
    dict(zip(names, values))
    for n in range(1, 3)
    for names in itertools.combinations(NAMES, n)
    for values in itertools.product((0, "a", {"title": 1}, {"title": 2}), repeat=n)
]
LEAVES: tuple[Any, ...] = (
    {"type": "integer"},
    {"type": "string", "title": "of readers"},
    {"const": {"title": 1}},
    {"const": {"title": 2}},
    {"enum": [1, True, {"default": 0}]},
    {"enum": [True, "a"]},
    {"enum": [1.0, "a"], "description": "1.0 is 1"},
    {"dependentRequired": {"title": ["default"]}},
    {"dependentRequired": {"title": ["const"]}},
    {"dependentSchemas": {"title": {"required": ["default"]}}},
)


def schemas() -> st.SearchStrategy[Any]:
    leaves = st.sampled_from(LEAVES)
    members = st.dictionaries(st.sampled_from(NAMES), leaves, min_size=1, max_size=2)
    objects = st.one_of(
        members.map(lambda inner: {"properties": inner}),
        members.map(lambda inner: {"properties": inner, "title": "noted"}),
        members.map(lambda inner: {"properties": inner, "required": ["title"]}),
    )
    return st.one_of(leaves, objects.map(lambda schema: {**schema, "additionalProperties": True}))


@settings(max_examples=40, deadline=None)
@example(options=[LEAVES[2], LEAVES[3]], which="any")
@example(options=[LEAVES[4], LEAVES[5], LEAVES[6]], which="one")
@example(options=[LEAVES[7], LEAVES[8]], which="any")
@given(options=st.lists(schemas(), min_size=2, max_size=3), which=st.sampled_from(["any", "one"]))
def test_what_looks_alike_is_told_apart(options: list[Any], which: str) -> None:
    schema = {f"{which}Of": options}
    validator = Draft202012Validator(schema)
    values = [*VALUES, *OBJECTS]
    try:
        constraint = json_schema(schema, order="any")
        found = [value for value in values if constraint.matches(json.dumps(value))]
    except EmptyLanguageError:
        found = []
    assert list(map(repr, found)) == [repr(v) for v in values if validator.is_valid(v)]


def test_what_differs_for_readers_only_is_one_place() -> None:
    properties = {
        "a": {"type": "string", "title": "A", "examples": ["x"]},
        "b": {"type": "string"},
        "c": {"type": "integer"},
    }
    document = Document({"properties": properties})
    a, b, c = (document.child(document.root, "properties", name) for name in "abc")
    assert a is b
    assert a is not c


def test_the_order_of_properties_counts() -> None:
    """It decides how texts are written, though not which values are valid."""
    ab = {"properties": {"a": {"type": "null"}, "b": {"type": "null"}}}
    ba = {"properties": {"b": {"type": "null"}, "a": {"type": "null"}}}
    closed = {"type": "object", "required": ["a", "b"], "additionalProperties": False}
    both = json_schema({"type": "array", "prefixItems": [{**closed, **ab}, {**closed, **ba}]})
    assert both.matches('[{"a":null,"b":null},{"b":null,"a":null}]')
    assert not both.matches('[{"b":null,"a":null},{"b":null,"a":null}]')


def test_references_are_relative_to_their_resource() -> None:
    """The same words under two addresses refer to different schemas."""
    inside = {"properties": {"x": {"$ref": "#/$defs/value"}}, "required": ["x"]}
    schema = {
        "type": "array",
        "prefixItems": [
            {"$id": "https://example.com/a", "$defs": {"value": {"const": 1}}, **inside},
            {"$id": "https://example.com/b", "$defs": {"value": {"const": 2}}, **inside},
        ],
    }
    constraint, validator = json_schema(schema), Draft202012Validator(schema)
    for first, second in itertools.product((1, 2), repeat=2):
        value = [{"x": first}, {"x": second}]
        assert constraint.matches(json.dumps(value)) == validator.is_valid(value)


def test_what_is_lowered_is_reported_for_each_place() -> None:
    item = {"type": "object", "properties": {"x": {"type": "string", "maxLength": 500}}}
    noted = {**item, "description": "also here"}
    schema = {"properties": {"a": item, "b": noted, "c": {"type": "array", "items": item}}}
    with pytest.warns(LoweredBoundWarning):
        constraint = json_schema(schema, state_limit=4_000)
    lowered = {line.split(" ")[2] for line in constraint.dropped if line.startswith("maxLength")}
    places = ("a", "b", "c/items")
    assert lowered == {f"#/properties/{place}/properties/x/maxLength" for place in places}


def test_what_is_relaxed_is_reported_for_each_place() -> None:
    item = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    constraint = json_schema({"properties": {"a": item, "b": item}}, relax={"uniqueItems"})
    assert set(constraint.dropped) >= {
        "uniqueItems at #/properties/a/uniqueItems",
        "uniqueItems at #/properties/b/uniqueItems",
    }
    assert not constraint.check('{"b": ["x", "x"]}')


def test_annotations_change_no_automaton() -> None:
    plain = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    noted = {
        "title": "T",
        **plain,
        "properties": {
            "a": {"type": "string", "description": "d", "default": "x", "readOnly": True},
            "b": {"type": "string", "$comment": "c", "deprecated": True},
        },
    }
    first, second = (compile_expression(json_schema(s).expression) for s in (plain, noted))
    assert first.num_states == second.num_states
    assert first == second
