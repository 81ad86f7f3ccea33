"""Bounds of a schema are kept, or lowered as little as possible and reported."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

from pcgcd.constraints import function_call, json_schema
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


def test_ten_strings_of_500_keep_their_bounds() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        constraint = json_schema(strings(10, 500))
    assert constraint.dropped == ()
    assert constraint.matches(strings_text(10, 500))
    assert not constraint.matches(strings_text(10, 501))


def test_a_hundred_strings_of_255_keep_their_bounds() -> None:
    constraint = json_schema(strings(100, 255))
    assert constraint.dropped == ()
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
    (line,) = constraint.dropped
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
    assert len(call.dropped) == 2


def test_what_is_too_large_recommends_options_that_exist() -> None:
    schema = {"type": "array", "items": ORDER, "minItems": 2_000}
    with pytest.raises(AutomatonTooLargeError, match="state_limit"):
        json_schema(schema)
    assert json_schema(schema, state_limit=4_000_000).dropped == ()
    with pytest.raises(InvalidParameterError, match="state_limit"):
        json_schema(schema, state_limit=0)


def test_the_limit_of_states_follows_a_constraint_into_others() -> None:
    larger = json_schema(strings(2, 3), state_limit=1_000_000)
    assert (larger + "x").state_limit == ("x" + larger).state_limit == 1_000_000
    assert larger.star().state_limit == 1_000_000
