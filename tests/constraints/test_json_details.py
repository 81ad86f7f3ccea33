"""Details in which schemas of the world outside differ from those of the book."""

from __future__ import annotations

import json
import random
from datetime import datetime, time, timedelta, timezone
from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft201909Validator

from pcgcd.constraints import function_call, json_schema
from pcgcd.errors import AutomatonTooLargeError, UnsupportedConstraintError
from tests.constraints.json_walks import random_text

idna = pytest.importorskip("idna")
pydantic = pytest.importorskip("pydantic")

TIMES = [
    datetime(2024, 2, 29, 3, 4, 5),
    datetime(2024, 2, 29, 3, 4, 5, 120),
    datetime(2024, 2, 29, 3, 4, 5, tzinfo=timezone(timedelta(hours=2))),
    datetime(2024, 2, 29, 3, 4, 5, tzinfo=timezone.utc),
    time(3, 4),
    time(3, 4, 5, 600),
    timedelta(days=3, hours=5, seconds=2),
    timedelta(seconds=1.5),
    timedelta(0),
    -timedelta(days=2, microseconds=1),
]


@pytest.mark.parametrize("value", TIMES, ids=str)
def test_times_that_pydantic_prints_are_accepted_of_types(value: Any) -> None:
    kind = type(value)
    text = pydantic.TypeAdapter(kind).dump_json(value).decode()
    constraint = json_schema(kind)
    assert constraint.matches(text), text
    assert constraint.parse(text) == value


@pytest.mark.parametrize("kind", [datetime, time, timedelta])
def test_times_of_types_can_be_read_back(kind: Any) -> None:
    constraint = json_schema(kind)
    for seed in range(60):
        assert isinstance(constraint.parse(random_text(constraint, seed).decode()), kind)


def test_a_function_may_take_a_naive_time_and_a_schema_may_not() -> None:
    def wake(at: datetime) -> None:
        """Wake somebody."""

    call = '{"name": "wake", "arguments": {"at": "2024-02-29T03:04:05"}}'
    assert function_call([wake]).matches(call)
    assert not json_schema({"format": "date-time"}).matches('"2024-02-29T03:04:05"')


@pytest.mark.parametrize(
    ("schema", "accepted"),
    [
        ({"type": "integer"}, True),
        ({"type": "integer", "minimum": 0, "maximum": 9}, True),
        ({"type": "integer", "maximum": -1}, False),
        ({"type": "integer", "minimum": 1}, False),
        ({"type": "integer", "multipleOf": 3}, True),
        ({"type": "number", "exclusiveMinimum": 0}, False),
        ({"const": 0}, True),
        ({"enum": [0, 1]}, True),
        ({"enum": [1]}, False),
    ],
)
def test_minus_zero_is_zero(schema: Any, accepted: bool) -> None:
    constraint = json_schema(schema)
    assert constraint.matches("-0") == constraint.matches("0") == accepted
    assert not constraint.matches("-00")


def test_a_dollar_is_the_very_end_of_a_name_as_in_ecma() -> None:
    patterns = {"patternProperties": {"^[a-c]$": {"type": "string"}}}
    free = json_schema(patterns)
    closed = json_schema({**patterns, "additionalProperties": False})
    for value, in_free, in_closed in [
        ({"a": "x"}, True, True),
        ({"a": 1}, False, False),
        ({"a\n": 1}, True, False),
        ({"a\n": "x"}, True, False),
    ]:
        text = json.dumps(value)
        assert (free.matches(text), closed.matches(text)) == (in_free, in_closed), value
    string = json_schema({"pattern": "^[a-c]$", "type": "string"})
    assert [string.matches(json.dumps(text)) for text in ("a", "a\n")] == [True, False]


# -- references ---------------------------------------------------------------------------------


def test_an_id_beside_a_reference_says_nothing_up_to_draft_7() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "http://localhost:1234/sibling_id/base/",
        "definitions": {
            "foo": {"$id": "http://localhost:1234/sibling_id/foo.json", "type": "string"},
            "base_foo": {"$id": "foo.json", "type": "number"},
        },
        "allOf": [{"$id": "http://localhost:1234/sibling_id/", "$ref": "foo.json"}],
    }
    constraint, validator = json_schema(schema), Draft7Validator(schema)
    for value in ("a", 1):
        assert constraint.matches(json.dumps(value)) == validator.is_valid(value)


