import pytest

from toolheads.data.jsonl import parse_object, to_line
from toolheads.data.records import from_tool, to_tool
from toolheads.data.releases.documentation import to_documented_tool, typed_parameter


def schema_of(**document):
    return to_documented_tool("t", {"name": "n", **document}).input_schema


def test_a_list_of_parameters_with_schemas_becomes_a_schema():
    listed = [
        {"name": "user", "in": "query", "schema": {"type": "str"}, "description": "Who"},
        {"name": "age", "type": "int", "required": True},
    ]
    assert schema_of(parameters=listed) == {
        "type": "object",
        "properties": {
            "user": {"type": "string", "description": "Who"},
            "age": {"type": "integer"},
        },
        "required": ["age"],
    }


def test_parameters_named_properties_are_no_schema():
    about = {"ids": {"type": "str"}, "properties": {"type": "str", "description": "d"}}
    schema = schema_of(parameters=about)
    assert set(schema["properties"]) == {"ids", "properties"}


def test_a_type_that_json_schema_lacks_is_left_out():
    schema = schema_of(parameters={"when": {"type": "datetime", "description": "d"}})
    assert schema["properties"] == {"when": {"description": "d"}}


@pytest.mark.parametrize("parameters", ["(image: str)", None, 3])
def test_parameters_that_are_neither_give_no_schema(parameters):
    assert schema_of(parameters=parameters) is None


def test_a_function_is_unwrapped():
    tool = to_documented_tool("t", {"type": "function", "function": {"name": "f"}})
    assert tool.name == "f"


def test_python_text_is_read_as_an_object():
    assert to_documented_tool("t", "{'name': 'f', 'description': None}").name == "f"


def test_numbers_and_texts_that_json_cannot_hold_are_mended():
    description = r'"description": "\ud83c\udf75 \ud83c"'
    text = f'{{"name": "n", {description}, "parameters": {{"x": {{"default": NaN}}}}}}'
    tool = to_documented_tool("t", text)
    assert tool.description == "\N{TEACUP WITHOUT HANDLE} \N{REPLACEMENT CHARACTER}"
    assert to_tool(parse_object(to_line(from_tool(tool)))) == tool


@pytest.mark.parametrize(
    ("text", "schema", "required"),
    [
        ("(string) Which leaf", {"type": "string", "description": "Which leaf"}, True),
        ("(optional, number) Cups", {"type": "number", "description": "Cups"}, False),
        ("(number, Optional)", {"type": "number"}, False),
        ("No type at all", {"description": "No type at all"}, False),
    ],
)
def test_a_typed_parameter_is_read(text, schema, required):
    assert typed_parameter(text) == (schema, required)
