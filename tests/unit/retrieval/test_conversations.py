from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toolheads.retrieval.conversations import Conversations

HERE = ("", "talk")


def everything(tool_id):
    return True


def test_tools_shown_before_stay_in_place_and_new_ones_come_after_them():
    talks = Conversations(most=9, tools=9)
    assert talks.show(HERE, ["b", "a"], everything) == ("b", "a")
    assert talks.show(HERE, ["c", "a", "d"], everything) == ("b", "a", "c", "d")
    assert talks.show(HERE, [], everything) == ("b", "a", "c", "d")


@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=4)))
def test_each_list_begins_with_the_one_before(turns):
    talks = Conversations(most=9, tools=9)
    before: tuple[str, ...] = ()
    for found in turns:
        shown = talks.show(HERE, found, everything)
        assert shown[: len(before)] == before
        assert set(found) <= set(shown)
        assert len(set(shown)) == len(shown)
        before = shown


def test_a_tool_that_is_gone_drops_out():
    talks = Conversations(most=9, tools=9)
    talks.show(HERE, ["a", "b"], everything)
    assert talks.show(HERE, ["c"], lambda i: i != "a") == ("b", "c")


def test_conversations_and_scopes_know_nothing_of_each_other():
    talks = Conversations(most=9, tools=9)
    talks.show(("one", "talk"), ["a"], everything)
    assert talks.show(("two", "talk"), ["b"], everything) == ("b",)
    assert talks.show(("one", "walk"), ["c"], everything) == ("c",)


def test_one_with_too_many_tools_starts_anew():
    talks = Conversations(most=9, tools=3)
    talks.show(HERE, ["a", "b"], everything)
    assert talks.show(HERE, ["c", "d"], everything) == ("c", "d")


def test_the_one_longest_unused_is_forgotten():
    talks = Conversations(most=2, tools=9)
    for talk in ("1", "2", "1", "3"):
        talks.show(("", talk), ["a" + talk], everything)
    assert len(talks) == 2
    assert talks.show(("", "1"), ["b"], everything) == ("a1", "b")
    assert talks.show(("", "2"), ["b"], everything) == ("b",)


def test_none_may_be_remembered():
    talks = Conversations(most=0, tools=9)
    talks.show(HERE, ["a"], everything)
    assert talks.show(HERE, ["b"], everything) == ("b",)
