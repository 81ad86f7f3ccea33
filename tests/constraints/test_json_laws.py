"""JSON schemas against ``jsonschema``: nothing invalid is accepted, nothing valid is left out."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from pcgcd.constraints import function_call, json_schema
from pcgcd.errors import (
    AutomatonTooLargeError,
    EmptyLanguageError,
    InvalidParameterError,
    UnsupportedConstraintError,
)

NAMES = ["a", "b", "c"]
SCALARS = [None, True, False, 0, 1, -1, 2, 3, 7, 10, 0.5, -2.5, "", "a", "ab", "b", "é", "x1"]


def instances() -> st.SearchStrategy[Any]:
    return st.recursive(
        st.sampled_from(SCALARS),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
        ),
        max_leaves=5,
    )


def _some(**options: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=options)


def schemas() -> st.SearchStrategy[Any]:
    small = st.integers(0, 3)
    whole = st.integers(-3, 8)
    scalars = st.one_of(
        st.just({}),
        st.booleans(),
        st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"]).map(
            lambda name: {"type": name}
        ),
        st.lists(st.sampled_from(SCALARS), min_size=1, max_size=4).map(lambda v: {"enum": v}),
        st.sampled_from(SCALARS).map(lambda v: {"const": v}),
        _some(minimum=whole, maximum=whole, multipleOf=st.integers(1, 3)).map(
            lambda s: {"type": "integer", **s}
        ),
        _some(minimum=whole, exclusiveMaximum=whole).map(lambda s: {"type": "number", **s}),
        _some(
            minLength=small, maxLength=small, pattern=st.sampled_from(["a", "^a", "b$", "^[ab]*$"])
        ).map(lambda s: {"type": "string", **s}),
    )

    def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        properties = st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
        names = st.lists(st.sampled_from(NAMES), max_size=2, unique=True)
        return st.one_of(
            _some(
                properties=properties,
                required=names,
                additionalProperties=inner,
                minProperties=small,
                maxProperties=small,
                dependentRequired=st.dictionaries(st.sampled_from(NAMES), names, max_size=1),
                propertyNames=st.sampled_from([{"maxLength": 1}, {"pattern": "^[ab]"}]),
            ).map(lambda s: {"type": "object", **s}),
            _some(
                items=inner,
                prefixItems=st.lists(inner, min_size=1, max_size=2),
                minItems=small,
                maxItems=small,
                contains=inner,
            ).map(lambda s: {"type": "array", **s}),
            st.lists(inner, min_size=1, max_size=2).map(lambda s: {"anyOf": s}),
            st.lists(inner, min_size=1, max_size=2).map(lambda s: {"allOf": s}),
            st.lists(inner, min_size=1, max_size=2).map(lambda s: {"oneOf": s}),
            inner.map(lambda s: {"not": s}),
            st.fixed_dictionaries({"if": inner, "then": inner, "else": inner}),
        )

    return st.recursive(scalars, larger, max_leaves=4)


def texts(value: Any) -> list[str]:
    """The texts of a value: every order of keys."""
    if isinstance(value, dict):
        result = []
        for order in itertools.permutations(value):
            parts = [[f"{json.dumps(k)}: {t}" for t in texts(value[k])] for k in order]
            result += ["{" + ", ".join(chosen) + "}" for chosen in itertools.product(*parts)]
        return result
    if isinstance(value, list):
        chosen = itertools.product(*(texts(item) for item in value))
        return ["[" + ", ".join(items) + "]" for items in chosen]
    return [json.dumps(value, ensure_ascii=False)]


@settings(max_examples=150)
@given(schema=schemas(), values=st.lists(instances(), min_size=5, max_size=5))
def test_accepted_iff_jsonschema_accepts(schema: Any, values: list[Any]) -> None:
    validator = Draft202012Validator(schema)
    try:
        constraint = json_schema(schema, open_objects=True)
        found = [any(constraint.matches(text) for text in texts(value)) for value in values]
    except EmptyLanguageError:
        found = [False] * len(values)
    except (UnsupportedConstraintError, AutomatonTooLargeError):
        assume(False)
    assert found == [validator.is_valid(value) for value in values], schema


@settings(max_examples=60)
@given(schema=schemas(), seed=st.integers(0, 2**16))
def test_random_words_of_the_automaton_are_valid(schema: Any, seed: int) -> None:
    try:
        automaton = json_schema(schema, free_depth=2, open_objects=True).automaton
    except (EmptyLanguageError, UnsupportedConstraintError, AutomatonTooLargeError):
        assume(False)
    validator = Draft202012Validator(schema)
    assume(not automaton.is_empty())
    for i in range(5):
        word = automaton.random_word(max_length=40, generator=seed + i)
        value = json.loads(bytes(word).decode("utf-8"))
        assert validator.is_valid(value), (schema, value)


@pytest.mark.parametrize("same", [{}, True, {"type": "integer"}])
def test_one_of_two_equal_schemas_is_never_met(same: Any) -> None:
    with pytest.raises(EmptyLanguageError):
        json_schema({"oneOf": [same, same]})
    assert json_schema({"not": {"oneOf": [same, same]}}).matches("1")


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"properties": {"a": {"uniqueItems": True, "type": "array"}}}, "#/properties/a"),
        ({"$ref": "other.json"}, r"\$ref"),
        ({"type": "string", "pattern": r"(a)\1"}, "pattern"),
    ],
)
def test_what_cannot_be_honoured_is_named_with_its_place(schema: Any, place: str) -> None:
    with pytest.raises((UnsupportedConstraintError, InvalidParameterError), match=place):
        json_schema(schema)


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {
                    "location": {"type": "string"},
                    "unit": {"type": "string", "enum": ["C", "F"]},
                    "days": {"type": "integer", "minimum": 1, "maximum": 14},
                },
                "required": ["location"],
            },
        },
    },
    {
        "name": "add",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        },
    },
]


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ('{"name": "get_weather", "arguments": {"location": "NYC"}}', True),
        ('{"name":"get_weather","arguments":{"location":"NYC","days":3}}', True),
        ('{"name": "add", "arguments": {"a": 1, "b": -2.5}}', True),
        ('{"name": "add", "arguments": {"a": 1}}', False),
        ('{"name": "sub", "arguments": {"a": 1, "b": 2}}', False),
        ('{"name": "get_weather", "arguments": {"location": "NYC", "unit": "K"}}', False),
        ('{"name": "get_weather", "arguments": {"location": "NYC", "days": 15}}', False),
    ],
)
def test_json_calls(text: str, valid: bool) -> None:
    assert function_call(TOOLS).matches(text) == valid


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ('get_weather(location="NYC")', True),
        ("get_weather(location='NYC', unit=\"C\", days=14)", True),
        ("add(a=1, b=-2.5)", True),
        ("add(1, 2)", False),
        ("add(a=1)", False),
        ('get_weather(location="NYC", days=0)', False),
        ('os.system(command="ls")', False),
    ],
)
def test_python_calls(text: str, valid: bool) -> None:
    assert function_call(TOOLS, style="python").matches(text) == valid


def test_parallel_calls_are_a_list() -> None:
    one = '{"name": "add", "arguments": {"a": 1, "b": 2}}'
    calls = function_call(TOOLS, parallel=True)
    assert calls.matches(f"[{one}, {one}]")
    assert not function_call(TOOLS).matches(f"[{one}, {one}]")
