"""Quick checks take nothing that a validator would refuse, and what clients plainly send."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from toolheads.serving import ServeSettings, schemas
from toolheads.serving.plain_checks import plain_check

BODIES = schemas.bodies(ServeSettings(max_query_chars=12))
SEARCH = plain_check(BODIES["SearchBody"])

values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 60),
    st.floats(-3, 60),
    st.sampled_from(["", " ", "short", "full", "mail", "x" * 13, "x" * 300]),
    st.text(max_size=14),
    st.lists(st.integers(), max_size=2),
)
names = st.sampled_from(
    sorted({name for body in BODIES.values() for name in body["properties"]} | {"other"})
)


@given(st.sampled_from(sorted(BODIES)), st.dictionaries(names, values, max_size=5) | values)
def test_what_is_taken_keeps_its_schema(name, value):
    if plain_check(BODIES[name])(value):
        assert Draft202012Validator(BODIES[name]).is_valid(value)


@pytest.mark.parametrize(
    "body",
    [
        {"query": "send a mail"},
        {"query": "mail", "k": 10},
        {"query": "mail", "k": 1, "schemas": "none", "conversation": "c"},
    ],
)
def test_plain_searches_are_taken(body):
    assert SEARCH(body)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": " "},
        {"query": "x" * 13},
        {"query": 1},
        {"query": "mail", "k": 0},
        {"query": "mail", "k": 51},
        {"query": "mail", "k": True},
        {"query": "mail", "schemas": "long"},
        {"query": "mail", "conversation": ""},
        {"query": "mail", "more": 1},
        ["query"],
        "query",
        None,
    ],
)
def test_others_are_left_to_the_validator(body):
    assert not SEARCH(body)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "properties": {"a": {}}},
        {"type": "object", "properties": {}, "additionalProperties": False, "minProperties": 1},
        {
            "type": "object",
            "properties": {"a": {"type": ["string"]}},
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"a": {"type": "string", "format": "uri"}},
            "additionalProperties": False,
        },
    ],
)
def test_nothing_is_taken_by_a_schema_with_more_than_plain_rules(schema):
    assert not plain_check(schema)({"a": "text"})
