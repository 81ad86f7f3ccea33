"""Function calls: what is accepted can be read back, and fits the description."""

from __future__ import annotations

import ast
import json

import pytest

from pcgcd.constraints.tools import function_call
from pcgcd.errors import EmptyLanguageError, InvalidParameterError, UnsupportedConstraintError
from tests.constraints.json_walks import random_text

WEATHER = {
    "name": "get_weather",
    "description": "The weather.",
    "parameters": {
        "type": "object",
        "properties": {
            "location": {"type": "string"},
            "days": {"type": "integer", "minimum": 1, "maximum": 14, "default": 1},
            "unit": {"enum": ["C", "F"]},
            "detail": {
                "type": "object",
                "properties": {"wind": {"type": "boolean"}, "tags": {"items": {"type": "string"}}},
            },
        },
        "required": ["location"],
    },
}
STOP = {"name": "stop", "description": "Stops."}


def _json(name, **arguments):
    return json.dumps({"name": name, "arguments": arguments})


@pytest.mark.parametrize("wrap", [lambda t: t, lambda t: {"type": "function", "function": t}])
def test_json_calls(wrap):
    call = function_call([wrap(WEATHER), wrap(STOP)])
    for text in (
        _json("get_weather", location="NYC"),
        _json("get_weather", location='"\u00e9', days=3, unit="C"),
        _json("get_weather", location="x", detail={"wind": True, "tags": ["a"]}),
        _json("stop"),
        '{"name":"stop","arguments":{}}',
    ):
        assert call.matches(text), text
    for text in (
        _json("get_weather"),
        _json("get_weather", days=3, location="x"),
        _json("get_weather", location="x", days=15),
        _json("get_weather", location="x", days=3.0),
        _json("get_weather", location="x", other=1),
        _json("get_weather", location="x", detail={"rain": 1}),
        _json("stop", location="x"),
        _json("go"),
        '{"arguments": {}, "name": "stop"}',
        "[" + _json("stop") + "]",
    ):
        assert not call.matches(text), text


def test_python_calls():
    call = function_call([WEATHER, STOP], style="python")
    for text in (
        "stop()",
        "get_weather(location='NYC')",
        'get_weather(location="it\'s", days=3)',
        "get_weather(location='it\\'s \\u00e9 \\n', unit='F')",
        "get_weather(location='x',days=3)",
        "get_weather(location='x', detail={'wind': True, \"tags\": ['a', 'b']})",
    ):
        ast.parse(text)
        assert call.matches(text), text
    for text in (
        "get_weather()",
        "get_weather('NYC')",
        "get_weather(location=NYC)",
        "get_weather(location='it's')",
        "get_weather(days=3, location='x')",
        "get_weather(location='x', detail={'wind': true})",
        "get_weather(location='x',)",
        "[stop()]",
        "stop(x=1)",
    ):
        assert not call.matches(text), text


@pytest.mark.parametrize("style", ["json", "python"])
def test_parallel_calls(style):
    one = _json("stop") if style == "json" else "stop()"
    lists = {n: "[" + ", ".join([one] * n) + "]" for n in range(4)}
    some = function_call([STOP], style=style, parallel=True)
    assert [n for n in lists if some.matches(lists[n])] == [1, 2, 3]
    assert not some.matches(one)
    few = function_call([STOP], style=style, parallel=(0, 2))
    assert [n for n in lists if few.matches(lists[n])] == [0, 1, 2]


def test_keys_can_be_named():
    call = function_call([STOP], name_key="function", arguments_key="parameters")
    assert call.matches('{"function": "stop", "parameters": {}}')
    with pytest.raises(InvalidParameterError):
        function_call([STOP], name_key="x", arguments_key="x")


def test_types_of_python():
    tool = {
        "name": "f",
        "parameters": {
            "type": "dict",
            "properties": {
                "x": {"type": "float"},
                "point": {"type": "tuple", "items": {"type": "float"}},
                "extra": {"type": "any"},
                "table": {"type": "dict"},
            },
            "required": ["x"],
        },
    }
    call = function_call([tool])
    assert call.matches(_json("f", x=1.5, point=[1, 2.5], extra={"k": [None]}, table={"a": 1}))
    assert not call.matches(_json("f", x="1"))
    python = function_call([tool], style="python")
    assert python.matches("f(x=1.5, point=[1, 2.5], extra={'k': [None]}, table={'a': True})")


def test_flat_parameters_with_types_as_text():
    tool = {
        "name": "f",
        "description": "d",
        "parameters": {
            "a": {"description": "", "type": "str"},
            "b": {"description": "", "type": "int, optional"},
            "c": {"description": "", "type": "List[int]", "default": []},
            "d": {"description": "", "type": "Optional[Dict[str, float]]", "default": None},
            "type": {"description": "", "type": "Union[int, bool]", "default": 0},
            "pair": {"description": "", "type": "Tuple[int, str]", "default": None},
        },
    }
    call = function_call(json.dumps([tool]))
    for arguments in (
        {"a": "x"},
        {"a": "x", "b": 1, "c": [1, 2], "d": {"k": 1.5}, "type": True, "pair": [1, "x"]},
        {"a": "x", "d": None},
    ):
        assert call.matches(_json("f", **arguments)), arguments
    for arguments in ({}, {"a": 1}, {"a": "x", "c": ["y"]}, {"a": "x", "pair": [1]}):
        assert not call.matches(_json("f", **arguments)), arguments


