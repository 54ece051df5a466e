import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.texts import split_clauses
from toolheads.texts.clauses import MOST_CLAUSES


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        (
            "Convert 250 dollars to yen, then mail me the result and also book a flight.",
            ["Convert 250 dollars to yen", "mail me the result", "book a flight."],
        ),
        (
            "Find the newest invoice. Send it to the accountant!\nArchive the whole thread",
            ["Find the newest invoice.", "Send it to the accountant!", "Archive the whole thread"],
        ),
        ("查询北京的天气\uff0c然后发送邮件给我", ["查询北京的天气", "发送邮件给我"]),
        (
            "東京の天気を調べて。結果をメールで送って。",
            ["東京の天気を調べて。", "結果をメールで送って。"],
        ),
        (
            "Buche einen Flug nach Rom und dann reserviere ein Hotel",
            ["Buche einen Flug nach Rom", "reserviere ein Hotel"],
        ),
    ],
)
def test_a_query_of_several_errands_is_split(text, clauses):
    assert split_clauses(text) == clauses


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n ",
        "show me the weather",
        "round 3.5 to a whole number",
        "open notes.txt and search it",
        "compare apples and oranges and pears",
    ],
)
def test_a_query_of_one_errand_has_no_clauses(text):
    assert split_clauses(text) == []


def test_a_piece_that_names_no_errand_stays_with_the_piece_before_it():
    text = "Book a table for two people. Thanks. Send the invitation to Ann"
    assert split_clauses(text) == [
        "Book a table for two people. Thanks.",
        "Send the invitation to Ann",
    ]


def test_clauses_beyond_the_limit_are_dropped():
    text = "\n".join(f"send a letter to person number {i}" for i in range(40))
    assert len(split_clauses(text)) == MOST_CLAUSES


joints = (" ", "\n", ", ", ". ", "; ", "and", "then", "also", "\uff0c然后", "und dann", "puis")
rest = ("book it now", "send a long mail", "。", "天気を調べて", "3.5", "\t", "\u2028")
pieces = st.sampled_from(joints + rest)


@given(st.lists(pieces, max_size=30).map("".join) | st.text())
def test_clauses_are_non_empty_stripped_parts_of_the_query_in_order(text):
    clauses = split_clauses(text)
    assert len(clauses) != 1
    assert len(clauses) <= MOST_CLAUSES
    rest = text
    for clause in clauses:
        assert clause == clause.strip(" \t,;")
        assert clause
        _, found, rest = rest.partition(clause)
        assert found


@pytest.mark.parametrize("filler", [" ", "\n ", ", ", " and ", "。", ", and "])
def test_a_long_run_of_one_thing_is_split_in_passing(filler):
    """Trying a run of spaces in full from each of its characters takes half a minute."""
    split_clauses("a" + filler * (30_000 // len(filler)) + "x")
