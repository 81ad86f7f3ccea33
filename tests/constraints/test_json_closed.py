"""Objects whose properties are named have no others; ``jsonschema`` judges what is valid.

A closed schema accepts a part of what the standard does. In plain cases it is the part that
``unevaluatedProperties: false`` leaves.
"""

from __future__ import annotations

import itertools
import json
from itertools import islice
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft7Validator, Draft202012Validator

from pcgcd.constraints import Constraint, constraint_of, function_call, json_schema
from pcgcd.constraints.json_schema.checking import satisfies
from pcgcd.constraints.json_schema.document import Document
from pcgcd.constraints.json_schema.formulas import holds
from pcgcd.constraints.json_schema.reading import Reader
from pcgcd.errors import AutomatonTooLargeError, EmptyLanguageError, UnsupportedConstraintError
from tests.constraints.json_fuzzing import PlainSchemaMaker, SchemaMaker, constants_of, texts_of
from tests.constraints.json_walks import random_text
from tests.constraints.test_json_random import finite, is_fine, oracle
from tests.constraints.test_json_schema import CASES

INTEGER, TEXT = {"type": "integer"}, {"type": "string"}
NAMES = ("a", "b", "c", "x")
OBJECTS = [
    dict(zip(names, values))
    for size in range(5)
    for names in itertools.combinations(NAMES, size)
    for values in itertools.product((1, "s"), repeat=size)
]


def named(*names: str, **keywords: Any) -> dict[str, Any]:
    """An object that names integers."""
    return {"type": "object", "properties": dict.fromkeys(names, INTEGER), **keywords}


def accepts(constraint: Constraint, value: Any) -> bool:
    """Whether some text of a value is accepted; the checker of whole texts must agree."""
    found = any(map(constraint.matches, texts_of(value)))
    assert found == any(map(constraint.check, texts_of(value)))
    return found


# -- laws -----------------------------------------------------------------------------------------


def built(schema: Any, **options: Any) -> Constraint | None:
    """The constraint; None if no text satisfies it, or it cannot be built."""
    try:
        constraint = json_schema(schema, **options)
        return None if constraint.automaton.is_empty() else constraint
    except (EmptyLanguageError, UnsupportedConstraintError, AutomatonTooLargeError):
        return None


def check(maker: SchemaMaker, seed: int) -> bool:
    """Check a random schema; whether an object was closed."""
    schema = maker.schema(maker.rng.choice([1, 2, 2, 3]))
    closed, opened = built(schema), built(schema, open_objects=True)
    assert closed is not None or opened is None, (seed, schema)
    if closed is None:
        return False
    validator, words = oracle(schema), []
    reader = Reader(Document(schema, closed=True))
    for i in range(6):
        text = random_text(closed, 10 * seed + i)
        words.append(finite(text))
        value = json.loads(text)
        if "Infinity" not in json.dumps(value):
            assert validator.is_valid(value), (seed, schema, text)
    known = [*constants_of(schema)]
    near = [maker.mutated(maker.rng.choice([*words, *known])) for _ in range(4)]
    for value in (*known[:8], *near, *words):
        accepted = any(map(closed.matches, islice(texts_of(value), 300)))
        right = satisfies(reader, holds(reader.document.root), value)
        exact = all("nested" in line or "closed" in line for line in closed.dropped)
        assert accepted <= right, (seed, schema, value)
        assert accepted == right or not exact or is_fine(schema, value), (seed, schema, value)
        assert right <= validator.is_valid(value), (seed, schema, value)
    return any(line.startswith("closed object") for line in closed.dropped)


@pytest.mark.parametrize("chunk", range(4))
def test_what_a_closed_schema_accepts_is_valid_and_never_nothing(chunk: int) -> None:
    seeds = range(40 * chunk, 40 * (chunk + 1))
    assert sum(check(PlainSchemaMaker(seed), seed) for seed in seeds) > 3
    for seed in seeds:
        check(SchemaMaker(seed), seed)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(20))
def test_what_thousands_of_closed_schemas_accept_is_valid(chunk: int) -> None:
    seeds = range(1000 + 200 * chunk, 1200 + 200 * chunk)
    assert sum(check(PlainSchemaMaker(seed), seed) for seed in seeds) > 10


@pytest.mark.parametrize("schema", [schema for schema, *_ in CASES], ids=str)
def test_no_schema_becomes_empty(schema: Any) -> None:
    assert (built(schema) is None) == (built(schema, open_objects=True) is None)


