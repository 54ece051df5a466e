import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.data.splits import split_by_dataset, split_by_query, split_by_tool
from toolheads.domain import Query, Tool
from toolheads.errors import ConfigError

QUERIES = [Query(f"q{i}", f"errand number {i}", {f"t{i % 50}": 1}) for i in range(1000)]
TOOLS = [Tool(f"t{i}", f"name{i}") for i in range(50)]


def where(split):
    return {q.id: q.split for part in (split.train, split.val, split.test) for q in part}


def test_shares_are_kept_about_and_every_query_is_in_one_split():
    split = split_by_query(QUERIES, val=0.1, test=0.2, seed=0)
    assert where(split).keys() == {q.id for q in QUERIES}
    assert len(split.val) == pytest.approx(100, abs=30)  # binomial: 3 standard deviations
    assert len(split.test) == pytest.approx(200, abs=40)
    assert {q.split for q in split.val} == {"val"}


def test_order_and_newcomers_do_not_move_a_query():
    before = where(split_by_query(QUERIES[:500], val=0.1, test=0.2, seed=3))
    shuffled = random.Random(0).sample(QUERIES, len(QUERIES))
    after = where(split_by_query(shuffled, val=0.1, test=0.2, seed=3))
    assert {q: after[q] for q in before} == before


def test_another_seed_is_another_split():
    one, two = (where(split_by_query(QUERIES, test=0.5, seed=seed)) for seed in (0, 1))
    assert one != two


def test_equal_texts_fall_together():
    twins = [replace(q, id=f"{q.id}-twin", text=f"Please, {q.text.upper()}!") for q in QUERIES]
    found = where(split_by_query([*QUERIES, *twins], val=0.3, test=0.3, seed=0))
    assert all(found[q.id] == found[f"{q.id}-twin"] for q in QUERIES)


def test_all_or_nothing_can_be_held_out():
    assert len(split_by_query(QUERIES, test=1.0).test) == len(QUERIES)
    assert len(split_by_query(QUERIES).train) == len(QUERIES)


@given(
    st.lists(st.sets(st.integers(0, 19), max_size=3), max_size=30),
    st.integers(0, 5),
)
def test_no_held_out_tool_is_relevant_to_a_training_query(relevant, seed):
    tools = TOOLS[:20]
    queries = [
        Query(f"q{i}", f"text {i}", {f"t{t}": 1 for t in sorted(r)}) for i, r in enumerate(relevant)
    ]
    split = split_by_tool(queries, tools, val=0.2, test=0.3, seed=seed)
    alone = [Query(t.id, t.id, {t.id: 1}) for t in tools]  # what each tool is drawn for
    drawn = where(split_by_tool(alone, tools, val=0.2, test=0.3, seed=seed))
    assert len(where(split)) == len(queries)
    assert split.held_out == {t for t, part in drawn.items() if part != "train"}
    for query in split.train:
        assert {drawn[t] for t in query.relevant} <= {"train"}
    for query in split.val:
        assert not query.relevant or {drawn[t] for t in query.relevant} - {"train"} == {"val"}
    for query in split.test:
        assert not query.relevant or "test" in {drawn[t] for t in query.relevant}


def test_tools_of_one_server_and_name_are_held_out_together():
    copies = [replace(t, id=f"{t.id}#2") for t in TOOLS]
    held_out = split_by_tool([], [*TOOLS, *copies], test=0.4, seed=0).held_out
    assert held_out
    assert all((f"t{i}" in held_out) == (f"t{i}#2" in held_out) for i in range(50))


def test_a_query_of_several_tools_is_held_out_if_one_is():
    drawn = split_by_tool([], TOOLS, test=0.5, seed=0).held_out
    inside, outside = min(drawn), min({t.id for t in TOOLS} - drawn)
    query = Query("q", "x", {outside: 1, inside: 1})
    assert split_by_tool([query], TOOLS, test=0.5, seed=0).test == (query,)


def test_a_tool_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match=r"relevant tools of query 'q' .*'z'"):
        split_by_tool([Query("q", "x", {"z": 1})], TOOLS, test=0.5)


def test_data_sets_are_drawn_or_fixed():
    names = [f"set{i}" for i in range(40)]
    drawn = split_by_dataset(names, test=0.5, seed=0, fixed={"set0": "val"})
    assert list(drawn) == names
    assert drawn["set0"] == "val"
    assert set(drawn.values()) == {"train", "val", "test"}
    assert split_by_dataset(names[::-1], test=0.5, seed=0, fixed={"set0": "val"}) == drawn


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"val": -0.1}, "val must be in"),
        ({"test": float("nan")}, "test must be in"),
        ({"val": 0.6, "test": 0.6}, "val \\+ test must be <= 1"),
    ],
)
def test_shares_that_break_their_rule_are_refused(settings, reason):
    with pytest.raises(ConfigError, match=reason):
        split_by_query(QUERIES, **settings)


def test_fixed_names_known_data_sets_and_splits():
    with pytest.raises(ConfigError, match="fixed must name data sets of a, got 'b'"):
        split_by_dataset(["a"], fixed={"b": "train"})
    with pytest.raises(ConfigError, match="fixed must map to train, val, test, got 'dev'"):
        split_by_dataset(["a"], fixed={"a": "dev"})
