"""Bounds of a schema are kept, or lowered as little as possible and reported."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

from pcgcd.automata import compile_expression
from pcgcd.automata.expressions import Expression
from pcgcd.constraints import function_call, json_schema
from pcgcd.constraints.json_schema.building import Builder, Style
from pcgcd.constraints.json_schema.document import Document
from pcgcd.constraints.json_schema.formulas import holds
from pcgcd.constraints.json_schema.layout import make_layout
from pcgcd.constraints.json_schema.limits import Limits, largest
from pcgcd.constraints.json_schema.reading import Reader
from pcgcd.errors import AutomatonTooLargeError, InvalidParameterError, LoweredBoundWarning


def strings(count: int, length: int) -> dict[str, Any]:
    names = [f"k{i}" for i in range(count)]
    return {
        "type": "object",
        "properties": {name: {"type": "string", "maxLength": length} for name in names},
        "required": names,
        "additionalProperties": False,
    }


def strings_text(count: int, length: int) -> str:
    return json.dumps({f"k{i}": "x" * length for i in range(count)})


ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "customer": {"type": "string", "maxLength": 100},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}},
                "required": ["sku", "count"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["id", "customer", "lines"],
    "additionalProperties": False,
}


def without_escapes(count: int) -> tuple[str, ...]:
    return tuple(f"escapes by number at #/properties/k{k}" for k in range(count))


def test_ten_strings_of_500_keep_their_bounds() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        constraint = json_schema(strings(10, 500))
    assert constraint.dropped == without_escapes(10)
    assert constraint.matches(strings_text(10, 500))
    assert not constraint.matches(strings_text(10, 501))


def test_a_hundred_strings_of_255_keep_their_bounds() -> None:
    constraint = json_schema(strings(100, 255))
    assert constraint.dropped == without_escapes(100)
    assert constraint.matches(strings_text(100, 255))
    assert not constraint.matches(strings_text(100, 256))


def test_a_list_of_twenty_orders_keeps_its_bound() -> None:
    constraint = json_schema({"type": "array", "items": ORDER, "maxItems": 20})
    order = {"id": 7, "customer": "x" * 100, "lines": [{"sku": "a", "count": 1}] * 3}
    assert constraint.dropped == ()
    assert constraint.matches(json.dumps([order] * 20))
    assert not constraint.matches(json.dumps([order] * 21))


def test_only_the_largest_bounds_are_lowered_and_each_is_reported() -> None:
    schema = strings(3, 40)
    schema["properties"]["k1"]["maxLength"] = 5_000
    with pytest.warns(LoweredBoundWarning, match=r"#/properties/k1.*state_limit") as caught:
        constraint = json_schema(schema, state_limit=20_000)
    assert [warning.filename for warning in caught] == [__file__]
    line, *escapes = constraint.dropped
    assert sorted(escapes) == list(without_escapes(3))
    words = line.split()
    assert words[:6] == ["maxLength", "at", "#/properties/k1/maxLength", "lowered", "from", "5,000"]
    lowered = int(words[-1].replace(",", ""))
    assert 1_000 < lowered < 5_000
    assert constraint.automaton.num_states <= 20_000
    for length in (lowered, lowered + 1):
        text = json.dumps({"k0": "x" * 40, "k1": "x" * length, "k2": ""})
        assert constraint.matches(text) == (length == lowered)


def test_a_lowered_number_of_items_is_reported_with_its_place() -> None:
    schema = {"properties": {"a": {"type": "array", "items": ORDER, "maxItems": 90}}}
    with pytest.warns(LoweredBoundWarning, match="maxItems at #/properties/a/maxItems"):
        constraint = json_schema(schema, state_limit=60_000)
    used = int(constraint.dropped[0].split()[-1])
    order = {"id": 7, "customer": "x", "lines": []}
    assert constraint.matches(json.dumps({"a": [order] * used}))
    assert not constraint.matches(json.dumps({"a": [order] * (used + 1)}))


def test_a_length_that_was_asked_for_is_listed_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        constraint = json_schema({"type": "string", "maxLength": 1000}, max_length=10)
    assert constraint.dropped == ("maxLength at #/maxLength lowered from 1,000 to 10",)


def test_calls_report_lowered_bounds_too() -> None:
    tool = {"name": "f", "parameters": strings(2, 100_000)}
    with pytest.warns(LoweredBoundWarning, match="maxLength"):
        call = function_call([tool])
    assert ["lowered" in line for line in call.dropped] == [True, True, False, False]


@pytest.mark.parametrize(
    ("schema", "text", "longer"),
    [
        (
            {"type": "array", "items": {"type": "integer"}, "maxItems": 5_000},
            json.dumps([7] * 5_000),
            json.dumps([7] * 5_001),
        ),
        (
            {
                "type": "array",
                "items": {"type": "array", "items": {"type": "string", "maxLength": 1_000}},
                "maxItems": 20,
            },
            json.dumps([["x" * 1_000]] * 20),
            json.dumps([[]] * 21),
        ),
        (
            {"additionalProperties": {"type": "integer"}, "maxProperties": 900},
            json.dumps({f"k{k}": k for k in range(900)}),
            json.dumps({f"k{k}": k for k in range(901)}),
        ),
    ],
    ids=["numbers", "strings", "properties"],
)
def test_counts_are_kept_as_far_as_the_limit_of_states_goes(
    schema: Any, text: str, longer: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        constraint = json_schema(schema)
    assert not [line for line in constraint.dropped if "lowered" in line]
    assert constraint.automaton.num_states <= 250_000
    assert constraint.matches(text)
    assert not constraint.matches(longer)


@pytest.mark.parametrize("length", [32, 2_857, 2_858, 4_000])
def test_strings_without_escapes_by_number_are_listed(length: int) -> None:
    properties = {"a": {"type": "string", "maxLength": length}}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    constraint = json_schema(schema)
    is_escaped = constraint.matches(r'{"a": "caf\u00e9"}')
    assert constraint.dropped == (() if is_escaped else ("escapes by number at #/properties/a",))
    assert is_escaped == (length <= 2_857)
    assert constraint.matches('{"a": "café\\n\\""}')


def test_what_is_too_large_recommends_options_that_exist() -> None:
    schema = {"type": "array", "items": ORDER, "minItems": 2_000}
    with pytest.raises(AutomatonTooLargeError, match="state_limit"):
        json_schema(schema)
    left_out = json_schema(schema, state_limit=4_000_000).dropped
    assert left_out == ("escapes by number at #/items/properties/customer",)
    with pytest.raises(InvalidParameterError, match="state_limit"):
        json_schema(schema, state_limit=0)


def test_the_limit_of_states_follows_a_constraint_into_others() -> None:
    larger = json_schema(strings(2, 3), state_limit=1_000_000)
    assert (larger + "x").state_limit == ("x" + larger).state_limit == 1_000_000
    assert larger.star().state_limit == 1_000_000


EVERYTHING_THAT_CAN_BE_LOWERED = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "maxLength": 200},
        "items": {"type": "array", "items": {"const": 1}, "maxItems": 90},
        "names": {"type": "object", "additionalProperties": {"const": 1}, "maxProperties": 80},
        "tree": {"$ref": "#/$defs/tree"},
        "free": {},
    },
    "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
}


def nested(depth: int) -> list[Any]:
    return [nested(depth - 1)] if depth > 1 else []


LARGEST = {
    "maxLength": {"text": "a" * 200},
    "maxItems": {"items": [1] * 90},
    "maxProperties": {"names": {f"n{i}": 1 for i in range(80)}},
    "max_depth": {"tree": nested(6)},
    "free_depth": {"free": nested(3), "other": nested(2)},
}


@pytest.mark.parametrize("retries", range(9))
def test_nothing_is_lowered_in_silence_however_often_building_is_tried(retries: int) -> None:
    """A build that is too large again and again: what is refused in the end has been reported."""
    reader = Reader(Document(EVERYTHING_THAT_CAN_BE_LOWERED))
    style = Style(make_layout("bounded"), "schema")
    tried: list[Style] = []

    def build(builder: Builder) -> Expression:
        tried.append(builder.style)
        narrow = len(tried) == 3
        if len(tried) <= retries and not narrow:
            raise AutomatonTooLargeError("for the test")
        return builder.value(holds(reader.document.root), builder.style.max_depth)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        automaton = compile_expression(largest(reader, style, Limits(), build))
    refused = {
        name for name, value in LARGEST.items() if not automaton.accepts(json.dumps(value).encode())
    }
    reported = {line.split(" ")[0] for line in reader.dropped if "lowered from" in line}
    assert refused == reported
    assert [warning.category for warning in caught] == [LoweredBoundWarning] * bool(refused)
    assert len(set(tried)) == len(tried)
    assert refused or retries < 2


def test_what_is_too_large_in_the_narrowest_limits_is_not_tried_in_others() -> None:
    reader, tried = Reader(Document(EVERYTHING_THAT_CAN_BE_LOWERED)), []

    def build(builder: Builder) -> Expression:
        tried.append(builder.style)
        raise AutomatonTooLargeError(f"attempt {len(tried)}")

    with pytest.raises(AutomatonTooLargeError, match="attempt 3"):
        largest(reader, Style(make_layout("bounded")), Limits(), build)
    assert [style.max_depth for style in tried] == [6, 6, 2]


def test_limits_that_would_change_nothing_are_not_tried() -> None:
    reader, depths = Reader(Document({"type": "array", "items": {"$ref": "#"}})), []

    def build(builder: Builder) -> Expression:
        depths.append(builder.style.max_depth)
        if len(depths) in (3, 5):  # the narrowest, and the last of the others
            return builder.value(holds(reader.document.root), builder.style.max_depth)
        raise AutomatonTooLargeError("for the test")

    with pytest.warns(LoweredBoundWarning, match="max_depth lowered from 6 to 3"):
        largest(reader, Style(make_layout("bounded")), Limits(), build)
    assert depths == [6, 6, 2, 4, 3]


# -- depths -------------------------------------------------------------------------------------


def levels(line: str) -> int:
    return int(line.split(" levels at ")[0].split()[-1])


TREE = {"type": "array", "items": {"$ref": "#/$defs/tree"}}
NODE = {
    "type": "object",
    "properties": {"next": {"$ref": "#/$defs/node"}},
    "additionalProperties": False,
}


def nested_objects(depth: int, name: str) -> dict[str, Any]:
    return {name: nested_objects(depth - 1, name)} if depth > 1 else {}


@pytest.mark.parametrize("options", [{}, {"max_depth": 0}, {"max_depth": 3}])
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$ref": "#/$defs/tree", "$defs": {"tree": TREE}}, nested),
        (
            {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
            lambda depth: nested_objects(depth, "next"),
        ),
    ],
    ids=["arrays", "objects"],
)
def test_schemas_that_contain_themselves_are_nested_as_deep_as_reported(
    schema: Any, value: Any, options: Any
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        constraint = json_schema(schema, **options)
    (line,) = constraint.dropped
    assert line == f"nested to {levels(line)} levels at #"
    assert constraint.matches(json.dumps(value(levels(line))))
    assert not constraint.matches(json.dumps(value(levels(line) + 1)))


@pytest.mark.parametrize("options", [{}, {"free_depth": 0}, {"free_depth": 1}])
def test_free_values_are_nested_as_deep_as_reported(options: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"free": {}, "list": {"type": "array"}, "text": {"type": "string"}},
        "additionalProperties": True,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        constraint = json_schema(schema, **options)
    depths = {line.split(" nested to ")[0]: levels(line) for line in constraint.dropped}
    assert {line.split(" levels at ")[1] for line in constraint.dropped} == {
        "#",
        "#/properties/list",
    }
    free, other = depths["free values"], depths["other properties"]
    for name, most in (("free", free), ("other", other)):
        assert constraint.matches(json.dumps({name: nested(most) if most else 1}))
        assert not constraint.matches(json.dumps({name: nested(most + 1)}))
    assert constraint.matches(json.dumps({"list": nested(free + 1)}))
    assert not constraint.matches(json.dumps({"list": nested(free + 2)}))


def test_nothing_is_reported_where_nothing_is_cut() -> None:
    inner = {"type": "array", "items": {"$ref": "#/$defs/x"}, "maxItems": 3}
    schema = {
        "type": "object",
        "properties": {"a": inner, "b": {"anyOf": [inner, {"enum": [1, [2]]}]}},
        "additionalProperties": False,
        "$defs": {"x": {"type": ["string", "integer", "null"]}, "unused": {"items": {"$ref": "#"}}},
    }
    assert json_schema(schema).dropped == ()


def test_many_places_of_free_values_are_one_line() -> None:
    schema = {"type": "object", "properties": {f"p{i}": {"minItems": i} for i in range(12)}}
    lines = json_schema({**schema, "additionalProperties": False}).dropped
    assert len(lines) == 1
    assert lines[0].endswith(" levels at #/properties/p0 and 11 other places")


def test_recursive_arguments_are_reported_too() -> None:
    parameters = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/tree"}},
        "$defs": {"tree": TREE},
        "additionalProperties": False,
    }
    (line,) = function_call([{"name": "f", "parameters": parameters}]).dropped
    assert line.startswith("nested to 7 levels at #")