# -- what is closed -------------------------------------------------------------------------------

SEVERAL: list[Any] = [
    named("a"),
    named("a", required=["a"]),
    {"allOf": [named("a"), named("b")]},
    {"allOf": [named("a"), {"allOf": [named("b"), named("c")]}]},
    named("a", **{"$ref": "#/$defs/d", "$defs": {"d": named("b")}}),
    {"$ref": "#/$defs/d", "$defs": {"d": named("b", allOf=[named("a")])}},
    named("a", allOf=[{"required": ["a"]}]),
    named("a", anyOf=[named("b"), named("c")]),
    named("a", anyOf=[named("b", required=["b"]), named("c", required=["c"]), {"required": ["a"]}]),
    named("a", "b", anyOf=[{"required": ["a"]}, {"required": ["b"]}]),
    named("a", anyOf=[{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/c"}])
    | {"$defs": {"b": named("b"), "c": named("c")}},
    named("a", oneOf=[named("b", required=["b"]), named("c", required=["c"])]),
    named("a", **{"if": {"required": ["a"]}, "then": named("b"), "else": named("c")}),
    named("a", dependentSchemas={"a": named("b")}),
    named("a", dependentRequired={"a": ["b"]}, allOf=[named("b")]),
    {"type": "object", "allOf": [named("a", additionalProperties=False)], "maxProperties": 1},
    named("a", **{"not": {"required": ["a"]}}),
    named("a", **{"not": named("b", required=["b"])}, allOf=[named("b")]),
    {"properties": {"a": INTEGER}},
]


@pytest.mark.parametrize("schema", SEVERAL, ids=json.dumps)
def test_names_that_are_evaluated_in_place_are_all_that_there_are(schema: Any) -> None:
    constraint = json_schema(schema)
    validator = Draft202012Validator({**schema, "unevaluatedProperties": False})
    for value in OBJECTS:
        assert accepts(constraint, value) == validator.is_valid(value), value


def test_alternatives_are_closed_each_by_itself() -> None:
    either = json_schema({"anyOf": [named("a"), named("b", "c")]})
    assert [value for value in ({"a": 1}, {"b": 1, "c": 1}, {}) if not accepts(either, value)] == []
    assert [value for value in ({"a": 1, "b": 1}, {"x": 1}) if accepts(either, value)] == []
    kinds = [named("a", required=["a"]), named("b", required=["b"])]
    one = json_schema({"oneOf": kinds})
    assert accepts(one, {"a": 1})
    assert accepts(one, {"b": 1})
    assert not accepts(one, {"a": 1, "b": "s"})
    beside = json_schema({"$defs": {"base": named("a")}, "$ref": "#/$defs/base", "anyOf": kinds})
    assert accepts(beside, {"a": 1, "b": 1})


def test_objects_inside_are_closed_too() -> None:
    inner = named("x")
    schema = {
        "type": "object",
        "properties": {"one": inner, "list": {"type": "array", "items": inner}},
    }
    constraint = json_schema(schema)
    assert constraint.matches('{"one": {"x": 1}, "list": [{"x": 1}, {}]}')
    for text in ('{"one": {"y": 1}}', '{"list": [{"x": 1}, {"y": 1}]}', '{"y": 1}'):
        assert not constraint.matches(text), text
        assert json_schema(schema, open_objects=True).matches(text), text


def test_two_descriptions_of_one_value_are_one_object() -> None:
    parts = [{"properties": {"in": named("a")}}, {"properties": {"in": named("b")}}]
    constraint = json_schema({"type": "object", "allOf": parts})
    assert constraint.matches('{"in": {"a": 1, "b": 2}}')
    assert not constraint.matches('{"in": {"a": 1, "c": 2}}')


def test_required_names_count_as_named() -> None:
    constraint = json_schema(named("a", required=["b"]))
    assert constraint.matches('{"a": 1, "b": [null]}')
    assert not constraint.matches('{"a": 1}')
    assert not constraint.matches('{"b": 1, "c": 1}')
    needed = json_schema(named("a", dependentRequired={"a": ["b"]}))
    assert needed.matches('{"a": 1, "b": 1}')
    assert not needed.matches('{"b": 1}')


def test_names_that_only_a_condition_requires_count_where_nothing_else_is_left() -> None:
    """Each of two alternatives is met by what the other is not, so a wrong value is needed."""
    overlapping = json_schema({"oneOf": [named("a"), named("b")]})
    assert overlapping.matches('{"a": 1, "b": "s"}')
    assert not overlapping.matches('{"a": 1, "b": "s", "x": 1}')
    assert not overlapping.matches('{"a": 1}')
    kinds = [named("a", required=["a"]), named("b", required=["b"])]
    assert not json_schema({"oneOf": kinds}).matches('{"a": 1, "b": "s"}')


def test_a_reference_up_to_draft_7_stands_alone() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"d": named("a")},
        "$ref": "#/definitions/d",
        "properties": {"b": INTEGER},
    }
    constraint, validator = json_schema(schema), Draft7Validator(schema)
    assert constraint.matches('{"a": 1}')
    assert not constraint.matches('{"b": 1}')
    assert validator.is_valid({"b": 1})


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": "object"},
        {"type": "object", "properties": {}},
        {"type": "object", "required": ["a"]},
        named("a", additionalProperties=True),
        named("a", additionalProperties=TEXT),
        named("a", patternProperties={"^z": TEXT}),
        named("a", unevaluatedProperties=True),
        named("a", propertyNames={"maxLength": 3}),
        {"allOf": [named("a"), {"additionalProperties": True}]},
        {"allOf": [named("a"), {"propertyNames": {"maxLength": 3}}]},
        {"not": named("a", required=["a"])},
        {"not": {"not": named("a")}},
        {"if": named("a", required=["a"]), "then": True, "else": True},
        {"type": "object", "not": {"properties": {"in": {"not": named("a")}}}},
        {"properties": {"in": {"type": "object"}}, "if": {"properties": {"in": named("a")}}},
    ],
    ids=json.dumps,
)
def test_whatever_says_something_of_others_or_names_none_is_open(schema: Any) -> None:
    values = [{"zzz": "s"}, {"a": 1, "zzz": "s"}, {"in": {"zzz": "s"}}]
    valid = [value for value in values if Draft202012Validator(schema).is_valid(value)]
    constraint = json_schema(schema)
    assert valid
    if isinstance(schema, dict) and "if" in schema and "in" in schema.get("properties", {}):
        valid.remove({"zzz": "s"})
        valid.remove({"a": 1, "zzz": "s"})
    assert [value for value in valid if not accepts(constraint, value)] == []


