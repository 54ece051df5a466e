"""Lists of other frameworks, in and out."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolheads.domain import Tool
from toolheads.errors import ConfigError, DataError
from toolheads.sources.lists import (
    from_anthropic,
    from_langchain,
    from_mcp,
    from_openai,
    provider_names,
    to_anthropic,
    to_langchain,
    to_mcp,
    to_openai,
)

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "Weather of a city."}

CHAT = [{"type": "function", "function": {**WEATHER, "parameters": SCHEMA, "strict": True}}]
RESPONSES = [{"type": "function", **WEATHER, "parameters": SCHEMA, "strict": True}]
ANTHROPIC = [{**WEATHER, "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}}]
MCP = {
    "tools": [
        {
            **WEATHER,
            "inputSchema": SCHEMA,
            "title": "Weather",
            "annotations": {"readOnlyHint": True},
            "outputSchema": {"type": "object"},
            "_meta": {"x": 1},
        }
    ]
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
schemas = st.builds(
    lambda properties, more: {"type": "object", "properties": properties, **more},
    st.dictionaries(st.text(min_size=1, max_size=8), st.just({"type": "string"}), max_size=3),
    st.dictionaries(st.sampled_from(["x-note", "description", "default"]), json_values, max_size=2),
)
plain_names = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)
tools = st.lists(
    st.builds(
        lambda name, description, schema: Tool(name, name, None, description, schema),
        plain_names,
        st.text(max_size=20),
        schemas,
    ),
    max_size=4,
    unique_by=lambda tool: tool.id,
)
any_tools = st.lists(
    st.builds(
        lambda server, name: Tool(f"{server}/{name}" if server else name, name, server),
        st.sampled_from([None, "a", "a_", "ä b"]),
        st.text(alphabet="ab_/-ä.", min_size=1, max_size=70).filter(str.strip),
    ),
    max_size=6,
    unique_by=lambda tool: tool.id,
)

WAYS = {
    "chat": (lambda t: to_openai(t, form="chat"), from_openai),
    "responses": (lambda t: to_openai(t, form="responses"), from_openai),
    "anthropic": (to_anthropic, from_anthropic),
    "mcp": (to_mcp, from_mcp),
}


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=30)
@given(tools=tools)
def test_tools_come_back_from_every_form_as_they_were(way, tools):
    write, read = WAYS[way]
    assert read(json.loads(json.dumps(write(tools), allow_nan=False))) == tools


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=30)
@given(tools=any_tools)
def test_every_tool_goes_out_once_under_a_name_that_providers_take(way, tools):
    write, read = WAYS[way]
    back = read(write(tools))
    assert len({tool.name for tool in back}) == len(tools)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool.name) for tool in back)
    assert [tool.name for tool in back] == list(provider_names(tools))


def test_lists_go_out_as_they_came_with_what_this_package_has_no_name_for():
    assert to_openai(from_openai(CHAT), form="chat") == CHAT
    assert to_openai(from_openai(RESPONSES), form="responses") == RESPONSES
    assert to_anthropic(from_anthropic(ANTHROPIC)) == ANTHROPIC
    assert to_mcp(from_mcp(MCP)) == MCP


def test_all_forms_give_the_same_tool():
    lists = (
        from_openai(CHAT),
        from_openai(RESPONSES),
        from_anthropic(ANTHROPIC),
        from_mcp(MCP),
        from_mcp(MCP["tools"]),
    )
    for (tool,) in lists:
        assert (tool.name, tool.description) == ("get_weather", "Weather of a city.")
        assert tool.input_schema == SCHEMA
    assert from_mcp(MCP)[0].extra["annotations"] == {"readOnlyHint": True}


def test_what_one_provider_alone_understands_is_not_sent_to_another():
    assert "strict" not in to_anthropic(from_openai(CHAT))[0]
    assert "cache_control" not in json.dumps(to_openai(from_anthropic(ANTHROPIC)))


def test_a_source_becomes_the_server_and_part_of_the_name():
    (tool,) = from_openai(CHAT, source="my api")
    assert (tool.id, tool.server) == ("my api/get_weather", "my api")
    (plain,) = from_openai(CHAT, source="weather")
    assert to_openai([plain])[0]["function"]["name"] == "weather__get_weather"


def test_a_tool_without_a_source_keeps_its_name_unless_another_tool_goes_out_under_it():
    alone = Tool("a__b", "a__b")
    assert list(provider_names([alone])) == ["a__b"]
    first, second = provider_names([alone, Tool("a/b", "b", "a")])
    assert second == "a__b"
    assert first.startswith("a__b___")


def test_a_tool_without_a_schema_goes_out_as_one_without_arguments():
    assert to_anthropic([Tool("a", "a")])[0]["input_schema"] == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("read", "entry", "reason"),
    [
        (from_openai, {"type": "web_search"}, "type must be function, got 'web_search'"),
        (from_openai, {"type": "function", "function": []}, "function must be an object"),
        (from_openai, {"type": "function", "name": ""}, "name must be text that is not empty"),
        (from_openai, 5, "a tool must be an object, got 5"),
        (from_openai, {"name": "a", "parameters": []}, "parameters of 'a' must be an object"),
        (from_openai, {"name": "a", "description": 1}, "description of 'a' must be a string"),
        (from_openai, {"name": "a", "parameters": {"x": float("nan")}}, "not a JSON value"),
        (from_openai, {"name": "a\ud800"}, "must hold no lone surrogate"),
        (from_openai, {"name": "a", "description": "x" * 300_000}, "at most 262,144 bytes"),
        (from_anthropic, {"type": "bash_20250124", "name": "bash"}, "type must be custom"),
        (from_mcp, {"name": "a", "inputSchema": 5}, "inputSchema must be an object, got 5"),
    ],
)
def test_a_bad_entry_is_named_and_costs_only_itself_when_skipped(read, entry, reason):
    listed = [{"name": "good"}, entry, {"name": "good"}]
    with pytest.raises(DataError, match=re.escape(reason)) as caught:
        read(listed)
    assert [fault.line for fault in caught.value.faults] == [2, 3]
    faults: list = []
    assert [tool.name for tool in read(listed, skip_bad=True, on_faults=faults.extend)] == ["good"]
    assert reason in faults[0].reason
    assert "name must be there once, got 'good' again" in faults[1].reason


@pytest.mark.parametrize("listed", [None, 5, "x", {"name": "a"}])
def test_what_is_no_list_is_refused(listed):
    for read in (from_openai, from_anthropic, from_mcp):
        with pytest.raises(DataError, match="must be a list"):
            read(listed)


def test_a_form_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match="form must be chat or responses, got 'completions'"):
        to_openai([], form="completions")  # type: ignore[arg-type] # on purpose


def test_two_tools_with_one_id_and_schemas_that_are_no_json_are_refused():
    with pytest.raises(DataError, match="ids of their own, got 'a' twice"):
        to_openai([Tool("a", "a"), Tool("a", "a")])
    with pytest.raises(DataError, match="'a' must be JSON to be listed"):
        to_openai([Tool("a", "a", input_schema={"default": float("inf")})])


def test_langchain_tools_come_in_and_go_out_and_run():
    core = pytest.importorskip("langchain_core.tools")

    def multiply(a: int, b: int = 2) -> int:
        """Multiply two numbers."""
        return a * b

    (tool,) = from_langchain([core.tool(multiply)])
    assert (tool.name, tool.description) == ("multiply", "Multiply two numbers.")
    assert dict(tool.input_schema or {})["required"] == ["a"]
    calls = []
    (back,) = to_langchain([tool], lambda tool, arguments: calls.append((tool.id, arguments)))
    back.invoke({"a": 3})
    assert calls == [("multiply", {"a": 3})]
    assert from_langchain([back]) == [tool]


def test_a_schema_that_refers_to_itself_survives_langchain():
    pytest.importorskip("langchain_core.tools")
    schema = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/tree"}},
        "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    }
    tool = Tool("grow", "grow", None, "Grow.", schema)
    assert from_langchain(to_langchain([tool], lambda *_: None)) == [tool]


def test_something_that_is_no_langchain_tool_is_named():
    pytest.importorskip("langchain_core.tools")
    with pytest.raises(DataError, match="a tool must be one of LangChain, got int"):
        from_langchain([5])
