"""Function calls: what is accepted can be read back, and fits the description."""

from __future__ import annotations

import ast
import json

import jsonschema
import pytest

from pcgcd.constraints.tools import function_call, openai_tools
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
        ({"type": "function", "function": {"name": "f"}, "args": {"x": "int"}}, "'args'"),
        ({"name": "f", "params": [{"name": "a", "type": "string", "required": True}]}, "'params'"),
        ({"name": "f", "schema": json.dumps(SIZED)}, "'schema'"),
        ({"name": "f", "spec": json.dumps(SIZED)}, "'spec'"),
        ({"name": "f", "args": {"x": "int"}}, "'args'"),
        ({"name": "f", "fields": {"x": "List[int]", "y": "str, optional"}}, "'fields'"),
        ({"name": "f", "config": {"a": {"$ref": "#/d"}}}, "'config'"),
        ({"name": "f", "Parameters": {"x": 1}}, "'Parameters'"),
        ({"name": "f", "required": ["x"]}, "'required'"),
        ({"name": "f", "parameters": SIZED, "required": ["n"]}, "'required'"),
        ({"name": "crm", "tools": [{"name": "f", "parameters": SIZED}]}, "'crm'.*'tools'"),
        ({"name": "f", "parameters": {"x": "int"}}, "'f' have 'x'"),
        ({"name": "f", "parameters": {"type": "object", "x": {"type": "string"}}}, "'f' have 'x'"),
        ({"name": "f", "parameters": {"a": {"$ref": "#/d"}}}, "'f' have 'a'"),
        ({"name": "f", "parameters": {"type": "string"}}, "'f' must be an object.*'string'"),
        ({"name": "f", "parameters": SIZED, "input_schema": SIZED}, "more than once"),
    ],
)
def test_a_schema_that_is_not_read_is_an_error(tool, named):
    with pytest.raises(InvalidParameterError, match=named):
        function_call([tool])


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "bash_20250124", "name": "bash"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
        {"type": "custom", "name": "code", "description": "Runs code."},
        {"type": "custom", "name": "sql", "format": {"type": "grammar", "syntax": "lark"}},
        {"type": "namespace", "name": "crm", "tools": [{"name": "f", "parameters": SIZED}]},
        {"type": "bash", "function": {"name": "bash"}},
    ],
    ids=lambda tool: tool["type"],
)
def test_tools_whose_arguments_only_a_vendor_knows_are_errors(tool):
    name = tool.get("name", "bash")
    for read in (function_call, openai_tools):
        with pytest.raises(UnsupportedConstraintError, match=f"'{name}' has the type.*leave it"):
            read([STOP, tool])


HARMLESS = {
    "title": "A tool",
    "description": json.dumps(SIZED),
    "annotations": {"title": "x", "readOnlyHint": True},
    "_meta": {"ui": {"schema": {"type": "object"}}},
    "metadata": {"owner": {"kind": "string"}},
    "icons": [{"src": "a.png", "mimeType": "image/png", "sizes": ["48x48"]}],
    "outputSchema": SIZED,
    "output_schema": SIZED,
    "response": {"type": "OBJECT", "properties": {"x": {"type": "STRING"}}},
    "returns": {"type": "string"},
    "behavior": "BLOCKING",
    "strict": True,
    "cache_control": {"type": "ephemeral", "ttl": "5m"},
    "defer_loading": True,
    "eager_input_streaming": True,
    "input_examples": [{"x": {"type": "int"}}],
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "execution": {"taskSupport": "optional"},
    "limits": {"per_day": 5, "mode": "none"},
    "required": None,
    "type": "function",
}


@pytest.mark.parametrize("key", HARMLESS)
def test_other_keys_of_vendors_say_nothing_about_arguments(key):
    bare = function_call([{"name": "f", key: HARMLESS[key]}])
    assert bare.matches(_json("f"))
    assert not bare.matches(_json("f", n=1))
    for arguments in ("parameters", "inputSchema", "input_schema"):
        call = function_call([{"name": "f", key: HARMLESS[key], arguments: SIZED}])
        assert call.matches(_json("f", n=1))
        assert not call.matches(_json("f"))


