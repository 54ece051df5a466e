from __future__ import annotations

import timeit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.catalogue import api_name
from toolheads.domain import Tool
from toolheads.retrieval.naming import Names

TOOLS = [
    Tool("github/create_issue", "create_issue", "github"),
    Tool("gitlab/create_issue", "create_issue", "gitlab"),
    Tool("web/search", "search", "web"),
    Tool("getWeather", "getWeather"),
    Tool("docs/get-library-docs", "get-library-docs", "docs"),
    Tool("Google Maps/geo.code", "geo.code", "Google Maps"),
    Tool("mail/e-mail", "e-mail", "mail"),
    Tool("org/@scope/list_all", "@scope/list_all", "org"),
    Tool("create", "create"),
]
NAMES = Names(TOOLS)


def named(text):
    return sorted(NAMES.in_text(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("call github/create_issue now", ["github/create_issue"]),
        ("call github__create_issue, please", ["github/create_issue"]),
        ("use create_issue.", ["github/create_issue", "gitlab/create_issue"]),
        ("use (gitlab/create_issue)", ["gitlab/create_issue"]),
        ("run getWeather for Izmir", ["getWeather"]),
        ("ask get-library-docs", ["docs/get-library-docs"]),
        ("with Google Maps/geo.code: find it", ["Google Maps/geo.code"]),
        ("geo.code", ["Google Maps/geo.code"]),
        ("@scope/list_all of them", ["org/@scope/list_all"]),
        ("the `search` tool", ["web/search"]),
        ("search", ["web/search"]),
        ("  `e-mail` ", ["mail/e-mail"]),
        ("web/search and then getWeather", ["web/search", "getWeather"]),
    ],
)
def test_a_tool_is_named_by_id_api_name_or_plain_name(text, expected):
    assert named(text) == sorted(expected)


@pytest.mark.parametrize(
    "text",
    [
        "search the web for flights",  # an everyday word
        "send an e-mail",
        "create a new issue",
        "xcreate_issue",
        "create_issues",
        "create_issue_now",
        "create-issue",
        "getweather",
        "",
        "`",
    ],
)
def test_everyday_words_and_parts_of_words_name_nothing(text):
    assert named(text) == []


@given(st.text(max_size=40))
def test_any_text_may_be_asked(text):
    NAMES.in_text(text)


@given(st.sampled_from(TOOLS), st.sampled_from(["", "(", '"', "- ", "日本 "]))
def test_every_id_and_api_name_is_found_inside_a_sentence(tool, before):
    if tool.id == "create":
        return  # an everyday word
    for name in (tool.id, api_name(tool.id)):
        assert tool.id in named(f"please call {before}{name}, thanks")


def test_a_tool_is_looked_up_by_any_of_its_names():
    github = ("github/create_issue",)
    assert NAMES.of("github/create_issue") == NAMES.of("github__create_issue") == github
    assert NAMES.of("create_issue") == ("github/create_issue", "gitlab/create_issue")
    assert NAMES.of("search") == ("web/search",)
    assert NAMES.of("nothing") == ()


def test_an_id_wins_over_the_api_name_of_another_tool():
    tools = [Tool("a/b", "b", "a"), Tool("a__b", "a__b")]
    assert Names(tools).of("a__b") == ("a__b",)


@given(st.lists(st.booleans(), min_size=9, max_size=9), st.lists(st.booleans(), min_size=9))
def test_changed_names_are_those_of_the_tools_made_anew(before, after):
    one = [tool for tool, is_in in zip(TOOLS, before, strict=False) if is_in]
    two = [tool for tool, is_in in zip(TOOLS, after, strict=False) if is_in]
    gone, new = [t for t in one if t not in two], [t for t in two if t not in one]
    assert vars(Names(one).changed(gone, new)) == vars(Names(two))


def test_a_word_that_begins_thousands_of_names_takes_little_longer_than_one_of_ten():
    text = "data " * 100 + "and data/tool_00007, data/tool_9"

    def best_s(tools):
        names = Names([Tool(f"data/tool_{n:05}", f"tool_{n:05}") for n in range(tools)])
        assert names.in_text(text) == {"data/tool_00007"}
        return min(timeit.repeat(lambda: names.in_text(text), number=5, repeat=5))

    assert best_s(10_000) < 10 * best_s(10)
