"""Which search a call belongs to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.usage.logs import call, log_of, search

from toolheads.usage import link

CATALOGUE = "abcdef"


def links_of(*events):
    return link(log_of(*events), CATALOGUE)


def called(*events):
    return {one.search.search_id: one.called for one in links_of(*events).searches}


def test_a_call_that_names_its_search_belongs_to_it():
    assert called(search(1, 0), search(2, 1), call("b", 2, of=1)) == {"s1": ("b",)}


def test_a_call_that_names_no_search_belongs_to_the_latest_of_its_session_that_showed_it():
    events = [search(1, 0, "abc"), search(2, 1, "abd"), search(3, 2, "ef")]
    assert called(*events, call("b", 3), call("c", 4)) == {"s1": ("c",), "s2": ("b",)}


def test_a_call_belongs_to_no_search_of_another_session_or_of_a_later_time():
    events = [search(1, 0, session="other"), search(2, 9)]
    found = links_of(*events, call("a", 5))
    assert found.searches == ()
    assert found.counts["calls without a search"] == 1


def test_a_call_at_the_moment_of_its_search_belongs_to_it():
    assert called(search(1, 0), call("a", 0)) == {"s1": ("a",)}


def test_a_tool_that_was_not_shown_says_nothing_about_the_request():
    found = links_of(search(1, 0, "abc"), call("f", 1, of=1))
    assert found.searches == ()
    assert found.counts["calls of a tool that their search did not show"] == 1


def test_a_call_before_its_search_or_of_an_unknown_one_is_counted_and_left_out():
    found = links_of(search(1, 5), call("a", 1, of=1), call("a", 6, of=77))
    assert found.searches == ()
    assert found.counts["calls before their search"] == 1
    assert found.counts["calls of a search that is not in the log"] == 1


def test_a_failed_call_is_neither_for_nor_against_a_tool():
    found = links_of(search(1, 0, "abc"), call("a", 1, of=1, ok=False), call("c", 2, of=1))
    (one,) = found.searches
    assert (one.called, one.failed, one.skipped) == (("c",), ("a",), ("b",))
    assert found.counts["calls that failed"] == 1


def test_a_call_that_worked_the_second_time_worked():
    (one,) = links_of(search(1, 0), call("b", 1, of=1, ok=False), call("b", 2, of=1)).searches
    assert (one.called, one.failed) == (("b",), ())


def test_a_search_of_which_every_call_failed_is_counted_as_such():
    counts = links_of(search(1, 0), call("b", 1, of=1, ok=False), search(2, 2)).counts
    assert counts["searches of which all calls failed"] == 1
    assert counts["searches without a call"] == 1


def test_what_stands_above_the_last_called_tool_was_passed_over():
    (one,) = links_of(search(1, 0, "abcdef"), call("b", 1, of=1), call("d", 2, of=1)).searches
    assert one.skipped == ("a", "c")


def test_nothing_is_passed_over_where_the_first_tool_was_called():
    (one,) = links_of(search(1, 0), call("a", 1, of=1)).searches
    assert one.skipped == ()


def test_tools_that_are_gone_from_the_catalogue_are_left_out():
    found = links_of(search(1, 0, "xaybc"), call("x", 1, of=1), call("b", 2, of=1))
    (one,) = found.searches
    assert (one.search.shown, one.called, one.skipped) == (("a", "b", "c"), ("b",), ("a",))
    assert found.counts["calls of a tool that is not in the catalogue"] == 1


def test_a_search_without_a_text_is_counted_and_left_out():
    found = links_of(search(1, 0, text=None), call("a", 1, of=1))
    assert found.searches == ()
    assert found.counts["searches without a text"] == 1


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("search"), st.integers(0, 50), st.permutations("abcdefxy")),
        st.tuples(st.just("call"), st.integers(0, 50), st.sampled_from("abcdefxy")),
        st.tuples(st.just("fail"), st.integers(0, 50), st.sampled_from("abcdefxy")),
    ),
    max_size=25,
)


@given(EVENTS, st.integers(0, 4))
def test_every_event_is_counted_once_and_no_tool_is_called_and_passed_over(drawn, depth):
    events = []
    for number, (kind, minutes, what) in enumerate(drawn):
        session = f"v{minutes % 2}"
        if kind == "search":
            events.append(search(number, minutes, what[: depth + 1], session=session))
        else:
            of = number // 2 if number % 3 == 0 else None
            events.append(call(what, minutes, of=of, session=session, ok=kind == "call"))
    log = log_of(*events)
    found = link(log, CATALOGUE)
    of_calls = sum(n for what, n in found.counts.items() if what.startswith("calls"))
    of_searches = sum(n for what, n in found.counts.items() if what.startswith("searches"))
    assert (of_calls, of_searches) == (len(log.calls), len(log.searches))
    for one in found.searches:
        assert one.called
        assert {*one.called, *one.failed, *one.skipped} <= set(one.search.shown) <= set(CATALOGUE)
        assert not set(one.skipped) & {*one.called, *one.failed}
        assert not set(one.failed) & set(one.called)