def test_references_are_inside_the_parameters():
    parameters = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/n"}},
        "required": ["x"],
        "$defs": {"n": {"type": "integer"}},
    }
    other = {**parameters, "$defs": {"n": {"type": "null"}}}
    tools = [{"name": "f", "parameters": parameters}, {"name": "g", "parameters": other}]
    call = function_call(tools)
    assert call.matches(_json("f", x=1))
    assert call.matches(_json("g", x=None))
    assert not call.matches(_json("g", x=1))
    python = function_call(tools, style="python")
    assert python.matches("g(x=None)")
    assert not python.matches("f(x=None)")


@pytest.mark.parametrize("style", ["json", "python"])
def test_whatever_is_written_can_be_read_back(style):
    call = function_call([WEATHER, STOP], style=style)
    for seed in range(40):
        text = random_text(call, seed).decode()
        if style == "json":
            value = json.loads(text)
            name, arguments = value["name"], value["arguments"]
        else:
            tree = ast.parse(text, mode="eval").body
            name = tree.func.id
            arguments = {k.arg: ast.literal_eval(k.value) for k in tree.keywords}
        assert name in ("get_weather", "stop")
        assert ("location" in arguments) == (name == "get_weather")
        assert 1 <= arguments.get("days", 1) <= 14
        assert arguments.get("unit", "C") in ("C", "F")
        assert isinstance(arguments.get("detail", {}), dict)


@pytest.mark.parametrize(
    "tools",
    [[], 3, [3], [{}], [{"name": ""}], [STOP, STOP], [{"name": "f", "parameters": 3}], "{"],
)
def test_what_is_no_tool_is_an_error(tools):
    with pytest.raises(InvalidParameterError):
        function_call(tools)


def test_unknown_types_are_errors_that_name_the_tool():
    parameters = {"type": "object", "properties": {"x": {"type": "colour"}}}
    with pytest.raises(InvalidParameterError, match=r"'f'.*colour"):
        function_call([{"name": "f", "parameters": parameters}])


def test_names_that_python_cannot_write_are_errors():
    with pytest.raises(InvalidParameterError, match="not a name"):
        function_call([{"name": "get-weather"}], style="python")
    parameters = {"type": "object", "properties": {"from": {"type": "string"}}}
    with pytest.raises(UnsupportedConstraintError, match="from"):
        function_call([{"name": "f", "parameters": parameters}], style="python")


def test_dotted_names_are_written_as_they_are():
    assert function_call([{"name": "a.b"}], style="python").matches("a.b()")


@pytest.mark.parametrize("parallel", [3, (2, 1), (-1, 2), "x", (1,)])
def test_counts_of_calls_are_checked(parallel):
    with pytest.raises(InvalidParameterError):
        function_call([STOP], parallel=parallel)


@pytest.mark.parametrize("style", ["json", "python"])
def test_impossible_arguments_leave_no_call(style):
    parameters = {"type": "object", "properties": {"x": False}, "required": ["x"]}
    with pytest.raises(EmptyLanguageError):
        function_call([{"name": "f", "parameters": parameters}], style=style)


SIZED = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 1}, "unit": {"enum": ["C", "F"]}},
    "required": ["n"],
}
OUTPUT = {"type": "object", "properties": {"answer": {"type": "string"}}}


@pytest.mark.parametrize(
    "tools",
    [
        [{"name": "f", "parameters": SIZED, "strict": True}],
        [{"name": "f", "inputSchema": SIZED, "outputSchema": OUTPUT, "annotations": {"title": ""}}],
        {"tools": [{"name": "f", "inputSchema": SIZED, "_meta": {"x": 1}}], "nextCursor": None},
        [{"name": "f", "input_schema": SIZED, "cache_control": {"type": "ephemeral"}}],
        [{"name": "f", "type": "custom", "input_schema": SIZED, "parameters": None}],
        [{"name": "f", "parametersJsonSchema": SIZED}],
        [{"toolSpec": {"name": "f", "inputSchema": {"json": SIZED}}}],
        [{"type": "function", "function": {"name": "f", "parameters": SIZED, "strict": True}}],
    ],
    ids=["plain", "mcp", "mcp list", "anthropic", "custom", "gemini", "bedrock", "openai"],
)
def test_every_dialect_keeps_its_arguments(tools):
    call = function_call(tools)
    assert call.matches(_json("f", n=3, unit="F"))
    for arguments in ({}, {"n": 0}, {"n": 3, "unit": "K"}, {"n": 3, "m": 1}, {"answer": "x"}):
        assert not call.matches(_json("f", **arguments)), arguments
    assert function_call(json.dumps(tools), style="python").matches("f(n=3, unit='F')")


@pytest.mark.parametrize(
    ("tool", "named"),
    [
        ({"name": "f", "schema": SIZED}, "'schema'"),
        ({"name": "f", "inputs": {"x": {"type": "string"}}}, "'inputs'"),
        ({"name": "f", "args": {"x": {"type": "integer", "title": "X"}}}, "'args'"),
        ({"name": "f", "input": {"$ref": "#/$defs/x"}}, "'input'"),
        ({"name": "f", "params": {"type": "OBJECT"}}, "'params'"),
        ({"type": "function", "function": {"name": "f"}, "parameters": SIZED}, "'parameters'"),
        ({"name": "f", "parameters": SIZED, "input_schema": SIZED}, "more than once"),
    ],
)
def test_a_schema_that_is_not_read_is_an_error(tool, named):
    with pytest.raises(InvalidParameterError, match=named):
        function_call([tool])


def test_an_argument_may_be_called_json():
    call = function_call([{"name": "f", "parameters": {"json": {"type": "str"}}}])
    assert call.matches(_json("f", json="x"))
