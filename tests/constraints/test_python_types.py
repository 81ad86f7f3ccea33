"""Constraints from types, functions and OpenAI requests; texts parsed into values."""

from __future__ import annotations

import datetime as dt
import json
import random
import re
import sys
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, Optional, TypedDict

import jsonschema
import pydantic
import pytest
from typing_extensions import NotRequired
from typing_extensions import TypedDict as OwnTypedDict

from pcgcd.constraints import (
    Call,
    Constraint,
    any_text,
    choice,
    constraint_of,
    function_call,
    json_schema,
    literal,
    of_response_format,
    of_tool_choice,
    openai_tools,
    regex,
)
from pcgcd.constraints.python_types import function_tool, type_schema
from pcgcd.errors import InvalidParameterError, MissingDependencyError
from tests.constraints.json_walks import random_text


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Level(Enum):
    LOW = 1
    HIGH = 2


class Item(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=8)
    title: str = pydantic.Field(default="", max_length=4)
    count: int = pydantic.Field(ge=1, le=20)


class Order(pydantic.BaseModel):
    """An order."""

    items: list[Item] = pydantic.Field(min_length=1, max_length=2)
    size: Size
    due: Optional[dt.date] = None  # noqa: UP045


@dataclass
class Point:
    x: int
    label: Literal["a", "b"] = "a"
    near: list[int] = field(default_factory=list)


class Person(TypedDict, total=False):
    name: str
    age: int


class Town(OwnTypedDict):
    name: str
    people: NotRequired[int]


ORDER = '{"items": [{"name": "tea", "count": 2}], "size": "large", "due": "2026-11-17"}'
TYPED: list[tuple[Any, str, Any]] = [
    (
        Order,
        ORDER,
        Order(items=[Item(name="tea", count=2)], size=Size.LARGE, due=dt.date(2026, 11, 17)),
    ),
    (Point, '{"x": 3, "near": [1, 2]}', Point(3, "a", [1, 2])),
    (Person, '{"age": 3}', {"age": 3}),
    (Town, '{"name": "Ulm"}', {"name": "Ulm"}),
    (Literal["a", 1], "1", 1),
    (Size, '"small"', Size.SMALL),
    (list[int], "[1, 2]", [1, 2]),
    (dict[str, bool], '{"k": true}', {"k": True}),
    (Optional[int], "null", None),  # noqa: UP045
    (int | str, '"x"', "x"),
]


@pytest.mark.parametrize(("kind", "text", "value"), TYPED, ids=lambda v: str(v)[:20])
def test_a_type_constrains_and_reads(kind: Any, text: str, value: Any) -> None:
    constraint = json_schema(kind)
    assert constraint.matches(text)
    found = constraint.parse(text)
    assert found == value
    assert type(found) is type(value)
    jsonschema.validate(json.loads(text), type_schema(kind).schema)  # another reader agrees


def test_objects_of_a_type_have_its_fields_only() -> None:
    point = json_schema(Point)
    assert not point.matches('{"x": 3, "z": 1}')
    assert not point.matches('{"label": "a"}')
    assert not json_schema(Order).matches(ORDER.replace('"tea"', '"tea", "colour": "red"'))

    class Open(pydantic.BaseModel, extra="allow"):
        x: int

    assert json_schema(Open).matches('{"x": 1, "y": 2}')


def test_a_field_may_be_called_title() -> None:
    assert json_schema(Item).parse('{"name": "a", "title": "b", "count": 1}').title == "b"


def test_what_a_type_checks_beyond_its_schema_is_an_error_of_ours() -> None:
    class Even(pydantic.BaseModel):
        x: int

        @pydantic.field_validator("x")
        @classmethod
        def even(cls, value: int) -> int:
            if value % 2:
                raise ValueError("must be even")
            return value

    assert json_schema(Even).parse('{"x": 4}').x == 4
    with pytest.raises(InvalidParameterError, match=r"beyond it.*must be even"):
        json_schema(Even).parse('{"x": 3}')


# -- times: pydantic is the judge -----------------------------------------------------------------


def _reads(kind: Any, text: str) -> bool:
    try:
        pydantic.TypeAdapter(kind).validate_json(json.dumps(text))
    except (pydantic.ValidationError, OverflowError):
        return False
    return True


@pytest.mark.parametrize("unit", [1, 10**6, 86_400 * 10**6, 365 * 86_400 * 10**6])
def test_durations_that_pydantic_prints_are_accepted(unit: int) -> None:
    durations, rng = pydantic.TypeAdapter(dt.timedelta), random.Random(unit)
    most = dt.timedelta.max // dt.timedelta(microseconds=1)
    ends = [dt.timedelta.max, dt.timedelta.min, dt.timedelta(0), dt.timedelta.resolution]
    sizes = [int(10 ** rng.uniform(0, 20)) * unit for _ in range(1500)]
    parts = [dt.timedelta(microseconds=size) for size in sizes if size <= most]
    constraint = json_schema(dt.timedelta)
    for value in (*ends, *parts, *(-part for part in parts)):
        text = durations.dump_json(value).decode()
        assert constraint.matches(text), text
    for value in (*ends, *parts[:50]):
        assert constraint.parse(durations.dump_json(value).decode()) == value


