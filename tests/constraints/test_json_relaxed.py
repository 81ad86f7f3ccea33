"""Keywords that may be relaxed by name, and the check of whole texts that makes up for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pcgcd.constraints import Constraint, function_call, json_schema
from pcgcd.errors import InvalidParameterError, UnsupportedConstraintError

UNIQUE = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
VALUES = [[], ["a"], ["a", "b"], ["a", "a"], ["a", "b", "a"], [1], "a"]


def test_only_what_is_named_is_relaxed() -> None:
    back = {"type": "string", "pattern": r"(a)\1"}
    both = {
        "type": "object",
        "properties": {"x": UNIQUE, "y": back},
        "additionalProperties": False,
    }
    with pytest.raises(UnsupportedConstraintError, match="pattern"):
        json_schema(both, relax={"uniqueItems"})
    with pytest.raises(UnsupportedConstraintError, match=r"uniqueItems.*relax=\{'uniqueItems'\}"):
        json_schema(both, relax=["pattern"])
    for options in ({"relax": {"uniqueItems", "pattern"}}, {"strict": False}):
        dropped = json_schema(both, **options).dropped  # type: ignore[arg-type]
        assert sorted(dropped) == [
            "pattern at #/properties/y/pattern",
            "uniqueItems at #/properties/x/uniqueItems",
        ]


def test_what_is_relaxed_is_checked_in_whole_texts() -> None:
    constraint = json_schema(UNIQUE, relax="uniqueItems")
    for value in VALUES:
        text = json.dumps(value)
        assert constraint.check(text) == Draft202012Validator(UNIQUE).is_valid(value), value
        assert constraint.matches(text) == (isinstance(value, list) and value != [1])
    assert not constraint.check('["a"')


def test_what_needs_no_relaxation_is_not_relaxed() -> None:
    schema = {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True}
    constraint = json_schema(schema, relax="uniqueItems")
    assert constraint.dropped == ()
    assert constraint.checker is None
    assert not constraint.matches("[1, 1]")


def test_a_set_of_texts() -> None:
    pytest.importorskip("pydantic")
    constraint = json_schema(set[str], relax={"uniqueItems"})
    assert constraint.parse('["a", "b"]') == {"a", "b"}
    assert constraint.check('["a", "b"]')
    assert not constraint.check('["a", "a"]')


def test_more_names_than_can_be_told_apart_can_be_counted_in_the_end() -> None:
    schema = {"type": "object", "minProperties": 5}
    constraint = json_schema(schema, relax={"minProperties"})
    assert constraint.dropped == (
        "minProperties at #/minProperties",
        "free values nested to 6 levels at #",
    )
    for size in range(8):
        assert constraint.check(json.dumps({f"n{i}": i for i in range(size)})) == (size >= 5)
    assert not constraint.check('{"a": 1, "a": 2, "a": 3, "a": 4, "a": 5}')


@pytest.mark.parametrize("relax", [{"nonsense"}, ["uniqueItems", "type"], {3}])
def test_what_cannot_be_relaxed_is_an_error(relax: Any) -> None:
    with pytest.raises(InvalidParameterError, match="relax must name"):
        json_schema(UNIQUE, relax=relax)


@pytest.mark.parametrize("relax", [3, None, [["uniqueItems"]]])
def test_relax_is_several_keywords(relax: Any) -> None:
    with pytest.raises(InvalidParameterError, match="relax must be several keywords"):
        json_schema({}, relax=relax)
    with pytest.raises(InvalidParameterError, match="relax must be several keywords"):
        function_call([{"name": "f"}], relax=relax)


@pytest.mark.parametrize("style", ["json", "python"])
def test_arguments_are_checked_too(style: Any) -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": UNIQUE}}}
    with pytest.raises(UnsupportedConstraintError, match="uniqueItems"):
        function_call([tool], style=style)
    calls = function_call([tool], style=style, parallel=True, relax={"uniqueItems"})
    for items, passes in [(["a", "b"], True), (["a", "a"], False)]:
        call = {"name": "f", "arguments": {"x": items}}
        text = json.dumps([call]) if style == "json" else f"[f(x=[]), f(x={items})]"
        assert calls.matches(text)
        assert calls.check(text) == passes


def test_compositions_keep_the_check() -> None:
    strings = json_schema(UNIQUE, relax={"uniqueItems"})
    good, bad = '["a"]', '["a", "a"]'
    cases: list[tuple[Constraint, str, str]] = [
        ("x: " + strings, f"x: {good}", f"x: {bad}"),
        (strings + "!", f"{good}!", f"{bad}!"),
        (strings | "null", "null", bad),
        (strings & json_schema({"type": "array"}), good, bad),
        (strings + strings, good + good, good + bad),
        (strings.repeat(1, 3), good * 3, good + bad + good),
        (strings.star(), "", bad),
    ]
    for constraint, passing, failing in cases:
        assert constraint.check(passing), constraint
        assert constraint.matches(failing), constraint
        assert not constraint.check(failing), constraint
    assert (strings | json_schema({"type": "array"})).check(bad)