def test_an_id_in_a_value_is_no_address() -> None:
    schema = {
        "const": {"$id": "http://x/y", "type": "null"},
        "properties": {"const": {"$id": "http://x/z", "type": "string"}, "a": {"$ref": "/z"}},
        "$id": "http://x/",
    }
    with pytest.raises(UnsupportedConstraintError, match="another document"):
        json_schema({"$ref": "http://x/y", **schema})
    properties = {key: value for key, value in schema.items() if key != "const"}
    assert json_schema(properties).matches('{"a": "x"}')
    assert not json_schema(properties).matches('{"a": 1}')


def test_a_recursive_reference_is_one_to_the_whole() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "$recursiveAnchor": True,
        "type": "object",
        "properties": {"next": {"$recursiveRef": "#"}},
        "additionalProperties": False,
    }
    constraint, validator = json_schema(schema), Draft201909Validator(schema)
    for value in ({}, {"next": {}}, {"next": {"next": {}}}, {"next": 1}, {"next": {"x": 1}}):
        assert constraint.matches(json.dumps(value)) == validator.is_valid(value), value


def test_recursive_references_with_several_anchors_are_refused_by_name() -> None:
    tree = {
        "$id": "http://x/tree",
        "$recursiveAnchor": True,
        "properties": {"children": {"items": {"$recursiveRef": "#"}}},
    }
    schema = {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "$id": "http://x/strict",
        "$recursiveAnchor": True,
        "$ref": "tree",
        "unevaluatedProperties": False,
        "$defs": {"tree": tree},
    }
    with pytest.raises(UnsupportedConstraintError, match=r"\$recursiveRef"):
        json_schema(schema)


# -- sizes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrap",
    [
        lambda s, v: ({"type": "array", "items": s, "minItems": 1, "maxItems": 1}, [v]),
        lambda s, v: ({"properties": {"a": s}, "required": ["a"], "type": "object"}, {"a": v}),
    ],
)
def test_values_may_be_nested_fifty_deep(wrap: Any) -> None:
    schema, value = {"const": 1}, 1
    for _ in range(50):
        schema, value = wrap(schema, value)
    constraint = json_schema(schema, free_depth=0)
    assert constraint.matches(json.dumps(value))
    assert not constraint.matches(json.dumps(value).replace("1", "2"))


def test_an_enum_of_fifty_thousand() -> None:
    rng = random.Random(0)
    words = [f"élan {i}" if i % 1000 == 0 else f'"{i}"-{i % 7}' for i in range(50_000)]
    constraint = json_schema({"enum": [*words, *range(0, 3000, 3)]})
    for word in rng.sample(words, 50):
        assert constraint.matches(json.dumps(word))
        assert constraint.matches(json.dumps(word, ensure_ascii=False))
        assert not constraint.matches(json.dumps(word + "0"))
    assert [n for n in range(12) if constraint.matches(str(n))] == [0, 3, 6, 9]


def test_a_word_list_is_what_its_words_are() -> None:
    rng = random.Random(1)
    words = {"".join(rng.choices("ab", k=rng.randrange(6))) for _ in range(45)}
    constraint = json_schema(
        {"enum": [f"x{word}" for word in words] + [f"y{i}" for i in range(64)]}
    )
    for size in range(6):
        for i in range(2**size):
            text = f"{i:0{size}b}".replace("0", "a").replace("1", "b") if size else ""
            assert constraint.matches(json.dumps(f"x{text}")) == (text in words), text


def test_too_many_properties_in_any_order_are_refused_with_the_number_that_fits() -> None:
    schema = {"properties": {f"p{i}": {"type": "string"} for i in range(14)}}
    with pytest.raises(UnsupportedConstraintError, match=r"14 named .* enough for \d+ of their"):
        json_schema({**schema, "additionalProperties": False}, order="any")


def test_what_is_too_large_names_parameters_that_exist() -> None:
    schema = {"type": "array", "minItems": 10**7, "items": {"type": "string"}}
    with pytest.raises(AutomatonTooLargeError, match="ask for fewer, or raise state_limit"):
        json_schema(schema)
    with pytest.raises(AutomatonTooLargeError, match=r"over the limit of|more than 300"):
        json_schema({"type": "string", "minLength": 100}, state_limit=300)


# -- hosts --------------------------------------------------------------------------------------


def test_international_hosts() -> None:
    constraint = json_schema({"type": "string", "format": "idn-hostname"})
    for host in (
        "실례.테스트",
        "bücher.example",
        "президент.рф",
        "例え.jp",
        "a-b.com",
        "ελλάδα.gr",
    ):
        assert constraint.matches(json.dumps(host, ensure_ascii=False)), host
    for host in ("-a.com", "a..b", "ab--c", "〮한글", "A.com", ""):
        assert not constraint.matches(json.dumps(host, ensure_ascii=False)), host
    for seed in range(80):
        idna.encode(json.loads(random_text(constraint, seed)))
