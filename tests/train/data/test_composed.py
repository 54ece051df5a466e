"""Composed requests: what is joined, what it asks for, and what it depends on."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from toolheads.data import Dataset  # noqa: E402
from toolheads.domain import Query, Tool  # noqa: E402
from toolheads_train.data.composed import with_composed  # noqa: E402
from toolheads_train.data.selection import Selected, Selection  # noqa: E402

pytestmark = pytest.mark.train


def selected(name, n=20, tools=5):
    made = tuple(Tool(str(i), f"tool_{i}") for i in range(tools))
    train = tuple(Query(f"q{i}", f"errand {i}", {str(i % tools): 1}, "train") for i in range(n))
    return Selected(Dataset(name, made, train, {}), train, ())


def composed(*parts, share=0.5, seed=0):
    given = Selection(parts, (), {})
    return [one.train[20:] for one in with_composed(given, share, seed=seed).datasets]


def test_a_composed_request_has_the_texts_and_the_tools_of_its_parts():
    (made,) = composed(selected("a"))
    by_text = {f"errand {i}.": str(i % 5) for i in range(20)}
    assert {len(query.relevant) for query in made} == {2, 3}
    for query in made:
        parts = [f"{part}." for part in query.text.rstrip(".").split(". ")]
        assert [by_text[part] for part in parts] == list(query.relevant)


def test_no_two_parts_ask_for_one_tool():
    (made,) = composed(selected("a", tools=2), share=3.0)
    assert {len(query.relevant) for query in made} == {2}


def test_as_many_are_made_as_the_share_says():
    (made,) = composed(selected("a"), share=2.0)
    assert len(made) == 40
    assert len({query.id for query in made}) == len(made)


def test_the_queries_that_were_there_stay_in_front():
    one = selected("a")
    (got,) = with_composed(Selection((one,), (), {}), 0.5, seed=0).datasets
    assert got.train[:20] == one.train


def test_one_seed_makes_one_set_whatever_data_sets_stand_beside():
    alone, beside = composed(selected("a")), composed(selected("b"), selected("a"))
    assert alone[0] == beside[1]
    assert alone[0] != composed(selected("a"), seed=1)[0]
    assert [query.text for query in beside[0]] != [query.text for query in beside[1]]


def test_where_all_ask_for_one_tool_nothing_is_composed():
    assert composed(selected("a", tools=1)) == [()]


def test_a_share_of_zero_changes_nothing():
    given = Selection((selected("a"),), (), {})
    assert with_composed(given, 0.0, seed=0) is given


def test_texts_that_end_with_their_own_mark_keep_it():
    train = (
        Query("1", "订一张去东京的票。", {"0": 1}, "train"),
        Query("2", "Is it cold there?", {"1": 1}, "train"),
    )
    one = Selected(Dataset("a", (Tool("0", "x"), Tool("1", "y")), train, {}), train, ())
    (got,) = with_composed(Selection((one,), (), {}), 5.0, seed=0).datasets
    assert {query.text for query in got.train[2:]} == {
        "订一张去东京的票。Is it cold there?",
        "Is it cold there? 订一张去东京的票。",
    }