def test_conditions_on_values_inside_are_open() -> None:
    """Neither what is excluded, nor a condition, nor what is contained is a description."""
    schema = {
        "properties": {"in": {"type": "object"}, "list": {"type": "array"}},
        "if": {"properties": {"in": named("a", required=["a"])}, "required": ["in"]},
        "then": {"properties": {"list": {"contains": named("a", required=["a"])}}},
    }
    constraint, validator = json_schema(schema), Draft202012Validator(schema)
    for inner, items in itertools.product(({"a": 1, "z": 1}, {"z": 1}), ([{"a": 1, "z": 1}], [])):
        value = {"in": inner, "list": items}
        assert accepts(constraint, value) == validator.is_valid(value), value


def test_no_more_items_are_counted_than_satisfy_what_is_contained() -> None:
    schema = {"type": "array", "contains": named("a", required=["a"]), "maxContains": 1}
    constraint, validator = json_schema(schema), Draft202012Validator(schema)
    items: list[Any] = [{"a": 1}, {"a": 1, "z": 1}, {"z": 1}]
    for value in itertools.product(items, repeat=2):
        assert accepts(constraint, list(value)) == validator.is_valid(list(value)), value


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (named("a", minProperties=2), {"a": 1, "x": 1}),
        ({"properties": {"a": False, "b": INTEGER}, "minProperties": 2}, {"b": 1, "x": 1}),
        (
            named("a", **{"not": {"properties": {"a": True}, "additionalProperties": False}}),
            {"x": 1},
        ),
    ],
    ids=str,
)
def test_an_object_that_could_not_be_closed_stays_open(schema: Any, value: Any) -> None:
    constraint = json_schema(schema)
    assert Draft202012Validator(schema).is_valid(value)
    assert accepts(constraint, value)
    assert not any(line.startswith("closed") for line in constraint.dropped)


