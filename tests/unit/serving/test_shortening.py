"""Schemas made short enough for a model to read."""

from __future__ import annotations

import json

from toolheads.serving.shortening import MOST_CHARS, MOST_PROPERTIES, shortened


def schema_of(n, words, **more):
    properties = {
        f"p{i}": {"type": "string", "description": words, "default": words, **more}
        for i in range(n)
    }
    return {"type": "object", "description": "All.", "properties": properties, "required": ["p0"]}


def chars(schema):
    return len(json.dumps(schema))


def test_what_fits_is_given_back_itself():
    schema = schema_of(3, "short")
    assert shortened(schema) is schema


def test_words_deep_inside_go_first():
    inner = schema_of(10, "word " * 60)
    schema = {"type": "object", "properties": {"outer": {**inner, "description": "Keep me."}}}
    short = shortened(schema)
    assert short["properties"]["outer"]["description"] == "Keep me."
    assert set(short["properties"]["outer"]["properties"]["p0"]) == {"type"}


def test_then_all_words_go():
    short = shortened(schema_of(20, "word " * 60, enum=["a", "b"]))
    assert short["properties"]["p7"] == {"type": "string", "enum": ["a", "b"]}
    assert "description" not in short


def test_a_property_that_is_called_description_stays():
    schema = schema_of(10, "word " * 100)
    schema["properties"]["description"] = {"type": "string", "description": "word " * 100}
    assert "description" in shortened(schema)["properties"]


def test_at_last_names_and_types_are_left_the_required_ones_first():
    schema = schema_of(200, "word", enum=["value " * 10])
    schema["required"] = ["p199", "p0"]
    short = shortened(schema)
    assert list(short["properties"])[:2] == ["p199", "p0"]
    assert len(short["properties"]) == MOST_PROPERTIES
    assert short["properties"]["p0"] == {"type": "string"}
    assert chars(short) <= MOST_CHARS


def test_what_is_no_schema_of_an_object_is_survived():
    odd = {"properties": ["x" * 5000], "required": "p0"}
    assert shortened(odd) == {"type": "object", "properties": {}}
    assert shortened({"properties": {"p": True}, "required": None, "x": "y" * 5000}) == {
        "type": "object",
        "properties": {"p": {}},
    }
