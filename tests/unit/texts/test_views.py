import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.domain import Tool
from toolheads.errors import ConfigError
from toolheads.texts import (
    TOOL_VIEWS,
    TextSettings,
    format_tool,
    query_view_texts,
    tool_view_texts,
)
from toolheads.texts.views import first_sentence

SETTINGS = TextSettings()


def test_a_tool_has_one_text_for_each_view_in_the_order_asked():
    tool = Tool("t", "createIssue", "hub", "Opens an issue. Needs a token.")
    assert tool_view_texts(tool, ("summary", "name", "text"), SETTINGS) == [
        "Opens an issue.",
        "create Issue",
        format_tool(tool, SETTINGS),
    ]


def test_a_tool_without_description_has_its_name_for_a_summary():
    assert tool_view_texts(Tool("t", "createIssue"), ("summary",), SETTINGS) == ["create Issue"]


def test_an_unknown_view_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="one of text, name, summary, got 'clause'"):
        tool_view_texts(Tool("t", "n"), ("clause",), SETTINGS)


@pytest.mark.parametrize(
    ("description", "sentence"),
    [
        ("One. Two.", "One."),
        ("\n\n  One line\nanother", "One line"),
        ("Version 3.5 of a.txt is read. More", "Version 3.5 of a.txt is read."),
        ("これは道具です。説明。", "これは道具です。"),
        ("no end", "no end"),
        ("", ""),
    ],
)
def test_the_first_sentence_ends_where_a_reader_would_end_it(description, sentence):
    assert first_sentence(description) == sentence


@given(st.text(min_size=1).filter(str.strip), st.text())
def test_no_view_of_a_tool_is_empty(name, description):
    texts = tool_view_texts(Tool("t", name, description=description), TOOL_VIEWS, SETTINGS)
    assert len(texts) == len(TOOL_VIEWS)
    assert all(text.strip() for text in texts)


def test_a_query_comes_first_and_its_clauses_follow_in_the_query_format():
    settings = TextSettings(instruction="Find tools")
    text = "Find the newest invoice. Send it to the accountant"
    texts = query_view_texts(text, settings, with_clauses=True)
    assert texts == [
        f"Instruct: Find tools\nQuery:{part}"
        for part in (text, "Find the newest invoice.", "Send it to the accountant")
    ]
    assert query_view_texts(text, settings, with_clauses=False) == texts[:1]
