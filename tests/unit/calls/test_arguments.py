"""Arguments against schemas: what is refused, what is let through, and that it always ends."""

import json
import socket
import time

import pytest

from toolheads.calls.arguments import ArgumentChecker
from toolheads.domain import Tool

pytest.importorskip("jsonschema")

CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1, "pattern": "^[A-Z]"},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "units": {"enum": ["metric", "imperial"]},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "place": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["lat"]}]},
    },
    "required": ["city"],
    "additionalProperties": False,
}


def problem(schema, arguments, **settings):
    tool = Tool("a/b", "b", "a", input_schema=schema)
    return ArgumentChecker(**settings).problem(tool, arguments)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"city": "Oslo", "days": 3, "units": "metric", "tags": ["a", "b"]}, None),
        ({}, "arguments must have city, got none"),
        ({"days": 3}, "arguments must have city, got days"),
        ({"city": 5}, "arguments.city must be of type string, got 5"),
        ({"city": "Oslo", "days": 0}, "arguments.days must be >= 1, got 0"),
        ({"city": "Oslo", "days": True}, "arguments.days must be of type integer, got true"),
        (
            {"city": "Oslo", "units": "kelvin"},
            'arguments.units must be one of ["metric", "imperial"], got "kelvin"',
        ),
        ({"city": "oslo"}, 'arguments.city must match the pattern "^[A-Z]", got "oslo"'),
        ({"city": "Oslo", "tags": ["a", 1]}, "arguments.tags[1] must be of type string, got 1"),
        ({"city": "Oslo", "tags": ["a", "a"]}, 'arguments.tags must have no item twice, got ["a"'),
        ({"city": "Oslo", "zip": 1}, "arguments must have city, days, units, tags, place only"),
        ({"city": "Oslo", "place": {"lon": 1}}, "arguments.place"),
    ],
)
def test_a_line_names_the_place_and_the_rule(arguments, expected):
    got = problem(CITY, arguments)
    if expected is None:
        assert got is None
    else:
        assert got is not None
        assert got.startswith(expected)
        assert "\n" not in got


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([1], "must be an object"),
        ("x", "must be an object"),
        ({"x": float("nan")}, "must be JSON values"),
        ({"x": object()}, "must be JSON values"),
        ({"x": "bad \ud800 char"}, "no lone surrogate"),
        ({"x": "y" * 1_100_000}, "must have at most 1,048,576 bytes"),
    ],
)
def test_what_is_no_json_object_or_too_large_is_refused_whatever_the_schema(arguments, expected):
    assert expected in problem(None, arguments)
    assert expected in problem({"type": "string", "pattern": 5}, arguments)


@pytest.mark.parametrize("levels", [150, 100_000])
def test_arguments_that_nest_without_end_are_refused(levels):
    inner: list = []
    for _ in range(levels):
        inner = [inner]
    assert problem(None, {"z": inner}).startswith("arguments must")


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        {"type": "strin"},
        {"properties": []},
        {"$ref": "http://127.0.0.1:1/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "#/nowhere"},
        {"$ref": "#"},
        {"$dynamicRef": "#x"},
        {"$schema": "http://127.0.0.1:1/dialect", "$id": "http://[bad"},
        {"$schema": 5},
        {"properties": {"x": {"pattern": "(a+)+$"}}},
        {"patternProperties": {"(x+)+$": {"type": "array"}}, "additionalProperties": False},
        {"patternProperties": {"\\p{L}": {"type": "array"}}, "unevaluatedProperties": False},
        {"properties": {"x": {"multipleOf": 0}}},
        {"properties": {"x": {"type": "object"}}, "allOf": "no"},
        {"properties": {"x": {"description": "y" * 400_000}}},
    ],
)
def test_a_schema_that_cannot_be_checked_against_lets_the_server_decide(schema):
    assert problem(schema, {"x": "a" * 40 + "!"}) is None


def test_no_reference_is_ever_fetched(monkeypatch):
    def refuse(*_args, **_kwargs):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "create_connection", refuse)
    assert problem({"properties": {"x": {"$ref": "http://example.invalid/a"}}}, {"x": 1}) is None


def test_references_inside_the_schema_are_followed_recursive_ones_too():
    schema = {
        "properties": {"tree": {"$ref": "#/$defs/node"}},
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"next": {"$ref": "#/$defs/node"}, "n": {"type": "integer"}},
            }
        },
    }
    assert problem(schema, {"tree": {"next": {"next": {"n": 1}}}}) is None
    assert problem(schema, {"tree": {"next": {"next": {"n": "1"}}}}) == (
        'arguments.tree.next.next.n must be of type integer, got "1"'
    )


def test_a_schema_that_doubles_with_every_reference_ends():
    names = {f"s{i}": {"allOf": [{"$ref": f"#/$defs/s{i + 1}"}] * 2} for i in range(60)}
    schema = {"$ref": "#/$defs/s0", "$defs": names | {"s60": {"type": "object"}}}
    start = time.process_time()
    assert problem(schema, {}) is None
    assert time.process_time() - start < 10, "an upper bound that no machine misses"


def test_a_long_list_of_objects_that_must_differ_ends():
    schema = {"properties": {"x": {"uniqueItems": True}}}
    items = [{"n": i} for i in range(50_000)]
    assert problem(schema, {"x": items}) is None
    assert "no item twice" in problem(schema, {"x": [*items, {"n": 0}]})


def test_true_and_one_are_different_items():
    assert problem({"properties": {"x": {"uniqueItems": True}}}, {"x": [1, True]}) is None


def test_many_steps_end_the_check_and_let_the_call_through():
    schema = {"properties": {"x": {"items": {"type": "string"}}}}
    assert "must be of type string" in problem(schema, {"x": ["a"] * 50 + [1]})
    assert problem(schema, {"x": ["a"] * 50 + [1]}, most_steps=20) is None


def test_a_property_named_like_a_keyword_is_a_property():
    schema = {"properties": {"pattern": {"type": "integer"}, "$ref": {"type": "integer"}}}
    assert "arguments.pattern must be of type integer" in problem(schema, {"pattern": "x"})
    assert "must be of type integer" in problem(schema, {"$ref": "x"})


def test_older_drafts_are_read_as_they_are_meant():
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "properties": {"x": {"minimum": 1, "exclusiveMinimum": True}},
    }
    assert problem(schema, {"x": 1}) is not None
    assert problem(schema, {"x": 2}) is None


def test_a_schema_is_prepared_once_and_anew_when_it_changes():
    checker = ArgumentChecker()
    old = Tool("a/b", "b", "a", input_schema={"required": ["x"]})
    new = Tool("a/b", "b", "a", input_schema={"required": ["y"]})
    assert [checker.problem(tool, {}) for tool in (old, new, old)] == [
        f"arguments must have {name}, got none" for name in "xyx"
    ]


def test_a_long_value_is_shown_short():
    got = problem(CITY, {"city": "Oslo", "units": ["x" * 10_000]})
    assert len(got) < 300
    assert json.dumps("…", ensure_ascii=False)[1] in got