def test_what_is_closed_is_what_additional_properties_would_close() -> None:
    """No more states and no other texts than where the schema says so."""
    inner = {"properties": {"x": TEXT, "y": INTEGER}, "required": ["y"], "type": "object"}
    plain = {"type": "object", "properties": {"a": inner, "b": INTEGER}, "required": ["b"]}
    said: dict[str, Any] = {
        **plain,
        "properties": {"a": {**inner, "additionalProperties": False}, "b": INTEGER},
        "additionalProperties": False,
    }
    found, expected = json_schema(plain).automaton, json_schema(said).automaton
    for name in ("source", "target", "label", "initial_mask", "accepting_mask"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


# -- what is reported -----------------------------------------------------------------------------


def test_closed_objects_are_listed() -> None:
    schema = named("a", allOf=[{"properties": {"in": named("b")}}])
    assert json_schema(schema).dropped == (
        "closed object at #",
        "closed object at #/allOf/0/properties/in",
    )
    assert json_schema({**schema, "additionalProperties": True}).dropped[-1:] == (
        "closed object at #/allOf/0/properties/in",
    )
    assert not [line for line in json_schema(schema, open_objects=True).dropped if "closed" in line]


def test_many_closed_objects_are_one_line() -> None:
    def lines(count: int) -> tuple[str, ...]:
        inner = {f"p{i}": named(f"q{i}") for i in range(count)}
        return json_schema({"type": "object", "properties": inner}).dropped

    assert len(lines(9)) == 10
    assert lines(10) == ("closed object at # and 10 other places",)


def test_equal_objects_are_listed_at_each_place() -> None:
    schema = {"type": "object", "properties": {"a": named("x"), "b": named("x")}}
    places = {line.removeprefix("closed object at ") for line in json_schema(schema).dropped}
    assert places == {"#", "#/properties/a", "#/properties/b"}


def test_what_is_closed_is_also_checked_where_something_is_relaxed() -> None:
    schema = named("a")
    schema["properties"]["list"] = {"type": "array", "items": TEXT, "uniqueItems": True}
    constraint = json_schema(schema, relax={"uniqueItems"})
    assert constraint.check('{"a": 1, "list": ["s"]}')
    assert not constraint.check('{"a": 1, "list": ["s", "s"]}')
    assert not constraint.check('{"a": 1, "x": 1}')


# -- where schemas come from ----------------------------------------------------------------------


def test_response_formats_are_closed() -> None:
    schema = named("a")
    for asked in (schema, {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}):
        constraint = constraint_of(asked)
        assert constraint.matches('{"a": 1}')
        assert not constraint.matches('{"a": 1, "x": 1}')
    assert constraint_of({"type": "json_object"}).matches('{"a": 1, "x": 1}')


def call(arguments: Any) -> str:
    return json.dumps({"name": "f", "arguments": arguments})


@pytest.mark.parametrize("style", ["json", "python"])
def test_arguments_are_closed_as_other_objects_are(style: Any) -> None:
    parameters = {"type": "object", "allOf": [named("a"), {"properties": {"inner": named("b")}}]}
    tool = {"name": "f", "parameters": parameters}
    calls = function_call([tool], style=style)
    good, bad = {"a": 1, "inner": {"b": 1}}, {"a": 1, "inner": {"b": 1, "x": 1}}
    for arguments, right in ((good, True), ({**good, "x": 1}, False), (bad, False)):
        python = ", ".join(f"{name}={value}" for name, value in arguments.items())
        text = call(arguments) if style == "json" else f"f({python})"
        assert calls.matches(text) == right, text
    assert any(line.startswith("closed object at ") for line in calls.dropped)


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "f"},
        {"name": "f", "parameters": None},
        {"name": "f", "parameters": {}},
        {"name": "f", "parameters": {"type": "object"}},
        {"name": "f", "parameters": {"type": "object", "properties": {}, "required": []}},
        {"name": "f", "inputSchema": {"type": "object", "description": "Nothing."}},
        {"name": "f", "input_schema": {"type": "object", "$schema": "x"}},
    ],
    ids=str,
)
def test_a_tool_that_describes_no_arguments_takes_none(tool: Any) -> None:
    calls = function_call([tool])
    assert calls.matches(call({}))
    assert not calls.matches(call({"x": 1}))
    assert calls.dropped == ()
    assert function_call([tool], style="python").matches("f()")


@pytest.mark.parametrize(
    "more",
    [
        {"additionalProperties": True},
        {"additionalProperties": INTEGER},
        {"patternProperties": {"^x": INTEGER}},
        {"propertyNames": {"maxLength": 1}},
        {"minProperties": 1},
    ],
    ids=str,
)
def test_a_tool_that_allows_arguments_takes_them(more: Any) -> None:
    tool = {"name": "f", "parameters": {"type": "object", **more}}
    assert function_call([tool]).matches(call({"x": 1}))