def test_no_duration_is_accepted_that_pydantic_refuses() -> None:
    constraint = json_schema(dt.timedelta)
    for seed in range(300):
        text = random_text(constraint, seed, 5 + seed % 40).decode()
        assert isinstance(constraint.parse(text), dt.timedelta)
    for text in ("P2739726Y10D", "P2739727Y", "-P2739726Y9DT1S", "P2739726Y9DT24H", "P", "1Y"):
        assert not _reads(dt.timedelta, text)
        assert not constraint.matches(json.dumps(text)), text


@pytest.mark.parametrize("kind", [pydantic.AwareDatetime, pydantic.NaiveDatetime, dt.datetime])
@pytest.mark.parametrize("offset", ["", "Z", "z", "+00:00", "-00:00", "+23:59", "-11:30"])
def test_times_have_an_offset_where_their_type_wants_one(kind: Any, offset: str) -> None:
    constraint, inside = json_schema(kind), json_schema(list[kind])
    for time in ("2024-01-01T00:00:00", "2024-02-29T23:59:59.123456", "0001-12-31T10:11:12.5"):
        text = time + offset
        assert constraint.matches(json.dumps(text)) == _reads(kind, text), text
        assert inside.matches(json.dumps([text])) == _reads(kind, text), text


@pytest.mark.parametrize("kind", [pydantic.AwareDatetime, pydantic.NaiveDatetime])
def test_times_with_and_without_an_offset_can_be_read_back(kind: Any) -> None:
    constraint = json_schema(kind)
    for seed in range(60):
        found = constraint.parse(random_text(constraint, seed).decode())
        assert (found.tzinfo is None) == (kind is pydantic.NaiveDatetime)


def test_types_without_a_schema_are_refused() -> None:
    class Opaque: ...

    with pytest.raises(InvalidParameterError, match="Opaque has no JSON schema"):
        json_schema(Opaque)


def test_without_pydantic_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(
        MissingDependencyError, match=r"pip install pydantic.*the JSON schema itself"
    ):
        json_schema(Point)


# -- choices --------------------------------------------------------------------------------------


def test_choices_stand_for_values() -> None:
    assert choice(Literal["yes", "no"]).parse("no") == "no"
    assert choice(Level).matches("2")
    assert not choice(Level).matches("HIGH")
    assert choice(Level).parse("2") is Level.HIGH
    with pytest.raises(InvalidParameterError, match="different texts"):
        choice(Literal[1, "1"])


# -- functions ------------------------------------------------------------------------------------


def weather(city: str, days: int = 3, unit: Literal["C", "F"] = "C") -> str:
    """Forecast the weather.

    Not shown.

    Args:
        city: Where; such
            as Oslo.
        days (int): How many.

    Returns:
        A text: good.
    """
    return f"{city} {days} {unit}"


def book(when: dt.date, items: list[Item]) -> None:
    pass


def test_a_function_is_described_by_signature_and_docstring() -> None:
    tool = function_tool(weather).description
    assert tool["type"] == "function"
    inner = tool["function"]
    assert inner["name"] == "weather"
    assert inner["description"] == "Forecast the weather."
    properties = inner["parameters"]["properties"]
    assert properties["city"] == {"type": "string", "description": "Where; such as Oslo."}
    assert properties["days"] == {"type": "integer", "default": 3, "description": "How many."}
    assert inner["parameters"]["required"] == ["city"]


def test_calls_of_functions_can_be_made() -> None:
    call = function_call([weather, book])
    text = '{"name": "weather", "arguments": {"city": "Oslo", "unit": "F"}}'
    assert call.matches(text)
    found = call.parse(text)
    assert found == Call("weather", {"city": "Oslo", "unit": "F"})
    assert weather(**found.arguments) == "Oslo 3 F"
    items = '[{"name": "a", "count": 1}]'
    text = f'{{"name": "book", "arguments": {{"when": "2026-11-17", "items": {items}}}}}'
    assert call.matches(text)
    assert call.parse(text).arguments == {
        "when": dt.date(2026, 11, 17),
        "items": [Item(name="a", count=1)],
    }
    assert not call.matches('{"name": "weather", "arguments": {"days": 3}}')


