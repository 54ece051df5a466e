import json
from typing import Any

import pytest

from toolheads.decide import read_tools_json
from toolheads.errors import DataError


def read(*entries):
    return read_tools_json(json.dumps(entries))


TOOL = {"server": "a", "name": "x", "description": "d"}


def test_a_tool_has_its_id_from_server_and_name_and_keeps_what_it_came_with():
    schema: dict[str, Any] = {"properties": {"p": {}}}
    (one,) = read(TOOL | {"inputSchema": schema, "annotations": {"readOnlyHint": True}, "z": 1})
    assert (one.id, one.identity, one.input_schema) == ("a/x", ("a", "x"), schema)
    assert one.extra == {"annotations": {"readOnlyHint": True}, "z": 1}


def test_tools_of_one_identity_get_ids_of_their_own():
    ids = [tool.id for tool in read(TOOL, TOOL, TOOL | {"id": "a/x#2"}, TOOL)]
    assert ids == ["a/x", "a/x#2", "a/x#2#2", "a/x#3"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": 5}, "name must be a string, got 5"),
        ({"id": " "}, "id must be a string that is not blank"),
        ({"input_schema": {}, "inputSchema": {}}, "only one of input_schema and inputSchema"),
        ({"annotations": None}, "annotations must be an object, got null"),
        ({"annotations": {"readOnlyHint": "yes"}}, "readOnlyHint must be true, false or null"),
    ],
)
def test_what_breaks_a_rule_is_told_with_the_place_of_the_tool(change, reason):
    with pytest.raises(DataError, match=f"tool 2: {reason}"):
        read(TOOL, TOOL | change)


@pytest.mark.parametrize("missing", list(TOOL))
def test_a_missing_field_is_told(missing):
    with pytest.raises(DataError, match=f"tool 1: {missing} is missing"):
        read({name: value for name, value in TOOL.items() if name != missing})


@pytest.mark.parametrize(
    "text", ["", "{}", '{"tools": []}', "[1]", "[NaN]", "[" * 100_000, "[" * 200 + "]" * 200]
)
def test_what_is_no_array_of_tools_is_refused(text):
    with pytest.raises(DataError):
        read_tools_json(text)


def test_every_fault_is_told_at_once():
    with pytest.raises(DataError) as error:
        read({"server": "a"}, 7)
    assert len(error.value.faults) == 3


def test_hints_that_are_null_and_schemas_that_are_no_objects_are_let_through():
    one, two = read(TOOL | {"annotations": {"readOnlyHint": None}}, TOOL | {"inputSchema": [1]})
    assert one.input_schema is two.input_schema is None
