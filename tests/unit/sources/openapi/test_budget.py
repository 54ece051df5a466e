"""Fitting tools into a size."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sources.openapi.descriptions import body_tool, listing

from toolheads.errors import ConfigError
from toolheads.sources.openapi.budget import Trimmer
from toolheads.sources.openapi.document import OperationError
from toolheads.sources.schemas import places


def schema_of(*, words=0, example="", definitions=0, names=5):
    one = {"type": "string", "description": "w " * words, "examples": [example]}
    properties = {f"p{i}": dict(one) for i in range(names)}
    schema = {"type": "object", "properties": properties, "required": ["p0"]}
    if definitions:
        properties["first"] = {"$ref": "#/$defs/d0"}
        schema["$defs"] = {
            f"d{i}": {
                "properties": {f"x{i}": {"type": "string"}, "next": {"$ref": f"#/$defs/d{i + 1}"}}
            }
            for i in range(definitions)
        } | {f"d{definitions}": {"type": "integer"}}
    return schema


def fitted(description, schema, *, most_bytes):
    return Trimmer(most_bytes).fitted(description, schema)


def size(fit):
    texts = (json.dumps(part, ensure_ascii=False) for part in (fit.schema, fit.description))
    return sum(len(text.encode()) for text in texts)


def test_a_tool_that_fits_is_left_as_it_is():
    schema = schema_of(words=5, example="x")
    fit = fitted("Do it.", schema, most_bytes=5_000)
    assert (fit.description, fit.schema, fit.trimmed) == ("Do it.", schema, ())


def test_examples_go_first():
    fit = fitted("", schema_of(words=5, example="x" * 400), most_bytes=1_000)
    assert fit.trimmed == ("examples",)
    assert fit.schema["properties"]["p0"] == {"type": "string", "description": "w " * 5}


def test_then_words_are_cut_and_end_with_an_ellipsis():
    fit = fitted("", schema_of(words=300), most_bytes=2_000)
    assert fit.trimmed == ("examples", "descriptions")
    text = fit.schema["properties"]["p0"]["description"]
    assert text.endswith("…")
    assert len(text) <= 300


def test_then_the_definitions_that_lie_deepest_take_anything():
    fit = fitted("", schema_of(definitions=40), most_bytes=1_500)
    assert fit.trimmed[-1] == "definitions"
    kept = fit.schema["$defs"]
    assert kept["d0"] != {}
    assert {} in kept.values()
    led_to = {i["$ref"].removeprefix("#/$defs/") for _, i in places(fit.schema) if "$ref" in i}
    assert led_to == set(kept)


def test_then_the_largest_arguments_take_anything_under_their_names():
    schema = {"properties": {"a": {"enum": ["x" * 100] * 30}, "b": {"type": "string"}}}
    fit = fitted("", schema, most_bytes=600)
    assert fit.schema["properties"] == {"a": {}, "b": {"type": "string"}}
    assert fit.trimmed[-1] == "properties"


def test_the_tools_own_description_is_shortened_last_of_all_words():
    fit = fitted("w " * 5_000, schema_of(words=3), most_bytes=2_600)
    assert len(fit.description) <= 2_000
    assert size(fit) <= 2_600


def test_a_tool_that_cannot_fit_is_refused():
    with pytest.raises(OperationError, match=r"must fit 500 bytes, got 1,\d\d\d"):
        fitted("", schema_of(names=100), most_bytes=500)


@settings(max_examples=20)
@given(st.integers(0, 200), st.integers(0, 30), st.integers(700, 3_000))
def test_what_is_left_fits_and_takes_what_the_whole_one_takes(words, definitions, most_bytes):
    jsonschema = pytest.importorskip("jsonschema")
    schema = schema_of(words=words, definitions=definitions)
    fit = fitted("Do it.", schema, most_bytes=most_bytes)
    assert size(fit) <= most_bytes
    jsonschema.Draft202012Validator.check_schema(fit.schema)
    jsonschema.validate({"p0": "x", "first": {"x0": "a"}}, fit.schema)


def test_tools_say_what_was_trimmed_and_oversized_ones_are_named():
    wide = {"type": "object", "properties": {f"name_{i}": {"type": "string"} for i in range(200)}}
    content = {"application/json": {"schema": wide}}
    paths = {"/a": {"post": {"requestBody": {"required": True, "content": content}}}}
    got = listing(paths, settings={"most_tool_bytes": 1_000})
    assert got.tools == ()
    assert "must fit 1,000 bytes" in got.skipped[0].reason
    long = body_tool(
        {"properties": {"a": {"description": "w " * 900}}}, settings={"most_tool_bytes": 1_000}
    )
    assert long.extra["trimmed"] == ["descriptions"]


def test_a_size_that_no_tool_fits_is_refused():
    with pytest.raises(ConfigError, match="max_tool_bytes must be >= 500, got 10"):
        listing({}, settings={"most_tool_bytes": 10})
