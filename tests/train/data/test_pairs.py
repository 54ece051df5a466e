"""Label-free pairs: which sentence asks, what is left to be found, and what is no pair."""

from __future__ import annotations

import pytest

from toolheads.domain import Tool
from toolheads.texts import TextSettings
from toolheads_train.data.pairs import label_free_pairs

pytestmark = pytest.mark.train

PLAIN = TextSettings()
SCHEMA = {"properties": {"city": {"type": "string", "description": "name of the city"}}}


def tool(description="Get the forecast of a city. Covers ten days.", **fields):
    defaults = {"id": "t", "name": "getForecast", "server": "weather", "input_schema": SCHEMA}
    return Tool(**{**defaults, "description": description, **fields})


def texts(*tools, settings=PLAIN, **options):
    pairs = label_free_pairs(tools, settings, **options)
    return [(pair.query_text, pair.tool_text) for pair in pairs]


def test_the_first_sentence_asks_for_the_rest_of_the_tool():
    assert texts(tool()) == [
        (
            "Get the forecast of a city.",
            "weather get Forecast: Covers ten days.\nParameters: city: name of the city",
        )
    ]


def test_the_sentence_is_nowhere_in_the_text_it_asks_for():
    twice = "Get the  forecast\tof a city.\nNote. Get the forecast of a city. Ten days."
    ((query, positive),) = texts(tool(twice))
    assert query == "Get the forecast of a city."
    assert query not in positive
    assert "Note. Ten days." in positive


def test_a_sentence_of_fewer_than_15_characters_asks_for_nothing():
    assert texts(tool("Get item data. And more.")) == []
    assert len(texts(tool("Get items data. And more."))) == 1


def test_parameters_alone_are_enough_to_be_found_by():
    assert texts(tool("Get the forecast of a city.", server=None)) == [
        (
            "Get the forecast of a city.",
            "get Forecast\nParameters: city: name of the city",
        )
    ]


def test_server_and_name_are_enough_but_a_name_alone_is_not():
    bare = {"description": "Get the forecast of a city.", "input_schema": None}
    assert texts(tool(**bare)) == [("Get the forecast of a city.", "weather get Forecast")]
    assert texts(tool(**bare, server=None)) == []
    assert texts(tool(**bare, server="")) == []


def test_tools_that_are_named_are_left_out():
    both = [tool(id="a"), tool("Delete a forecast. For ever.", id="b", name="delete")]
    assert [pair.tool.id for pair in label_free_pairs(both, PLAIN, skip={"a"})] == ["b"]


def test_of_tools_that_look_the_same_without_the_sentence_one_is_kept():
    one = tool("Get the forecast of a city.", id="a")
    other = tool("Fetch tomorrow's weather.", id="b")
    assert [pair.tool.id for pair in label_free_pairs([one, other], PLAIN)] == ["a"]


def test_the_formats_and_the_instruction_of_the_encoder_are_used():
    settings = TextSettings(tool_format="tool-json/v1", instruction="Find the tool.")
    ((query, positive),) = texts(tool(), settings=settings)
    assert query == "Instruct: Find the tool.\nQuery:Get the forecast of a city."
    assert positive.startswith('{"server": "weather", "name": "getForecast", "description": "Cov')


def test_a_sentence_of_a_script_without_spaces_is_a_sentence():
    ((query, positive),) = texts(tool("获取一个城市未来十天的详细天气预报信息。需要城市名。"))
    assert query == "获取一个城市未来十天的详细天气预报信息。"
    assert "需要城市名。" in positive


def test_a_name_asks_for_the_tool_without_it():
    one = tool("Use getForecast or get  Forecast for the weather of a city.")
    ((query, positive),) = texts(one, kind="name")
    assert query == "get Forecast"
    assert positive == (
        "weather: Use or for the weather of a city.\nParameters: city: name of the city"
    )


def test_a_name_of_one_word_or_a_tool_without_description_asks_for_nothing():
    assert texts(tool("Get the forecast of a city.", name="search"), kind="name") == []
    assert texts(tool("Short."), kind="name") == []


def test_a_nameless_tool_without_a_server_is_a_tool():
    ((_, positive),) = texts(tool("Covers ten days.", server=None, input_schema=None), kind="name")
    assert positive == "tool: Covers ten days."


def test_parameters_ask_for_name_and_description():
    schema = {"properties": {f"p{i}": {"description": f"the part number {i}"} for i in range(4)}}
    ((query, positive),) = texts(tool(input_schema=schema), kind="parameters")
    assert query == "the part number 0. the part number 1. the part number 2."
    assert positive == "weather get Forecast: Get the forecast of a city. Covers ten days."


def test_parameters_without_descriptions_ask_for_nothing():
    bare = {"properties": {"city": {}, "day": {"description": "day"}}}
    assert texts(tool(input_schema=bare), kind="parameters") == []
