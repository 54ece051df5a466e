import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.domain import Tool
from toolheads.errors import ConfigError
from toolheads.texts import TextSettings, format_query, format_tool
from toolheads.texts.words import identifier_words

FORMATS = ["tool/v1", "tool-json/v1", "tool-sentence/v1"]
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Name of the city. In English."},
        "days": {"type": "integer"},
    },
}
WEATHER = Tool("t", "getForecast", "weather-hub", "Get the\nforecast.", SCHEMA)


def test_a_tool_is_written_with_server_name_description_and_parameters():
    assert format_tool(WEATHER, TextSettings()) == (
        "weather hub get Forecast: Get the forecast.\n"
        "Parameters: city: Name of the city. In English.; days"
    )


def test_a_tool_without_description_or_schema_is_its_name():
    assert format_tool(Tool("t", "create_issue"), TextSettings()) == "create issue"
    assert (
        format_tool(Tool("t", "create_issue", description="  "), TextSettings()) == "create issue"
    )


def test_the_schema_shrinks_before_the_description():
    sizes = {
        "weather hub get Forecast: Get the forecast.\nParameters: city: Name of the city; days": 90,
        "weather hub get Forecast: Get the forecast.\nParameters: city; days": 70,
        "weather hub get Forecast: Get the forecast.": 45,
        "weather hub get Forecast: Get": 29,
        "weather hub get Forecast": 5,
    }
    for text, budget in sizes.items():
        assert format_tool(WEATHER, TextSettings(budget=budget)) == text


def test_the_json_format_is_json_with_the_server_first():
    text = format_tool(WEATHER, TextSettings(tool_format="tool-json/v1"))
    assert list(json.loads(text)) == ["server", "name", "description", "inputSchema"]


def test_the_json_format_flattens_the_schema_and_then_drops_it():
    flat = {"city": "Name of the city. In English.", "days": ""}
    settings = [TextSettings(tool_format="tool-json/v1", budget=b) for b in (180, 90)]
    small, none = (json.loads(format_tool(WEATHER, s)) for s in settings)
    assert small["inputSchema"] == flat
    assert "inputSchema" not in none


def test_the_sentence_format_is_that_of_the_tool_picker():
    schema: dict[str, object] = {
        "properties": {"start_time": {}, "Zed": {}, "b": {"properties": {"inner": {}}}}
    }
    tool = Tool("t", "read_my-file", "files", "Read a file.", schema)
    settings = TextSettings(tool_format="tool-sentence/v1")
    text = "read my-file. Read a file.. parameters: Zed, b, start_time"
    assert format_tool(tool, settings) == text
    assert format_tool(Tool("t", "x_y", "files"), settings) == "x y"


def test_a_tool_called_description_keeps_its_name():
    tool = Tool("t", "description", "description", "x" * 100)
    text = format_tool(tool, TextSettings(tool_format="tool-json/v1", budget=1))
    assert text.startswith('{"server": "description", "name": "description"')


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": []},
        {"properties": {"a": "odd"}},
        {"properties": {"a": {"description": 5}}},
    ],
)
@pytest.mark.parametrize("tool_format", FORMATS)
def test_an_odd_schema_is_no_reason_to_fail(schema, tool_format):
    text = format_tool(Tool("t", "n", input_schema=schema), TextSettings(tool_format=tool_format))
    assert "n" in text


names = st.text(min_size=1, max_size=20).filter(str.strip)
properties = st.dictionaries(
    st.text(max_size=8), st.fixed_dictionaries({"description": st.text(max_size=30)}), max_size=4
)
tools = st.builds(
    Tool,
    id=st.just("t"),
    name=names,
    server=st.none() | st.text(max_size=10),
    description=st.text(max_size=80),
    input_schema=st.none() | properties.map(lambda p: {"properties": p}),
)


@pytest.mark.parametrize("tool_format", FORMATS)
@given(tool=tools, budget=st.integers(1, 250))
def test_the_name_is_never_cut_and_the_budget_is_kept_if_the_name_allows(tool_format, tool, budget):
    text = format_tool(tool, TextSettings(tool_format=tool_format, budget=budget))
    if tool_format == "tool/v1":
        head = " ".join(identifier_words(part) for part in (tool.server, tool.name) if part)
    elif tool_format == "tool-sentence/v1":
        spaced = tool.name.replace("_", " ")
        head = spaced if spaced.strip() else ""
    else:
        names = {"server": tool.server, "name": tool.name} if tool.server else {"name": tool.name}
        head = json.dumps(names, ensure_ascii=False).removesuffix("}") + ", "
    assert text.startswith(head)
    assert text.strip()
    assert len(text) <= max(budget, len(head))


@given(tool=tools, budget=st.integers(1, 250))
def test_a_larger_budget_never_shortens_the_text(tool, budget):
    small, large = (format_tool(tool, TextSettings(budget=b)) for b in (budget, budget + 50))
    assert len(small) <= len(large)


def test_the_query_format_carries_the_instruction():
    assert format_query("x", TextSettings()) == "x"
    assert format_query("x", TextSettings(instruction="Find tools")) == (
        "Instruct: Find tools\nQuery:x"
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"tool_format": "tool/v9"}, "must be one of tool-json/v1, tool-sentence/v1, tool/v1"),
        ({"query_format": "q"}, "query_format must be one of query/v1, got 'q'"),
        ({"budget": 0}, "budget must be >= 1, got 0"),
    ],
)
def test_settings_that_break_their_rule_are_refused(settings, reason):
    with pytest.raises(ConfigError, match=reason):
        TextSettings(**settings)
