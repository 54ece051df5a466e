from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.decide.made import BINARY, GivenScorer, tool

from toolheads.decide import Bind, Picker, RowSimilarity
from toolheads.decide.calibration.episodes import Corpus, Ranked, halves, joined, unit_of
from toolheads.domain import Query, Tool
from toolheads.errors import CalibrationError


def looked_at(tools, scores, relevant, rows=None, **options):
    """Episodes of one query, or of several with the same scores."""
    rows = np.eye(len(tools)) if rows is None else np.asarray(rows)
    scorer = GivenScorer(scores)
    scorer.index(tools)
    corpus = Corpus(tools, RowSimilarity(rows), **options)
    queries = [
        Query(f"q{i}", "x", {tools[at].id: 1 for at in of_query})
        for i, of_query in enumerate(relevant)
    ]
    ranked = list(corpus.ranked(scorer, queries))
    return corpus.episodes(ranked)


THREE = [tool("one"), tool("two"), tool("three", "b")]


def test_a_query_is_seen_as_it_is_and_with_its_tool_hidden():
    seen = looked_at(THREE, [0.75, 0.5, 0.25], [[0]])
    assert seen.present.scores.tolist() == [0.75]
    assert seen.present.gaps.tolist() == [0.25]
    assert seen.present.is_right.tolist() == [True]
    assert seen.absent.scores.tolist() == [0.5]
    assert seen.absent.gaps.tolist() == [0.25]
    assert seen.absent.is_right.tolist() == [False]


def test_near_twins_are_hidden_with_a_right_tool_whatever_their_server():
    rows = [[1, 0], [0, 1], [0.95, np.sqrt(1 - 0.95**2)]]
    assert looked_at(THREE, [0.75, 0.5, 0.625], [[0]], rows).absent.scores.tolist() == [0.5]
    seen = looked_at(THREE, [0.75, 0.5, 0.625], [[0]], rows, hide_at=0.96)
    assert seen.absent.scores.tolist() == [0.625]


def test_tools_of_the_same_name_and_description_are_hidden_together():
    tools = [Tool("1", "Pay", "a", "Pays  it"), Tool("2", "pay", "b", "pays it"), tool("other")]
    assert looked_at(tools, [0.75, 0.5, 0.25], [[0]]).absent.scores.tolist() == [0.25]


def test_another_similarity_may_say_what_is_hidden():
    all_alike = RowSimilarity(np.ones((3, 1)))
    seen = looked_at(THREE, [0.75, 0.5, 0.25], [[0]], hide_by=all_alike)
    assert seen.absent.scores.tolist() == [-np.inf]
    assert not seen.absent.binds(BINARY.changed(similarity_floor=0.0)).any()


def test_a_query_without_a_right_tool_is_an_absent_one_as_it_is():
    seen = looked_at(THREE, [0.75, 0.5, 0.25], [[0], []])
    assert len(seen.present) == 1
    assert seen.absent.scores.tolist() == [0.5, 0.75]


def test_tools_that_are_no_hits_are_infinitely_far():
    seen = looked_at(THREE, [0.75, 0.5, None], [[1, 2]])
    (gaps,), (ranks,), (hits,) = seen.tool_gaps, seen.tool_ranks, seen.hit_gaps
    assert gaps.tolist() == [0.25, np.inf]
    assert ranks.tolist() == [2, np.inf]
    assert hits.tolist() == [0, 0.25]


def test_strangers_are_the_mates_that_no_label_calls_right():
    tools = [Tool("1", "a", "s"), Tool("2", "b", "s"), Tool("3", "c", "s"), Tool("4", "A", "s")]
    rows = [[1, 0], [1, 0], [0.6, 0.8], [1, 0]]
    seen = looked_at(tools, [0.9, 0.8, 0.7, 0.6], [[0, 1]], rows)
    assert seen.present.twins.tolist() == [1.0]
    np.testing.assert_allclose(seen.present.strangers, [0.6], rtol=1e-6)


def test_a_unit_of_scores_has_room_for_the_best():
    def of(*peaks):
        corpus = Corpus([tool("one")], RowSimilarity([[1]]))
        queries = [Query("q", "x", {})]
        parts: list[Ranked] = []
        for peak in peaks:
            scorer = GivenScorer([peak])
            scorer.index([tool("one")])
            parts += corpus.ranked(scorer, queries)
        return unit_of(parts)

    assert of(0.25, 1.0) == 1.0
    assert of(0.5, 37.0) == 39.0
    assert of(1.04) == 1.1
    assert of(123456.0) == 130000.0


def test_joined_episodes_keep_each_query_beside_its_twin():
    one = looked_at(THREE, [0.75, 0.5, 0.25], [[0], []])
    two = looked_at(THREE, [0.125, 0.0625, 0.0], [[0]])
    both = joined([one, two])
    assert both.present.scores.tolist() == [0.75, 0.125]
    assert both.absent.scores.tolist() == [0.5, 0.0625, 0.75]


def test_episodes_of_different_units_are_not_joined():
    with pytest.raises(CalibrationError, match="one unit of scores, got none"):
        joined([])


def test_halves_share_no_query_and_lose_none():
    seen = joined([looked_at(THREE, [s / 64, 0, 0], [[0]]) for s in range(1, 12)])
    first, second = halves(seen, seed=3)
    both = np.concatenate([first.present.scores, second.present.scores])
    assert sorted(both) == sorted(seen.present.scores)
    assert abs(len(first.absent) - len(second.absent)) == 1


def _by_rows(rows, _):
    return RowSimilarity(np.reshape(rows, (len(rows), 2)))


@st.composite
def episodes_and_tools(draw):
    n = draw(st.integers(1, 6))
    tools = [
        tool(f"t{i}", draw(st.sampled_from("ab")), readOnly=draw(st.booleans())) for i in range(n)
    ]
    eighths = st.integers(0, 8).map(lambda e: e / 8)
    scores = [draw(st.none() | eighths) for _ in range(n)]
    rows = [draw(st.sampled_from([[1, 0], [0, 1], [0.6, 0.8]])) for _ in range(n)]
    relevant = draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=2, unique=True))
    return tools, scores, rows, relevant


@given(
    episodes_and_tools(),
    st.sampled_from([0.0, 0.25, 0.5]),
    st.sampled_from([0.0, 0.125, 0.25]),
    st.sampled_from([0.5, 0.75, 1.0]),
)
def test_what_calibration_counts_as_bound_is_what_the_picker_binds(made, floor, margin, twins):
    tools, scores, rows, relevant = made
    settings = BINARY.changed(
        similarity_floor=floor, margin=margin, duplicate_threshold=twins, solo_floor=1.0
    )
    seen = looked_at(tools, scores, [relevant], rows)
    hidden = set(relevant)
    for row in relevant:
        alike = RowSimilarity(rows).to(row, np.arange(len(tools)))
        hidden |= set(np.flatnonzero(alike >= np.float32(0.9)).tolist())
    for leads, kept in [
        (seen.present, range(len(tools))),
        (seen.absent, [at for at in range(len(tools)) if at not in hidden]),
    ]:
        left = [tools[at] for at in kept]
        scorer, alike_rows = GivenScorer([scores[at] for at in kept]), [rows[at] for at in kept]
        decision = Picker(left, scorer, settings, similarity=partial(_by_rows, alike_rows)).resolve(
            "x"
        )
        assert leads.binds(settings).tolist() == [isinstance(decision, Bind)]
        if isinstance(decision, Bind):
            assert leads.is_right.tolist() == [tools.index(decision.tool) in relevant]