def test_definitions_may_stand_anywhere_they_are_referred_to():
    parameters = {
        "type": "object",
        "properties": {"x": {"$ref": "#/shared/n"}, "y": {"$ref": "#/flag"}},
        "shared": {"n": {"type": "integer"}},
        "flag": {"type": "boolean"},
    }
    call = function_call([{"name": "f", "parameters": parameters}])
    assert call.matches(_json("f", x=1, y=True))
    assert not call.matches(_json("f", x=1, y=2))


NULLABLE = {
    "type": "OBJECT",
    "properties": {
        "s": {"type": "STRING", "nullable": True, "maxLength": 3},
        "e": {"type": "STRING", "enum": ["a", "b"], "nullable": True},
        "l": {"type": "ARRAY", "items": {"type": "INTEGER", "nullable": True}},
        "o": {"type": "OBJECT", "nullable": True, "properties": {"x": {"type": "BOOLEAN"}}},
        "n": {"type": "NUMBER", "nullable": False},
    },
    "nullable": True,
}
# The same as JSON Schema, for a validator that shares no code with the library.
EXPLICIT = {
    "type": "object",
    "properties": {
        "s": {"type": ["string", "null"], "maxLength": 3},
        "e": {"enum": ["a", "b", None]},
        "l": {"type": "array", "items": {"type": ["integer", "null"]}},
        "o": {
            "type": ["object", "null"],
            "properties": {"x": {"type": "boolean"}},
            "additionalProperties": False,
        },
        "n": {"type": "number"},
    },
    "additionalProperties": False,
}
VALUES = [None, "a", "abcd", "c", 1, 1.5, [], [None, 2], ["a"], {}, {"x": True}, {"x": None}, True]


@pytest.mark.parametrize("key", ["parameters", "inputSchema", "parametersJsonSchema"])
@pytest.mark.parametrize("name", EXPLICIT["properties"])
def test_what_gemini_calls_nullable_may_be_null(key, name):
    validator = jsonschema.Draft202012Validator(EXPLICIT)
    call = function_call([{"name": "f", key: NULLABLE}])
    python = function_call([{"name": "f", key: NULLABLE}], style="python")
    for value in VALUES:
        wanted = validator.is_valid({name: value})
        assert call.matches(_json("f", **{name: value})) == wanted, value
        assert python.matches(f"f({name}={value!r})") == wanted, value
    assert not call.matches('{"name": "f", "arguments": null}')


@pytest.mark.parametrize(
    ("key", "read"), [("parameters", True), ("inputSchema", False), ("input_schema", False)]
)
def test_nullable_in_small_letters_is_of_openapi_and_none_of_json_schema(key, read):
    properties = {"x": {"type": "string", "nullable": True}}
    schema = {"type": "object", "properties": properties}
    call = function_call([{"name": "f", key: schema}])
    assert call.matches(_json("f", x="a"))
    assert call.matches(_json("f", x=None)) == read
    assert not jsonschema.Draft202012Validator(schema).is_valid({"x": None})


@pytest.mark.parametrize("style", ["json", "python"])
def test_a_function_that_cannot_be_called_is_named(style):
    properties = {"x": {"type": "string"}}
    missing = {"type": "object", "properties": properties, "required": ["x", "city"]}
    never = {"type": "object", "properties": {"x": False}, "required": ["x"]}
    for closed in (missing, {**missing, "additionalProperties": False}):
        with pytest.raises(EmptyLanguageError, match=r"'f'.*'city'.*'required'"):
            function_call([STOP, {"name": "f", "parameters": closed}], style=style)
    with pytest.raises(EmptyLanguageError, match=r"'f'.*leave the function out"):
        function_call([STOP, {"name": "f", "parameters": never}], style=style)
    opened = {**missing, "additionalProperties": {"type": "integer"}}
    call = function_call([{"name": "f", "parameters": opened}])
    assert call.matches(_json("f", x="a", city=3))


def test_an_argument_may_be_called_json():
    call = function_call([{"name": "f", "parameters": {"json": {"type": "str"}}}])
    assert call.matches(_json("f", json="x"))
