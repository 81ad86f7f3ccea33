"""Keywords that are misspelled or none: errors and warnings that name them and their places."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from jsonschema.validators import validator_for

from pcgcd.constraints import constraint_of, function_call, json_schema
from pcgcd.errors import InvalidParameterError, PcgcdError, UnknownKeywordWarning

# -- no keyword at all ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "meant"),
    [
        ({"name": "string"}, {"name": {"type": "string"}}),
        ({"name": "str", "age": "int"}, {"name": {"type": "string"}, "age": {"type": "integer"}}),
        ({"name": {"type": "string"}}, {"name": {"type": "string"}}),
        ({"age": {"type": ["integer", "null"]}}, {"age": {"type": ["integer", "null"]}}),
        ({"age": {"type": "int", "minimum": 0}}, {"age": {"type": "integer", "minimum": 0}}),
        ({"name": "Ada"}, {"name": {"type": "string"}}),
        ({"name": 3}, {"name": {"type": "string"}}),
        ({"item": "string"}, {"item": {"type": "string"}}),
        ({"title": "string", "year": "integer"}, {"year": {"type": "integer"}}),
        ({"id": {"type": "integer"}}, {"id": {"type": "integer"}}),
        (
            {"name": "x", "strict": True, "schema": {}},
            {n: {"type": "string"} for n in ("name", "schema")},
        ),
    ],
    ids=str,
)
def test_a_dict_of_names_is_no_schema(schema: Any, meant: Any) -> None:
    shown = json.dumps({"type": "object", "properties": meant})
    for read in (json_schema, constraint_of):
        with pytest.raises(InvalidParameterError, match=r"no keywords? of JSON Schema") as caught:
            read(schema)
        assert str(caught.value).endswith(shown)
    json_schema(json.loads(shown))


def test_names_in_a_part_of_a_schema_are_refused_at_their_place() -> None:
    address = {"street": {"type": "string"}, "number": "integer"}
    with pytest.raises(
        InvalidParameterError, match=r"#/properties/address: 'street', 'number' are"
    ):
        json_schema({"type": "object", "properties": {"address": address}})


@pytest.mark.parametrize("schema", [{}, {"description": "anything"}, {"$comment": "x"}, True])
def test_what_asks_for_nothing_is_any_json(schema: Any) -> None:
    assert json_schema(schema).matches('{"name": [1]}')


# -- misspelled -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("propertes", "properties"),
        ("propertie", "properties"),
        ("Properties", "properties"),
        ("require", "required"),
        ("requierd", "required"),
        ("enums", "enum"),
        ("additionalproperties", "additionalProperties"),
        ("additional_properties", "additionalProperties"),
        ("additonalProperties", "additionalProperties"),
        ("item", "items"),
        ("min_length", "minLength"),
        ("max-items", "maxItems"),
        ("maxLenght", "maxLength"),
        ("mininum", "minimum"),
        ("anyof", "anyOf"),
        ("fromat", "format"),
        ("tpye", "type"),
        ("patern", "pattern"),
        ("If", "if"),
    ],
)
def test_a_misspelled_keyword_is_an_error_that_names_the_near_one(wrong: str, right: str) -> None:
    part = {"type": "object", wrong: {}}
    for schema, place in [
        (part, "#"),
        ({"properties": {"a": part}}, "#/properties/a"),
        ({"properties": {"a": True, "b": {"items": part}}}, "#/properties/b/items"),
        ({"anyOf": [True, {"not": part}]}, "#/anyOf/1/not"),
        ({"$defs": {"x/y": {"prefixItems": [part]}}}, "#/$defs/x~1y/prefixItems/0"),
        ({"patternProperties": {"^a": part}, "type": "object"}, "#/patternProperties/^a"),
    ]:
        with pytest.raises(InvalidParameterError) as caught:
            json_schema(schema)
        said = str(caught.value)
        assert f"at {place}/{wrong}: {wrong!r} is no keyword" in said
        assert f"write {right!r}" in said


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"propertes": {"type": "null"}, "require": {}}},
        {"$defs": {"enums": {"type": "null"}}, "$ref": "#/$defs/enums"},
        {"definitions": {"item": {"type": "null"}}, "type": "null"},
        {"patternProperties": {"item": {"type": "null"}}, "type": "object"},
        {"dependentSchemas": {"item": {"required": ["enums"]}}, "type": "object"},
        {"dependentRequired": {"item": ["enums"]}, "type": "object"},
        {"enum": [{"propertes": 1}, {"require": {"enums": 1}}]},
        {"const": {"propertes": 1}},
        {"type": "null", "default": {"propertes": 1}, "examples": [{"require": 1}]},
        {"$ref": "#/item/a", "item": {"a": {"type": "null"}}},
        {"type": "object", "x-propertes": 1, "_enums": 1},
    ],
    ids=json.dumps,
)
def test_names_and_values_are_no_keywords(schema: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error" if "_enums" not in schema else "ignore")
        json_schema(schema)


NOTES: dict[str, Any] = {
    "$anchor": "a",
    "$comment": "c",
    "$id": "http://x/y",
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$vocabulary": {"http://x": True},
    "contentEncoding": "base64",
    "contentMediaType": "image/png",
    "contentSchema": {"type": "null"},
    "default": 1,
    "definitions": {},
    "deprecated": True,
    "description": "d",
    "discriminator": {"propertyName": "kind"},
    "divisibleBy": 2,
    "errorMessage": "no",
    "example": 1,
    "examples": [1],
    "extends": {},
    "externalDocs": {"url": "x"},
    "id": "x",
    "links": [],
    "markdownDescription": "d",
    "nullable": True,
    "propertyOrder": 1,
    "readOnly": True,
    "title": "t",
    "tsType": "string",
    "ui:widget": "x",
    "writeOnly": True,
    "x-anything": 1,
    "xml": {"name": "x"},
}


@pytest.mark.parametrize("key", NOTES)
def test_notes_of_all_drafts_and_of_vendors_are_known(key: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        json_schema({"type": "string", key: NOTES[key]})


@pytest.mark.parametrize("draft", ["draft-03", "draft-04", "draft-06", "draft-07", "2019-09"])
def test_every_keyword_of_the_meta_schemas_is_known(draft: str) -> None:
    old = "draft-0" in draft
    address = f"http://json-schema.org/{draft}/schema#" if old else ""
    meta = validator_for({"$schema": address or f"https://json-schema.org/draft/{draft}/schema"})
    for keyword, kind in meta.META_SCHEMA.get("properties", {}).items():
        value: Any = "x" if isinstance(kind, dict) and kind.get("type") == "string" else {}
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnknownKeywordWarning)
            said = error_of({"$ref": "#/$defs/x", "$defs": {"x": {"type": "null"}}, keyword: value})
        assert "no keyword" not in said, keyword


def error_of(schema: Any) -> str:
    """What is wrong with a schema, if anything is."""
    try:
        json_schema(schema)
    except PcgcdError as error:
        return str(error)
    return ""


# -- unknown --------------------------------------------------------------------------------------


def test_unknown_keywords_are_warned_of_once_with_their_places() -> None:
    part = {"type": "string", "colour": "red", "label": "x"}
    schema = {"type": "object", "properties": {"a": part, "b": part}, "weight": 1, "shape": 2}
    with pytest.warns(UnknownKeywordWarning) as caught:
        json_schema(schema)
    assert [warning.filename for warning in caught] == [__file__]
    said = str(caught[0].message)
    assert "'weight' at #/weight" in said
    assert "and 1 more" in said
    assert "'colour' at #/properties/a/colour" in said
    assert "label" not in said


def test_types_have_no_unknown_keywords() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("M", a=(int, pydantic.Field(json_schema_extra={"colour": 1})))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        json_schema(model)


# -- tools ----------------------------------------------------------------------------------------


def tool(name: str, **part: Any) -> dict[str, Any]:
    return {"name": name, "parameters": {"type": "object", "properties": {"a": part}}}


def test_misspelled_keywords_of_tools_are_errors_that_name_the_tool() -> None:
    with pytest.raises(
        InvalidParameterError, match=r"'g' is broken at #/properties/a/enums.*'enum'"
    ):
        function_call([tool("f", type="string"), tool("g", type="string", enums=["x"])])


def test_unknown_keywords_of_tools_are_warned_of_once() -> None:
    with pytest.warns(UnknownKeywordWarning, match="'colour' at #/properties/a/colour") as caught:
        function_call([tool(name, type="string", colour="red") for name in "fg"])
    assert len(caught) == 1


def test_to_the_letter_a_misspelled_keyword_only_warns() -> None:
    schema = {"type": "string", "maxLenght": 2}
    with pytest.raises(InvalidParameterError, match="maxLength"):
        json_schema(schema)
    with pytest.warns(UnknownKeywordWarning, match="maxLenght"):
        assert json_schema(schema, open_objects=True).matches('"long"')
