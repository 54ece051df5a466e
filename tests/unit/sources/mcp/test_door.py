from __future__ import annotations

import math

import pytest

pytest.importorskip("mcp", reason="needs the extra [mcp]")

from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types.methods import validate_server_result
from tests.mcp_peer import entry

from toolheads.data.records import from_tool, to_tool
from toolheads.sources.mcp.door import EntryError, checked_entry, mended_page, to_tools

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (5, "a tool must be an object, got 5"),
        ({"inputSchema": {}}, "name must be 1 to 256 characters, got null"),
        (entry(" "), "name must be 1 to 256 characters"),
        (entry("a" * 257), "name must be 1 to 256 characters"),
        (entry("a\nb"), "name must be printable"),
        (entry("a\u2028"), "name must be printable"),
        (entry("a", inputSchema=[]), "inputSchema of 'a' must be an object, got []"),
        (entry("a", inputSchema={"type": "string"}), "inputSchema.type"),
        (entry("a", inputSchema={"type": "object", "properties": []}), "inputSchema.properties"),
        (entry("a", inputSchema={"type": "object", "required": "b"}), "inputSchema.required"),
        (entry("a", description=5), "description"),
        (entry("a", description="\ud800"), "lone surrogate"),
        (entry("a", description="x" * 300_000), "at most 262,144 bytes"),
        (entry("a", inputSchema={"type": "object", "maximum": math.nan}), "not a JSON value"),
    ],
)
def test_an_entry_that_cannot_be_used_is_left_out_with_the_reason(bad, reason):
    page, reasons = mended_page({"tools": [entry("b"), bad]})
    assert [kept["name"] for kept in page["tools"]] == ["b"]
    assert len(reasons) == 1
    assert reasons[0].startswith("entry 2: ")
    assert reason in reasons[0]


def test_a_schema_nested_too_deep_is_left_out():
    schema: dict = {"type": "object"}
    for _ in range(200):
        schema = {"type": "object", "properties": {"p": schema}}
    with pytest.raises(EntryError, match="nest at most 100"):
        checked_entry(entry("a", inputSchema=schema))


@pytest.mark.parametrize("schema", [None, {}, {"properties": {"p": {}}}])
def test_a_schema_without_a_type_is_that_of_an_object(schema):
    checked = checked_entry({"name": "a", "inputSchema": schema})
    assert checked["inputSchema"] == {"type": "object"} | (schema or {})
    assert checked_entry({"name": "a"})["inputSchema"] == {"type": "object"}


def test_what_a_tool_can_do_without_is_left_out_where_it_is_junk():
    odd = entry("a", title=5, annotations={"readOnlyHint": "maybe"}, outputSchema=[], icons="x")
    assert checked_entry(odd) == entry("a")
    fine = entry("a", title="A", annotations={"readOnlyHint": True})
    assert checked_entry(fine | {"outputSchema": 1}) == fine


def test_a_list_that_is_none_gives_no_tools_and_says_so():
    assert mended_page({"tools": {}}) == ({"tools": []}, ["tools must be a list, got {}"])
    assert mended_page({})[1] == ["tools must be a list, got null"]


def test_a_cursor_that_is_no_text_ends_the_list_and_is_told():
    page, reasons = mended_page({"tools": [], "nextCursor": 5})
    assert "nextCursor" not in page
    assert "later pages are missing" in reasons[0]


def test_the_first_of_two_tools_with_one_name_stays():
    entries = [entry("a", description="first"), entry("a"), entry("b")]
    tools, reasons = to_tools("s", entries, most=10)
    assert [(tool.id, tool.description) for tool in tools] == [("s/a", "first"), ("s/b", "")]
    assert reasons == ["name must be listed once, got 'a' again"]


def test_tools_beyond_the_limit_are_left_out_and_counted():
    tools, reasons = to_tools("s", [entry(str(n)) for n in range(5)], most=3)
    assert len(tools) == 3
    assert reasons == ["a server must list at most 3 tools, got 2 more"]


def test_a_tool_keeps_what_the_server_says_of_it():
    hints = {"readOnlyHint": True}
    (tool,), _ = to_tools(
        "a/b", [entry("x", title="X", annotations=hints, outputSchema={"type": "object"})], most=9
    )
    assert tool.id == "a%2Fb/x"
    assert tool.extra == {
        "kind": "mcp",
        "title": "X",
        "annotations": hints,
        "output_schema": {"type": "object"},
    }


@settings(max_examples=50)
@given(JSON | st.dictionaries(st.sampled_from([*entry("a"), "description", "title"]), JSON))
def test_whatever_is_listed_what_passes_can_be_parsed_and_written(odd):
    page, reasons = mended_page({"tools": [odd]})
    assert len(page["tools"]) + len(reasons) == 1
    validate_server_result("tools/list", "2025-11-25", page)
    for tool in to_tools("s", page["tools"], most=9)[0]:
        assert to_tool(from_tool(tool)) == tool
