from __future__ import annotations

import pytest

from toolheads.data import Dataset
from toolheads.data.shared import COUNTS, shared_tools, shared_tools_of, tool_key
from toolheads.domain import Query, Tool

TOOLS = (
    Tool("a", "get_weather", "one", "Tells the weather."),
    Tool("b", "Get_Weather", "two", "  tells the\nWEATHER. "),
    Tool("c", "get_weather", "one", "Tells the weather of yesterday."),
    Tool("d", "send_mail", "one", ""),
)
DATA = Dataset(
    "set",
    TOOLS,
    (
        Query("1", "is it cold", {"a": 1, "c": 1}),
        Query("2", "was it cold", {"c": 1, "d": 0}),
        Query("3", "mail Ada", {"d": 1}, split="train"),
    ),
    {"tools.jsonl": "aa", "queries.jsonl": "bb"},
)


def test_a_tool_is_known_by_name_and_description_whatever_its_server_case_and_blanks():
    assert tool_key(TOOLS[0]) == tool_key(TOOLS[1])
    assert tool_key(TOOLS[0]) != tool_key(TOOLS[2])
    assert tool_key(Tool("x", "a b")) != tool_key(Tool("x", "a", description="b"))


def test_tools_are_counted_by_their_part_in_training():
    found = shared_tools(DATA, {tool_key(TOOLS[0]), tool_key(TOOLS[3])}, {tool_key(TOOLS[0])})
    # a, b and d of four; of the relevant a and c (d is relevant to a training query only) a
    assert (found.tools, found.tools_in_training) == (4, 3)
    assert (found.relevant, found.relevant_in_training, found.relevant_labelled) == (2, 1, 1)


def test_nothing_is_shared_with_an_empty_corpus():
    found = shared_tools(DATA, (), ())
    assert (found.tools_in_training, found.relevant_in_training) == (0, 0)
    assert found.relevant_labelled == 0


def test_a_record_is_read_for_the_very_files_it_was_made_of():
    record = {"set": shared_tools(DATA, {tool_key(TOOLS[0])}, ()).to_json()}
    assert shared_tools_of(record, DATA) == dict(zip(COUNTS, (4, 2, 2, 1, 0), strict=True))
    other = Dataset("set", TOOLS, DATA.queries, {"tools.jsonl": "aa", "queries.jsonl": "cc"})
    assert shared_tools_of(record, other) is None
    renamed = Dataset("other", TOOLS, DATA.queries, DATA.digest)
    assert shared_tools_of(record, renamed) is None


@pytest.mark.parametrize(
    "record",
    [
        *(None, [], "set", {"set": 3}, {"set": {"sha256": DATA.digest}}),
        {"set": dict.fromkeys(COUNTS, "many") | {"sha256": DATA.digest}},
    ],
)
def test_a_record_of_another_form_counts_as_not_known(record):
    assert shared_tools_of(record, DATA) is None
