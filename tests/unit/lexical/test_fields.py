from collections import Counter

import pytest
from hypothesis import given
from tests.unit.lexical.strategies import catalogues

from toolheads.domain import Tool
from toolheads.errors import ConfigError
from toolheads.lexical import FIELDS, field_terms, query_terms

TOOL = Tool(
    "t",
    "getForecast",
    "weather-hub",
    "The forecast of a city.",
    {"properties": {"cityName": {"description": "Name of the city"}, "at": {}}},
)


@pytest.mark.parametrize(
    ("field", "terms"),
    [
        ("name", ["getforecast", "get", "forecast"]),
        ("server", ["weather", "hub"]),
        ("description", ["forecast", "city"]),
        ("parameters", ["cityname", "city", "name", "name", "city", "at"]),
    ],
)
def test_stop_words_stay_in_names_alone(field, terms):
    assert field_terms(TOOL, field) == terms


@given(catalogues())
def test_the_whole_text_has_the_terms_of_all_fields(tools):
    for tool in tools:
        parts = sum((Counter(field_terms(tool, f)) for f in FIELDS if f != "text"), Counter())
        assert Counter(field_terms(tool, "text")) == parts


@pytest.mark.parametrize("schema", [None, {}, {"properties": None}, {"properties": [1]}, {"a": 1}])
def test_an_odd_schema_has_no_parameters(schema):
    assert field_terms(Tool("t", "n", input_schema=schema), "parameters") == []


def test_terms_fold_on_demand():
    assert field_terms(Tool("t", "listMeetings"), "name", stem="light") == [
        "listmeet",
        "list",
        "meet",
    ]


def test_an_unknown_field_is_refused():
    with pytest.raises(ConfigError, match=r"field must be one of name, .*, got 'title'"):
        field_terms(TOOL, "title")


def test_a_query_keeps_stop_words_only_if_it_has_nothing_else():
    assert query_terms("what is the weather") == ["weather"]
    assert query_terms("who is it") == ["who", "is", "it"]
    assert query_terms("雨") == ["雨"]
    assert query_terms("!") == []
