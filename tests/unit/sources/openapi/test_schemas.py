"""Schemas of descriptions as schemas of arguments."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sources.openapi.descriptions import body_tool, listing

from toolheads.sources.openapi.definitions import definition_name
from toolheads.sources.schemas import places


def reference(name):
    return {"$ref": f"#/components/schemas/{name}"}


def body(schema, **more):
    """The schema of a body that is one argument."""
    return body_tool({"allOf": [schema]}, **more).input_schema["properties"]["body"]["allOf"][0]


def checked_references(schema):
    """Every reference leads to a definition, and every definition is led to."""
    led_to = {
        inner["$ref"].removeprefix("#/$defs/") for _, inner in places(schema) if "$ref" in inner
    }
    assert led_to == set(schema.get("$defs", {}))


def test_twelve_chained_schemas_with_fan_out_stay_small():
    schemas = {
        f"S{i}": {
            "type": "object",
            "properties": {f"p{j}": reference(f"S{i + 1}") for j in range(8)},
        }
        for i in range(12)
    } | {"S12": {"type": "string"}}
    schema = body_tool(reference("S0"), schemas=schemas).input_schema
    assert len(json.dumps(schema)) < 6_000
    checked_references(schema)


def test_a_schema_that_refers_to_itself_is_one_definition():
    node = {"type": "object", "properties": {"next": reference("Node"), "n": {"type": "integer"}}}
    schema = body_tool(reference("Node"), schemas={"Node": node}).input_schema
    assert schema["properties"]["next"] == {"$ref": "#/$defs/Node"}
    assert list(schema["$defs"]) == ["Node"]
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate({"next": {"next": {"n": 1}}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"next": {"next": {"n": "1"}}}, schema)


def test_a_chain_of_a_thousand_references_needs_no_stack():
    schemas = {f"S{i}": {"items": reference(f"S{i + 1}")} for i in range(1_000)} | {"S1000": {}}
    got = listing(
        {"/a": {"post": _post(reference("S0"))}},
        schemas=schemas,
        settings={"most_tool_bytes": 10**6},
    )
    assert len(dict(got.tools[0].input_schema or {})["$defs"]) == 1_001


def test_all_of_that_doubles_at_every_step_is_looked_at_once():
    schemas: dict = {f"S{i}": {"allOf": [reference(f"S{i + 1}")] * 2} for i in range(60)}
    schemas["S60"] = {"properties": {"id": {"readOnly": True}, "name": {}}}
    schema = body_tool(reference("S0"), schemas=schemas).input_schema
    assert schema["$defs"]["S60"] == {"properties": {"name": {}}}


def test_schemas_that_all_lead_to_each_other_are_cut_where_they_lie_deepest():
    names = [f"S{i}" for i in range(400)]
    schemas = {
        name: {"properties": {other: reference(other) for other in names[i : i + 40]}}
        for i, name in enumerate(names)
    }
    one = body_tool({"allOf": [reference("S0")]}, schemas=schemas)
    assert len(json.dumps(one.input_schema)) < 17_000
    assert "definitions" in one.extra["trimmed"]
    checked_references(one.input_schema)


@settings(max_examples=20)
@given(
    st.dictionaries(
        st.sampled_from("ABCDE"),
        st.lists(st.sampled_from("ABCDE"), max_size=4),
        min_size=1,
    )
)
def test_any_graph_of_references_is_small_and_whole(graph):
    schemas = {
        name: {"type": "object", "properties": {f"p{i}": reference(to) for i, to in enumerate(tos)}}
        for name, tos in graph.items()
    }
    got = listing({"/a": {"post": _post({"allOf": [reference(min(graph))]})}}, schemas=schemas)
    if got.tools:
        schema = got.tools[0].input_schema
        checked_references(schema)
        assert len(json.dumps(schema)) < 3_000
    else:
        assert "where there is none" in got.skipped[0].reason


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$ref": "https://evil.example/schema.json"}, "must lead to a place in the document"),
        ({"$ref": "common.yaml#/Pet"}, "must lead to a place in the document"),
        (reference("Nobody"), "where there is none"),
        (reference("Circle"), "got a circle"),
        ({"properties": {"x": reference("Bad")}}, "Bad: a schema must be an object, got 'text'"),
        ({"properties": []}, "properties must map names to schemas"),
        ({"anyOf": []}, "anyOf must be a list of schemas"),
        ({"$dynamicRef": "#x"}, "must refer to others by $ref"),
        ("text", "a schema must be an object"),
    ],
)
def test_a_damaged_schema_costs_the_operations_that_need_it(schema, reason):
    schemas = {"Circle": reference("Other"), "Other": reference("Circle"), "Bad": {"items": "text"}}
    got = listing({"/a": {"post": _post(schema), "get": {"operationId": "good"}}}, schemas=schemas)
    assert [tool.name for tool in got.tools] == ["good"]
    assert [skipped.operation for skipped in got.skipped] == ["POST /a"]
    assert reason in got.skipped[0].reason


def _post(schema):
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def test_names_of_definitions_are_never_made_twice():
    assert definition_name("#/components/schemas/Pet") == "Pet"
    others = [
        "#/components/schemas/Pet/properties/a",
        "#/paths/~1a/Pet",
        "#/components/schemas/a b",
        "#/components/schemas/a_b",
        definition_name("#/components/schemas/a b"),
        "#/components/schemas/" + definition_name("#/components/schemas/a b"),
    ]
    assert len({definition_name(one) for one in others}) == len(others)


def test_what_only_answers_show_is_no_argument():
    schemas = {
        "Id": {"type": "string", "readOnly": True},
        "New": {"type": "object", "properties": {"name": {}, "made": reference("Id")}},
        "Item": {
            "allOf": [
                reference("New"),
                {
                    "type": "object",
                    "required": ["id", "name"],
                    "properties": {
                        "id": {"readOnly": True},
                        "password": {"type": "string", "writeOnly": True},
                    },
                },
            ]
        },
    }
    schema = body_tool(reference("Item"), schemas=schemas).input_schema
    assert schema["$defs"]["New"]["properties"] == {"name": {}}
    own = schema["$defs"]["Item"]["allOf"][1]
    assert own["properties"] == {"password": {"type": "string"}}
    assert own["required"] == ["name"]


def test_combinations_are_kept():
    schema = body({"oneOf": [{"type": "string"}, {"allOf": [{"not": {"const": 1}}]}]})
    assert schema == {"oneOf": [{"type": "string"}, {"allOf": [{"not": {"const": 1}}]}]}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        (
            {"type": "string", "enum": ["a"], "nullable": True},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        (
            {"allOf": [{"type": "string"}], "nullable": True, "description": "d"},
            {"description": "d", "anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}]},
        ),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ({"minimum": 1, "exclusiveMinimum": False}, {"minimum": 1}),
        ({"type": "string", "example": "x"}, {"type": "string", "examples": ["x"]}),
        ({"nullable": True}, {}),
    ],
)
def test_what_openapi_3_0_says_in_its_own_way_is_said_in_json_schema(old, new):
    assert body(old, version="3.0.3") == new


def test_beside_a_reference_3_0_ignores_what_3_1_reads():
    schema = {**reference("Text"), "maxLength": 3, "description": "d"}
    schemas = {"Text": {"type": "string"}}
    ref = {"$ref": "#/$defs/Text", "description": "d"}
    assert body(schema, schemas=schemas, version="3.0.3") == ref
    assert body(schema, schemas=schemas) == ref | {"maxLength": 3}


@pytest.mark.parametrize(
    "keyword",
    [
        {"type": "file"},
        {"type": ["string", "string"]},
        {"required": True},
        {"minimum": "0"},
        {"enum": []},
        {"multipleOf": 0},
        {"minLength": -1},
        {"maxItems": True},
        {"pattern": 5},
        {"x-internal": 1},
        {"discriminator": {"propertyName": "kind"}},
        {"xml": {}},
        {"$id": "http://a"},
    ],
)
def test_keywords_that_json_schema_does_not_have_so_stay_out(keyword):
    assert body({"description": "d", **keyword}) == {"description": "d"}


def test_values_that_look_like_schemas_are_left_alone():
    value = {"$ref": "x", "nullable": True, "properties": 5}
    assert body({"const": value, "default": value, "enum": [value]}) == {
        "const": value,
        "default": value,
        "enum": [value],
    }


def test_a_property_may_be_named_like_a_keyword():
    schema = body_tool(
        {"type": "object", "properties": {"$ref": {}, "required": {}, "readOnly": {}}}
    )
    assert set(schema.input_schema["properties"]["body"]["properties"]) == {
        "$ref",
        "required",
        "readOnly",
    }
