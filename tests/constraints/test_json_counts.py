"""How many properties an object has; the oracle is ``len``."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import pytest

from pcgcd.constraints import json_schema
from pcgcd.errors import LoweredBoundWarning, UnsupportedConstraintError

INTEGER = {"type": "integer"}


def sized(num_named: int, num_required: int, **keywords: Any) -> dict[str, Any]:
    names = [f"p{i}" for i in range(num_named)]
    properties = {name: {"type": "string"} for name in names}
    needed = names[:num_required]
    return {"type": "object", "properties": properties, "required": needed, **keywords}


def an_object(num_named: int, num_other: int) -> dict[str, Any]:
    named = {f"p{i}": "x" for i in range(num_named)}
    return {**named, **{f"other{i}": i for i in range(num_other)}}


@pytest.mark.parametrize(
    ("num_named", "num_required", "most"), [(20, 10, 30), (12, 6, 20), (3, 0, 2), (0, 0, 4)]
)
def test_max_properties_counts_named_and_other_ones(
    num_named: int, num_required: int, most: int
) -> None:
    constraint = json_schema(
        sized(num_named, num_required, maxProperties=most, additionalProperties=INTEGER)
    )
    assert constraint.dropped == ()
    for named in range(num_required, num_named + 1):
        for others in {0, 1, max(0, most - named), max(0, most + 1 - named)}:
            value = an_object(named, others)
            assert constraint.matches(json.dumps(value)) == (len(value) <= most), value


@pytest.mark.parametrize(("order", "least"), [("schema", 2), ("schema", 4), ("any", 3)])
def test_min_properties_counts_named_and_other_ones(order: Any, least: int) -> None:
    schema = sized(3, 0, minProperties=least, maxProperties=5, additionalProperties=INTEGER)
    constraint = json_schema(schema, order=order)
    assert constraint.dropped == (
        "minProperties at #/minProperties: names that differ may count as one",
    )
    for named in range(4):
        for others in range(4):
            value = an_object(named, others)
            wanted = least <= len(value) <= 5 and not (least == 4 and named == 0)
            assert constraint.matches(json.dumps(value)) == wanted, value


def test_equal_names_in_any_spelling_count_once() -> None:
    constraint = json_schema({"minProperties": 2, "additionalProperties": {"type": "integer"}})
    spellings = ['"a"', r'"\u0061"', '"b"', '"é"', r'"\u00e9"', '"ab"', '""', r'"\\"', r'"\u005c"']
    for first, second in combinations(spellings, 2):
        text = f"{{{first}: 1, {second}: 2}}"
        assert not constraint.matches(text) or len(json.loads(text)) == 2, text
    accepted = ('{"a": 1, "b": 2}', '{"key1": 1, "key2": 2}', '{"a": 1, "": 2}')
    assert all(map(constraint.matches, accepted))
    assert not constraint.matches('{"a": 1, "a": 2}')


def test_one_more_than_the_required_ones_is_exact() -> None:
    constraint = json_schema(sized(2, 1, minProperties=2, additionalProperties=INTEGER))
    assert constraint.dropped == ()
    assert constraint.matches('{"p0": "x", "é": 1}')
    assert constraint.matches('{"p0": "x", "p1": "x"}')
    assert not constraint.matches('{"p0": "x"}')


def test_more_names_than_can_be_told_apart_are_refused_or_relaxed_by_name() -> None:
    schema = sized(2, 0, minProperties=6)
    with pytest.raises(UnsupportedConstraintError, match=r"#/minProperties.*6 properties.*relax="):
        json_schema(schema)


def test_a_lowered_count_is_reported() -> None:
    with pytest.warns(LoweredBoundWarning, match="maxProperties"):
        constraint = json_schema(sized(1, 0, maxProperties=10**6), open_objects=True)
    assert constraint.dropped[1:] == (
        "free_depth lowered from 2 to 1",
        "other properties nested to 1 levels at #",
    )
    beginning = "maxProperties at #/maxProperties lowered from 1,000,000 to "
    assert constraint.dropped[0].startswith(beginning)
