"""Which search a call followed."""

from __future__ import annotations

import tracemalloc

from toolheads.serving.shown import ShownTools


def of(shown, tool, *, owner="k", session="s", search_id=None):
    return shown.search_of(tool, owner=owner, session=session, search_id=search_id)


def test_a_call_follows_the_search_that_it_names():
    shown = ShownTools(10)
    shown.add("1", "k", "s", ["a"])
    shown.add("2", "k", "s", ["a"])
    assert of(shown, "a", search_id="1") == "1"


def test_a_search_that_another_replica_answered_is_believed():
    assert of(ShownTools(10), "a", search_id="elsewhere") == "elsewhere"


def test_a_search_that_did_not_show_the_tool_is_not_believed():
    shown = ShownTools(10)
    shown.add("1", "k", "s", ["a"])
    shown.add("2", "k", "s", ["b"])
    assert of(shown, "a", search_id="2") == "1"


def test_a_search_of_another_key_is_never_linked():
    shown = ShownTools(10)
    shown.add("1", "other", "s", ["a"])
    assert of(shown, "a", search_id="1") is None
    assert of(shown, "a") is None


def test_a_call_follows_the_latest_search_of_its_session_that_showed_the_tool():
    shown = ShownTools(10)
    for search_id, session, tools in (("1", "s", "ab"), ("2", "s", "b"), ("3", "t", "a")):
        shown.add(search_id, "k", session, list(tools))
    assert (of(shown, "a"), of(shown, "b"), of(shown, "c")) == ("1", "2", None)


def test_the_oldest_searches_are_forgotten_with_their_sessions():
    shown = ShownTools(3)
    for number in range(10):
        shown.add(str(number), "k", f"s{number}", ["a"])
    assert len(shown) == len(shown._by_session) == 3
    assert (of(shown, "a", session="s6"), of(shown, "a", session="s7")) == (None, "7")


def test_a_session_that_never_ends_does_not_grow():
    shown = ShownTools(1000)
    for number in range(1000):
        shown.add(str(number), "k", "s", ["a"] if number == 0 else ["b"])
    assert len(shown._by_session["k", "s"].recent) == 64
    assert of(shown, "a") is None
    for number in range(1000, 3000):
        shown.add(str(number), "k", "t", ["a"])
    assert set(shown._by_session) == {("k", "t")}


def test_a_remembered_search_takes_less_than_half_a_kilobyte():
    ids = [f"server/tool_{number}" for number in range(1000)]
    shown = ShownTools(5000)
    tracemalloc.start()
    try:
        for number in range(5000):
            at = number % 990
            shown.add(f"{number:024x}", "key", "".join(["127.0.0.1 ", "agent"]), ids[at : at + 10])
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size / 5000 < 500
