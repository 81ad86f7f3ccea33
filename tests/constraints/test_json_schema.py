"""Schemas against texts that they accept and reject, and the errors of those that cannot be."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pcgcd.constraints.json_schema import json_schema
from pcgcd.errors import (
    EmptyLanguageError,
    InvalidParameterError,
    PcgcdError,
    UnsupportedConstraintError,
)

A, B = {"const": "a"}, {"const": "b"}
OPEN = {"properties": {"a": {"type": "integer"}}, "required": ["a"]}
CLOSED = {"properties": {"a": {"type": "integer"}, "b": True}, "additionalProperties": False}
KINDS = ["null", "true", "1", '"a"', "[]", "{}"]

# Schema, texts that it accepts, texts that it rejects.
CASES = [
    ({}, [*KINDS, "-1.5e3", '[{"a": [1]}]'], ["", "nul", "01", "[1,]", "{a:1}", '"\n"', "1 "]),
    (True, KINDS, [""]),
    ({"type": "null"}, ["null"], KINDS[1:]),
    ({"type": ["boolean", "null"]}, ["true", "false", "null"], KINDS[2:]),
    ({"type": "integer"}, ["0", "-0", "-7", "12.0"], ["1.5", "01", "1e2", '"1"']),
    ({"enum": [1, "x", None, [1], {"k": True}]}, ["1", "1.0", '"x"', "null", "[1]"], ["2", "[]"]),
    ({"const": {"k": [1, 2]}}, ['{"k": [1, 2]}', '{"k":[1,2]}'], ['{"k": [2, 1]}', "{}"]),
    ({"not": {"type": "string"}}, ["1", "[]", "{}", "null"], ['"a"']),
    ({"not": {"const": 5}}, ["4", "6", "5.5", '"5"'], ["5", "5.0"]),
    ({"not": {"enum": [[1], {"a": 1}]}}, ["[2]", "[1, 1]", "[]", '{"a": 2}'], ["[1]", '{"a": 1}']),
    ({"not": OPEN}, ["{}", '{"a": "x"}'], ["1", '{"a": 1}', '{"a": 1, "b": 2}']),
    ({"not": CLOSED}, ['{"c": 1}', '{"a": "x"}', '{"a": 1, "c": 1}'], ["{}", '{"a": 1}']),
    (OPEN, ['{"a": 1}', '{"a": 1, "z": [2]}', "3"], ["{}", '{"a": "x"}', '{"a": 1, "a": 2}']),
    (CLOSED, ["{}", '{"a": 1, "b": 2}', '{"b": {}}'], ['{"c": 1}', '{"b": 1, "a": 2}']),
    (
        {"patternProperties": {"^n": {"type": "number"}, "s$": {"maxLength": 1}}},
        ['{"n": 1}', '{"xs": "a"}', '{"x": "long"}', '{"ns": 1}'],
        ['{"n": "x"}', '{"xs": "ab"}', '{"ns": "a"}'],
    ),
    (
        {"patternProperties": {"^n": True}, "additionalProperties": {"type": "null"}},
        ['{"n": 1}', '{"a": null, "nn": {}}'],
        ['{"a": 1}'],
    ),
    ({"propertyNames": {"maxLength": 2}}, ['{"ab": 1}', "{}"], ['{"abc": 1}']),
    ({"minProperties": 1}, ['{"a": 1}', '{"a": 1, "b": 1}'], ["{}"]),
    ({"maxProperties": 1}, ["{}", '{"a": 1}'], ['{"a": 1, "b": 1}']),
    (
        {"properties": {"a": {}, "b": {}, "c": {}}, "minProperties": 2, "maxProperties": 2},
        ['{"a": 1, "b": 1}', '{"b": 1, "c": 1}', '{"a": 1, "x": 1}'],
        ["{}", '{"a": 1}', '{"a": 1, "b": 1, "c": 1}'],
    ),
    (
        {"dependentRequired": {"a": ["b"]}},
        ["{}", '{"b": 1}', '{"a": 1, "b": 1}'],
        ['{"a": 1}', '{"a": 1, "c": 1}'],
    ),
    (
        {"dependentSchemas": {"a": {"properties": {"b": {"type": "null"}}}}},
        ['{"b": 1}', '{"b": null, "a": 1}', '{"a": 1}'],
        ['{"b": 1, "a": 1}'],
    ),
    ({"items": {"type": "integer"}}, ["[]", "[1, 2]", '"x"'], ['["x"]', "[1, null]"]),
    (
        {"prefixItems": [{"type": "null"}, {"type": "integer"}], "items": False},
        ["[]", "[null]", "[null, 1]"],
        ["[1]", "[null, 1, 2]"],
    ),
    ({"minItems": 1, "maxItems": 2}, ["[1]", "[1, 2]"], ["[]", "[1, 2, 3]"]),
    ({"contains": {"const": 1}}, ["[1]", "[0, 1, 1]"], ["[]", "[0]"]),
    (
        {"contains": {"type": "integer"}, "minContains": 2, "maxContains": 3},
        ["[1, 2]", '[1, "a", 2, 3]'],
        ["[1]", "[1, 2, 3, 4]"],
    ),
    ({"contains": {"const": 1}, "maxContains": 1}, ["[1]", "[2, 1]"], ["[1, 1]", "[2]"]),
    ({"not": {"items": {"const": 1}}}, ["[2]", "[1, 2]"], ["[]", "[1, 1]"]),
    (
        {"items": {"enum": ["a", "b", 1]}, "uniqueItems": True},
        ["[]", '["a", 1]', '[1, "b", "a"]'],
        ['["a", "a"]', "[1, 1.0]"],
    ),
    ({"items": {"type": "boolean"}, "uniqueItems": True}, ["[true, false]"], ["[true, true]"]),
    ({"uniqueItems": True, "maxItems": 1}, ["[]", '["x"]'], ['["x", "y"]']),
    (
        {"items": {"enum": [1, 2]}, "not": {"uniqueItems": True}, "type": "array"},
        ["[1, 1]", "[1, 2, 1]"],
        ["[1, 2]", "[]"],
    ),
    ({"anyOf": [{"minimum": 3}, {"type": "string"}]}, ["3", '"a"', "null"], ["2"]),
    (
        {"type": "integer", "oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]},
        ["2", "3", "9", "4"],
        ["6", "1", "12"],
    ),
    (
        {"oneOf": [{"properties": {"k": A}, "required": ["k"]}, {"required": ["l"]}]},
        ['{"k": "a"}', '{"l": 1}', '{"k": "b", "l": 1}'],
        ['{"k": "a", "l": 1}', "{}"],
    ),
    ({"allOf": [{"minimum": 3}, {"maximum": 5}, {"type": "integer"}]}, ["3", "5"], ["2", "6"]),
    (
        {"if": {"properties": {"k": A}}, "then": {"required": ["x"]}, "else": {"required": ["y"]}},
        ['{"k": "a", "x": 1}', '{"x": 1}', '{"k": "b", "y": 1}'],
        ['{"k": "a"}', '{"k": "b", "x": 1}'],
    ),
    (
        {"allOf": [{"properties": {"a": True}}], "unevaluatedProperties": False},
        ["{}", '{"a": 1}'],
        ['{"b": 1}'],
    ),
    (
        {
            "anyOf": [{"properties": {"a": A}, "required": ["a"]}, {"properties": {"b": B}}],
            "unevaluatedProperties": False,
        },
        ['{"a": "a"}', '{"b": "b"}', '{"a": "a", "b": "b"}'],
        ['{"a": "b"}', '{"c": 1}'],
    ),
    (
        {"prefixItems": [True], "unevaluatedItems": {"type": "null"}},
        ["[1]", "[1, null]"],
        ["[1, 2]"],
    ),
    ({"items": [{"type": "null"}], "additionalItems": False}, ["[null]"], ["[1]", "[null, 1]"]),
    (
        {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
        ['{"b": 1}'],
        ['{"a": 1}', '{"c": 1}'],
    ),
    ({"$ref": "#/$defs/x", "$defs": {"x": {"type": "null"}}}, ["null"], ["1"]),
    ({"$ref": "#x", "$defs": {"y": {"$anchor": "x", "type": "null"}}}, ["null"], ["1"]),
    ({"$ref": "t", "$defs": {"y": {"$id": "t", "type": "null"}}}, ["null"], ["1"]),
    ({"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"type": "null"}}}, ["null"], ["1"]),
    (
        {"properties": {"next": {"$ref": "#"}}, "additionalProperties": False, "type": "object"},
        ["{}", '{"next": {"next": {}}}'],
        ['{"next": 1}', '{"next": {"x": 1}}'],
    ),
    ({"x-unknown": 1, "title": "x", "type": "null"}, ["null"], ["1"]),
    ({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}, ["1"], ["1.0"]),
    (
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "minimum": 3,
            "exclusiveMinimum": True,
        },
        ["4", "3.5"],
        ["3", "2"],
    ),
]


@pytest.mark.parametrize(
    ("schema", "accepted", "rejected"), CASES, ids=[json.dumps(case[0])[:60] for case in CASES]
)
def test_schema_accepts_and_rejects(schema, accepted, rejected):
    constraint = json_schema(schema, open_objects=True)
    assert [text for text in accepted if not constraint.matches(text)] == []
    assert [text for text in rejected if constraint.matches(text)] == []


def test_a_schema_may_be_given_as_text():
    assert json_schema('{"type": "null"}').matches("null")
    with pytest.raises(InvalidParameterError, match="not JSON"):
        json_schema("{")


def test_order_of_the_schema_puts_other_names_last():
    schema = {"properties": {"b": {}, "a": {}}, "required": ["r"], "additionalProperties": True}
    constraint = json_schema(schema)
    assert constraint.matches('{"b": 1, "a": 1, "r": 1, "z": 1}')
    assert not constraint.matches('{"a": 1, "b": 1, "r": 1}')
    assert not constraint.matches('{"z": 1, "r": 1}')


def test_names_of_sub_schemas_follow_those_of_the_schema():
    constraint = json_schema({"allOf": [{"properties": {"x": {}}}], "properties": {"y": {}}})
    assert constraint.matches('{"y": 1, "x": 1}')
    assert not constraint.matches('{"x": 1, "y": 1}')


@pytest.mark.parametrize("additional", [False, {"type": "null"}])
def test_any_order_accepts_every_permutation(additional):
    schema = {
        "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}, "c": {}},
        "required": ["a", "b"],
        "additionalProperties": additional,
    }
    constraint = json_schema(schema, order="any")
    assert constraint.matches('{"c": [], "b": true, "a": 1}')
    assert constraint.matches('{"b": true, "a": 1}')
    assert not constraint.matches('{"b": true, "c": 1}')
    assert not constraint.matches('{"a": 1, "b": true, "a": 2}')
    assert constraint.matches('{"b": true, "z": null, "a": 1}') == (additional is not False)


def test_whitespace_conventions():
    schema = {"properties": {"a": {"items": {}}}, "type": "object"}
    value = {"a": [1, 2]}
    compact, spaced = json.dumps(value, separators=(",", ":")), json.dumps(value)
    indented = [json.dumps(value, indent=indent) for indent in (0, 1, 2, 3, 4, "\t")]
    wide = ['\n{ "a" :\t[1 ,\r2] } ', spaced + "\n", "\n" + spaced, '{"a":  [1, 2]}']
    everything = [compact, spaced, *indented, *wide]
    for whitespace, texts in (
        ("compact", [compact]),
        ("bounded", [compact, spaced, *indented]),
        ("free", everything),
    ):
        constraint = json_schema(schema, whitespace=whitespace)
        assert [text for text in everything if constraint.matches(text)] == texts


def test_recursion_ends_at_max_depth():
    tree = {"type": "array", "items": {"$ref": "#"}}
    constraint = json_schema(tree, max_depth=2)
    assert constraint.matches("[[[]]]")
    assert not constraint.matches("[[[[]]]]")


def test_free_values_end_at_free_depth():
    schema = {"properties": {"a": {}}, "additionalProperties": True}
    constraint = json_schema(schema, free_depth=1)
    assert constraint.matches('{"z": [1]}')
    assert not constraint.matches('{"z": [[1]]}')
    assert constraint.matches('{"a": [[1]]}')


def test_free_values_of_small_schemas_are_nested_deeper():
    deep = '{"z": {"y": [{"x": [1]}]}}'
    schema = {"properties": {"a": {}}, "additionalProperties": True}
    assert json_schema(schema).matches(deep)
    assert not json_schema(schema, free_depth=2).matches(deep)


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"properties": {"a": {}, "b": {"type": "object"}, "c": {"items": {"type": "string"}}}},
        {"anyOf": [{"type": "array"}, {"items": {"items": {"const": 1}}}, {"type": "object"}]},
        {"properties": {"a": {}}, "minProperties": 1},
        {"type": "array", "contains": {"const": 1}},
    ],
)
def test_nesting_deeper_gives_what_building_deeper_gives(schema):
    found = json_schema(schema, open_objects=True).automaton
    built = [
        json_schema(schema, open_objects=True, free_depth=depth).automaton for depth in (3, 4, 5, 6)
    ]
    expected = next(each for each in built if each.num_states == found.num_states)
    for name in ("source", "target", "label", "initial_mask", "accepting_mask"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("draft", ["draft-04", "draft-06", "draft-07", "2020-12"])
def test_what_stands_beside_a_reference_counts_as_in_jsonschema(draft):
    before = f"http://json-schema.org/{draft}/schema#"
    schema = {
        "$schema": before if "draft" in draft else f"https://json-schema.org/draft/{draft}/schema",
        "definitions": {"o": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        "properties": {"m": {"$ref": "#/definitions/o", "additionalProperties": False}},
    }
    kind = pytest.importorskip("jsonschema.validators").validator_for(schema)
    constraint, validator = json_schema(schema, open_objects=True), kind(schema)
    for value in ({"m": {"a": 1}}, {"m": {}}, {"m": 1}, {"m": {"a": "x"}}):
        assert constraint.matches(json.dumps(value)) == validator.is_valid(value)


def test_overlapping_alternatives_may_contain_the_whole():
    schema = {
        "$ref": "#/$defs/rule",
        "$defs": {
            "leaf": {"type": "object", "properties": {"in": {"$ref": "#/$defs/rule"}}},
            "node": {"$ref": "#/$defs/leaf", "required": ["in"]},
            "rule": {"oneOf": [{"$ref": "#/$defs/leaf"}, {"$ref": "#/$defs/node"}]},
        },
    }
    kind = pytest.importorskip("jsonschema.validators").validator_for(schema)
    constraint, validator = json_schema(schema, open_objects=True), kind(schema)
    for value in ({}, {"x": 1}, {"in": 1}, {"in": {}}, {"in": {"in": {}}}):
        assert constraint.matches(json.dumps(value)) == validator.is_valid(value)


def test_longer_strings_than_are_counted_are_left_out():
    constraint = json_schema({"type": "string", "maxLength": 1000}, max_length=10)
    assert constraint.matches(json.dumps("x" * 10))
    assert not constraint.matches(json.dumps("x" * 11))


UNSUPPORTED = [
    ({"properties": {"a": {"uniqueItems": True}}}, "uniqueItems.*#/properties/a/uniqueItems"),
    ({"items": {"pattern": "(a)\\1"}}, "pattern.*#/items/pattern"),
    ({"anyOf": [{"multipleOf": 1234567}]}, "multipleOf.*#/anyOf/0/multipleOf"),
    ({"$ref": "http://example.com/x"}, r"\$ref.*#/\$ref"),
    ({"not": {"format": "uri-reference"}}, "format.*#/not/format"),
    ({"not": {"properties": {"a": True}, "unevaluatedProperties": False}}, "#/not/unevaluated"),
    ({"minProperties": 4}, "4 properties"),
]


@pytest.mark.parametrize(("schema", "message"), UNSUPPORTED)
def test_what_cannot_be_honoured_is_named_with_its_place(schema, message):
    with pytest.raises(UnsupportedConstraintError, match=message):
        json_schema(schema)


@pytest.mark.parametrize(("schema", "message"), UNSUPPORTED)
def test_without_strictness_it_is_dropped_and_listed(schema, message):
    constraint = json_schema(schema, strict=False)
    assert " at #" in constraint.dropped[0]
    assert "nested to " not in constraint.dropped[0]
    assert any(constraint.matches(text) for text in KINDS)


def test_dropping_accepts_more_and_never_less():
    schema = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    constraint = json_schema(schema, strict=False)
    assert constraint.matches('["a", "a"]')
    assert not constraint.matches("[1]")
    assert constraint.dropped == ("uniqueItems at #/uniqueItems",)


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "strin"}, "#/type"),
        ({"properties": {"a": {"minLength": -1}}}, "#/properties/a/minLength"),
        ({"properties": 3}, "#/properties"),
        ({"properties": {"a": 3}}, "#/properties/a"),
        ({"required": "a"}, "#/required"),
        ({"enum": 1}, "#/enum"),
        ({"anyOf": []}, "#/anyOf"),
        ({"$ref": "#/$defs/x"}, r"#/\$ref"),
        ({"minimum": "1"}, "#/minimum"),
        ({"multipleOf": 0}, "#/multipleOf"),
        ({"uniqueItems": 1}, "#/uniqueItems"),
        ({"pattern": 1}, "#/pattern"),
        ({"prefixItems": {}}, "#/prefixItems"),
    ],
)
def test_broken_schemas_are_errors_that_name_the_place(schema, place):
    with pytest.raises(InvalidParameterError, match=place):
        json_schema(schema)


@pytest.mark.parametrize("schema", [3, None, [], "3", {1: 2}])
def test_what_is_no_schema_is_an_error(schema):
    with pytest.raises(InvalidParameterError):
        json_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"enum": []},
        {"type": "integer", "minimum": 3, "maximum": 2},
        {"type": "string", "minLength": 2, "maxLength": 1},
        {"type": "object", "required": ["a"], "properties": {"a": False}},
        {"allOf": [{"type": "string"}, {"type": "null"}]},
        {"const": 1, "enum": [2]},
        {"type": "array", "minItems": 1, "items": False},
        {"$ref": "#/$defs/x", "$defs": {"x": {"not": {}}}},
        {"type": "string", "pattern": "^a$", "minLength": 500},
    ],
)
def test_unsatisfiable_schemas_have_an_empty_language(schema):
    with pytest.raises(EmptyLanguageError):
        json_schema(schema)


def _nested(levels, wrap):
    schema = {}
    for _ in range(levels):
        schema = wrap(schema)
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        _nested(3000, lambda s: {"items": s}),
        _nested(3000, lambda s: {"allOf": [s]}),
        _nested(3000, lambda s: {"not": s}),
        _nested(90, lambda s: {"properties": {"a": s}, "type": "object"}),
        {"$ref": "#"},
        {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {
            "$ref": "#/$defs/0",
            "$defs": {str(i): {"items": {"$ref": f"#/$defs/{i + 1}"}} for i in range(3000)},
        },
        {
            "$ref": "#/$defs/0",
            "$defs": {str(i): {"allOf": [{"$ref": f"#/$defs/{i + 1}"}]} for i in range(3000)},
        },
        {"allOf": [{"anyOf": [{"minLength": i}, {"required": [str(i)]}]} for i in range(40)]},
        {"properties": {str(i): {"maxLength": 60000} for i in range(3000)}},
        {"type": "string", "minLength": 10**9},
        {"items": {}, "minItems": 10**9, "type": "array"},
        {"pattern": "(" * 3000 + ")" * 3000},
        {"pattern": "((a{1000}){1000}){1000}"},
        {"minimum": 10**5000},
    ],
)
def test_hopeless_schemas_end_in_one_of_our_errors(schema):
    with pytest.raises(PcgcdError):
        json_schema(schema).matches("0")


def test_options_are_checked():
    for options in ({"order": "x"}, {"whitespace": "x"}, {"max_depth": -1}, {"max_length": 1.5}):
        with pytest.raises(InvalidParameterError):
            json_schema({}, **options)
