from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.plan import read_selection
from toolheads.plan.selection import MOST_CHARS

NAMES = ["borrow_book", "return_book", "openingHours", "book", "renew", "Öffnen"]


def read(reply, names=NAMES):
    return read_selection(names, reply)


@pytest.mark.parametrize(
    "reply",
    [
        "borrow_book",
        "`borrow_book`",
        "**borrow_book**",
        '"borrow_book"',
        "BORROW_BOOK!",
        "BorrowBook",
        "borrow book",
        "borrow_book()",
        "1. borrow_book",
        "- borrow_book",
        "Tool: borrow_book",
        "tool: borrow_book\nreason: renew",
        "I would use borrow_book for this.",
        "The best tool is borrow_book",
        "functions.borrow_book",
        '{"name": "borrow_book", "arguments": {"isbn": "none"}}',
        '```json\n{"tool": "borrow_book"}\n```',
        '{"function": {"name": "borrow_book"}}',
        '{"borrow_book": {"isbn": "1"}}',
        '["borrow_book"]',
        '{"name":"borrow_book","arguments":{"name":"I cannot',  # cut off
        "<think>return_book? No.</think>\nborrow_book",
        "borrow_book\n\nIt lends a book, which return_book does not.",
    ],
)
def test_a_name_is_read_in_the_ways_models_write_it(reply):
    assert read(reply).name == "borrow_book"


@pytest.mark.parametrize(
    "reply",
    [
        "none",
        "None.",
        "null",
        "[]",
        '{"name": null}',
        "None of them fits; borrow_book is the closest.",
        "borrow_book is not right for this",
        "I can't do that with borrow_book.",
        "borrow_book 不合适",
        "borrow_book passt leider nicht",
        "No tool here can renew a passport",
    ],
)
def test_a_refusal_selects_none_even_if_it_names_a_tool(reply):
    assert read(reply) == read_selection([], "none")


@pytest.mark.parametrize(
    "reply",
    [
        "borrow_book, then return_book",
        "return_book or borrow_book",
        "borrow_book\nreturn_book",
        '["borrow_book", "return_book"]',
    ],
)
def test_several_names_select_none(reply):
    found = read(reply)
    assert (found.name, found.outcome) == (None, "several")


@pytest.mark.parametrize(
    "reply",
    [
        "It takes a book from the shelf",  # `book` is a word here
        "bookshelf",
        "borrow_books",
        "borrow_book.v2",
        "x/borrow_book",
        "pre-renew",
        '{"name": "lend_book", "arguments": {"text": "borrow_book"}}',
        "<think>borrow_book",
        "[" * 3000,
        "borrow_book " * MOST_CHARS,
    ],
)
def test_what_only_holds_the_letters_of_a_name_selects_none(reply):
    assert read(reply).name is None


@pytest.mark.parametrize("reply", [None, "", "  \n", 7, ["borrow_book"], b"borrow_book"])
def test_what_is_no_text_selects_none(reply):
    assert read(reply).outcome == "no text"


@pytest.mark.parametrize("reply", ["book", "`book`", "I'd use `book` here", "book()", "Use book."])
def test_a_name_that_is_a_word_counts_alone_quoted_or_called(reply):
    assert read(reply).name == "book"


def test_a_longer_name_hides_the_one_inside_it():
    assert (
        read("I'd take send_mail_now here", ["send_mail", "send_mail_now"]).name == "send_mail_now"
    )


def test_names_of_one_spelling_are_told_by_case_and_only_by_it():
    names = ["Renew_it", "renew_it"]
    assert read("Renew_it", names).name == "Renew_it"
    assert read("I would take renew_it now", names).name == "renew_it"
    assert read("RENEW_IT", names).name is None


def test_a_tool_that_is_called_none_can_be_picked():
    assert read("none", ["none", "some"]).name == "none"


@given(
    st.sampled_from(NAMES), st.sampled_from(["{}", "`{}`", "{}.", "Tool: {}", '{{"name": "{}"}}'])
)
def test_each_name_alone_is_read_as_itself(name, form):
    assert read(form.format(name)).name == name


@given(st.text(max_size=200) | st.recursive(st.none() | st.text(), st.lists).map(json.dumps))
def test_any_reply_gives_a_name_of_the_menu_or_none(reply):
    assert read(reply).name in [*NAMES, None]


@pytest.mark.parametrize(
    "part", [" ", "`", "\n", "- ", "name: ", "<think>", '"name":', "use ", "\\"]
)
def test_a_long_reply_is_read_in_bounded_time(part):
    """Seconds would be minutes if an expression tried each start again."""
    assert read((part * MOST_CHARS)[:MOST_CHARS] + "x").name is None