def test_calls_in_python_and_in_lists() -> None:
    style = function_call([weather], style="python", parallel=True)
    text = "[weather(city='Oslo', days=2), weather(city=\"Rome\")]"
    assert style.matches(text)
    assert style.parse(text) == [
        Call("weather", {"city": "Oslo", "days": 2}),
        Call("weather", {"city": "Rome"}),
    ]
    named = function_call([{"name": "m.f"}], name_key="f", arguments_key="a")
    assert named.parse('{"f": "m.f", "a": {}}') == Call("m.f", {})
    assert function_call([{"name": "m.f"}], style="python").parse("m.f()") == Call("m.f", {})


def test_a_class_is_a_tool() -> None:
    call = function_call([Order])
    text = f'{{"name": "Order", "arguments": {ORDER}}}'
    assert call.matches(text)
    assert call.parse(text).arguments == TYPED[0][2]
    assert function_tool(Order).description["function"]["description"] == "An order."


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x, "function with a name"),
        (print, "any number of arguments"),
        (re.escape, "'pattern' of escape has no type"),
    ],
)
def test_functions_that_cannot_be_tools(function: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        function_call([function])


# -- values of composed constraints ---------------------------------------------------------------


def test_values_survive_composition() -> None:
    number, word = json_schema(int), regex("[a-z]+")
    assert (number | word).parse("12") == 12
    assert (number | word).parse("ab") == "ab"
    assert (number & regex("..")).parse("12") == 12
    assert ("<" + number + ">").parse("<12>") == 12
    assert (number + word).parse("12ab") == "12ab"
    assert literal("a").parse("a") == "a"
    assert word.parse("b") == "b"
    wrapped = "<tool_call>\n" + function_call([weather]) + "\n</tool_call>"
    text = '<tool_call>\n{"name": "weather", "arguments": {"city": "a"}}\n</tool_call>'
    assert wrapped.matches(text)
    assert wrapped.parse(text) == Call("weather", {"city": "a"})
    assert json_schema(int) == json_schema(int)


# -- what callers of other libraries have ---------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("thing", "inside", "outside"),
    [
        (SCHEMA, '{"a": 1}', "1"),
        ({"type": "json_object"}, '{"b": 1}', "[1]"),
        ({"type": "text"}, "any", None),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}, '{"a": 1}', "1"),
        ({"type": "json_schema", "name": "x", "schema": SCHEMA}, '{"a": 1}', "1"),
        (Point, '{"x": 1}', "1"),
        (Size, "small", '"small"'),
        (["yes", "no"], "yes", "maybe"),
        ([weather], '{"name": "weather", "arguments": {"city": "a"}}', "weather"),
        ([{"name": "now"}], '{"name": "now", "arguments": {}}', "now"),
        (regex("a+"), "aa", "b"),
    ],
)
def test_plain_values_mean_what_they_say(thing: Any, inside: str, outside: str | None) -> None:
    constraint = constraint_of(thing)
    assert isinstance(constraint, Constraint)
    assert constraint.matches(inside)
    assert outside is None or not constraint.matches(outside)


@pytest.mark.parametrize("thing", ["a+", 3, [], [1, 2], None, b"x"])
def test_what_is_not_clear_is_refused(thing: Any) -> None:
    with pytest.raises(InvalidParameterError, match="what to generate must be"):
        constraint_of(thing)


def test_response_formats_that_are_none() -> None:
    for wrong in ({"type": "xml"}, {"type": "json_schema"}, "json", None):
        with pytest.raises(InvalidParameterError, match="response_format must be"):
            of_response_format(wrong)
    assert of_response_format(Point).parse('{"x": 1}') == Point(1)
    assert of_response_format({"type": "text"}) == any_text()


def test_tool_choices_of_openai() -> None:
    tools: list[Any] = [weather, {"name": "now"}]
    one, other = (
        '{"name": "weather", "arguments": {"city": "a"}}',
        '{"name": "now", "arguments": {}}',
    )
    for wanted in ("weather", {"type": "function", "function": {"name": "weather"}}):
        only = of_tool_choice(tools, wanted)
        assert only.matches(one)
        assert not only.matches(other)
        assert only.parse(one) == Call("weather", {"city": "a"})
    assert of_tool_choice(tools).matches(other)
    assert not of_tool_choice(tools).matches("hello")
    auto = of_tool_choice(tools, "auto")
    assert auto.matches(one)
    assert auto.matches("Hello,\n{you}")
    assert not auto.matches('{"a": 1}')
    assert auto.parse("Hello") == "Hello"
    assert auto.parse(other) == Call("now", {})
    assert of_tool_choice(tools, "none").matches("{")
    with pytest.raises(InvalidParameterError, match="name one of the tools \\(weather, now\\)"):
        of_tool_choice(tools, {"type": "function", "function": {"name": "then"}})
    text = json.dumps(openai_tools(tools))
    assert of_tool_choice(text, "now").matches(other)
