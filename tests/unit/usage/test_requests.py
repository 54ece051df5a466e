"""What several searches of one text say together."""

from __future__ import annotations

from tests.unit.usage.logs import at, call, log_of, search

from toolheads.usage import link, merge


def merged(*events):
    return merge(link(log_of(*events), "abcdef").searches)


def test_texts_that_differ_in_wording_alone_are_one_request():
    (one,) = merged(
        *(search(1, 0, text="Book a flight, please!"), call("b", 1, of=1)),
        *(search(2, 60, text="could you book a flight"), call("b", 61, of=2)),
    )
    assert (one.text, one.searches) == ("Book a flight, please!", 2)
    assert (one.first, one.last) == (at(0), at(60))
    assert one.called == {"b": 2}
    assert one.skipped == {"a": 2}


def test_a_tool_that_was_called_once_for_a_text_is_never_held_against_it():
    (one,) = merged(
        *(search(1, 0, text="pay"), call("c", 1, of=1)),
        *(search(2, 9, text="pay"), call("a", 10, of=2)),
    )
    assert one.called == {"c": 1, "a": 1}
    assert one.skipped == {"b": 1}


def test_nor_is_one_whose_call_failed():
    (one,) = merged(
        *(search(1, 0, text="pay"), call("c", 1, of=1)),
        *(search(2, 9, text="pay"), call("a", 10, of=2, ok=False), call("b", 11, of=2)),
    )
    assert one.skipped == {}


def test_requests_come_in_the_order_of_their_first_search():
    events = [search(n, n, text=text) for n, text in enumerate(["one", "two", "one"])]
    calls = [call("a", 10 + n, of=n) for n in range(3)]
    assert [one.text for one in merged(*events, *calls)] == ["one", "two"]
