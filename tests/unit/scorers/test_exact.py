from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.made_heads import PLAIN, made_head

from toolheads.arrays import normalized
from toolheads.heads import Head
from toolheads.scorers import best, exact
from toolheads.scorers.exact import ProjectedTools, QueryProjections

X, Y, DIAGONAL = [1.0, 0.0], [0.0, 1.0], [0.6, 0.8]


def rows(*vectors):
    return np.array(vectors, np.float32).reshape(-1, len(vectors[0]) if vectors else 2)


def tools(*vectors):
    return ProjectedTools({"text": rows(*vectors)}, {"text": 1.0}, Head.identity(2))


def queries(*whole, clauses=None, weights=(1.0, 0.0)):
    clauses = clauses or [[] for _ in whole]
    offsets = np.cumsum([0, *map(len, clauses)])
    flat = [c for of_query in clauses for c in of_query]
    stacked = rows(*flat) if flat else np.zeros((0, 2), np.float32)
    return QueryProjections(rows(*whole), stacked, offsets, *weights)


def random_case(seed, n, q, d=24, *, weights=(0.7, 0.3), repeats=1):
    rng = np.random.default_rng(seed)
    corpus = normalized(rng.normal(size=(n, d)).astype(np.float32))
    corpus = np.tile(corpus, (repeats, 1))
    counts = rng.integers(0, 4, size=q)
    whole = normalized(rng.normal(size=(q, d)).astype(np.float32))
    clauses = normalized(rng.normal(size=(counts.sum(), d)).astype(np.float32))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    found = ProjectedTools({"text": corpus}, {"text": 1.0}, Head.identity(d))
    return found, QueryProjections(whole, clauses, offsets, *weights)


def one_query(many, i):
    whole, clauses = many.of(i)
    return QueryProjections(
        whole[None], clauses, np.array([0, len(clauses)]), many.whole_weight, many.clause_weight
    )


def test_hits_come_best_first_with_their_cosines():
    ((found, scores),) = tools(Y, X, DIAGONAL).top(queries(X), 2)
    assert found.tolist() == [1, 2]
    np.testing.assert_allclose(scores, [1.0, 0.6], atol=1e-7)


def test_the_best_clause_counts_beside_the_whole_text():
    """0.75 * cos(whole, tool) + 0.25 * max over clauses; the whole is X, the clauses Y and -X."""
    asked = queries(X, clauses=[[Y, [-1.0, 0.0]]], weights=(0.75, 0.25))
    ((found, scores),) = tools(X, Y, DIAGONAL).top(asked, 3)
    assert found.tolist() == [0, 2, 1]
    np.testing.assert_allclose(scores, [0.75, 0.75 * 0.6 + 0.25 * 0.8, 0.25], atol=1e-7)


def test_a_query_without_clauses_counts_with_its_whole_text_twice():
    ((_, scores),) = tools(X, DIAGONAL).top(queries(X, weights=(0.75, 0.25)), 2)
    np.testing.assert_allclose(scores, [1.0, 0.6], atol=1e-7)


def test_clauses_alone_can_carry_the_score():
    asked = queries(X, clauses=[[Y]], weights=(0.0, 1.0))
    ((found, scores),) = tools(X, Y).top(asked, 2)
    assert (found.tolist(), scores.tolist()) == ([1, 0], [1.0, 0.0])


def test_the_views_of_a_tool_are_folded_into_one_row_by_their_weights():
    views = {"text": rows(X, Y), "name": rows(Y, Y)}
    folded = ProjectedTools(views, {"text": 0.75, "name": 0.25}, Head.identity(2))
    np.testing.assert_allclose(folded.scores(queries(X, Y)), [[0.75, 0.0], [0.25, 1.0]])


def test_the_head_projects_each_view_before_they_are_folded():
    head, rng = made_head(PLAIN), np.random.default_rng(0)
    text, name = (normalized(rng.normal(size=(5, 8)).astype(np.float32)) for _ in range(2))
    query = normalized(rng.normal(size=(1, 8)).astype(np.float32))
    folded = ProjectedTools({"text": text, "name": name}, {"text": 2.0, "name": 0.5}, head)
    asked = QueryProjections(query, query[:0], np.zeros(2, np.int64), 1.0, 0.0)
    expected = query @ (2.0 * head(text) + 0.5 * head(name)).T
    np.testing.assert_allclose(folded.scores(asked), expected, atol=1e-6)


def test_equal_tools_are_ordered_as_they_were_given_wherever_they_stand():
    found, asked = random_case(0, n=37, q=5, repeats=9)
    for hits, scores in found.top(asked, 333):
        assert (np.diff(scores) <= 0).all()
        tied = np.diff(scores) == 0
        assert tied.sum() == 37 * 8
        assert (np.diff(hits)[tied] == 37).all()


@given(st.integers(0, 50), st.integers(1, 400), st.integers(1, 40))
def test_the_top_is_the_front_of_the_whole_list(seed, n, k):
    found, asked = random_case(seed, n, q=3)
    for (few, few_scores), (all_of, all_scores) in zip(
        found.top(asked, k), found.top(asked, n), strict=True
    ):
        assert few.tolist() == all_of[:k].tolist()
        assert few_scores.tolist() == all_scores[:k].tolist()


@given(st.integers(0, 30), st.integers(1, 300), st.integers(1, 60))
def test_a_query_has_the_same_hits_to_the_bit_alone_and_in_company(seed, n, q):
    found, asked = random_case(seed, n, q)
    together = list(found.top(asked, 10))
    for i in {0, q // 2, q - 1}:
        ((hits, scores),) = found.top(one_query(asked, i), 10)
        assert hits.tolist() == together[i][0].tolist()
        assert scores.tolist() == together[i][1].tolist()


def test_blocks_of_queries_change_nothing(monkeypatch):
    found, asked = random_case(1, n=100, q=23)
    whole = [(h.tolist(), s.tolist()) for h, s in found.top(asked, 7)]
    scores = found.scores(asked)
    for entries in (1, 100, 550):
        monkeypatch.setattr(exact, "_BLOCK_ENTRIES", entries)
        monkeypatch.setattr(best, "TILE_ENTRIES", entries)
        assert [(h.tolist(), s.tolist()) for h, s in found.top(asked, 7)] == whole
        np.testing.assert_allclose(found.scores(asked), scores, atol=1e-6)


@given(st.integers(0, 20))
def test_the_top_is_what_sorting_the_scores_gives(seed):
    found, asked = random_case(seed, n=200, q=4)
    for (hits, exact_scores), scores in zip(
        found.top(asked, 200), found.scores(asked), strict=True
    ):
        np.testing.assert_allclose(exact_scores, scores[hits], atol=1e-6)
        assert (np.diff(scores[hits]) <= 1e-6).all()


def test_adding_a_tool_never_changes_the_order_of_the_others():
    few, asked = random_case(2, n=50, q=3)
    more = ProjectedTools(
        {"text": np.vstack([few._rows, few._rows[:1] * 0.5])}, {"text": 1.0}, Head.identity(24)
    )
    for (before, _), (after, _) in zip(few.top(asked, 50), more.top(asked, 51), strict=True):
        assert [hit for hit in after if hit != 50] == before.tolist()


def test_no_queries_have_no_hits():
    nothing = QueryProjections(np.zeros((0, 2), np.float32), rows(X)[:0], np.zeros(1, int), 1.0, 0)
    assert list(tools(X).top(nothing, 1)) == []
    assert tools(X).scores(nothing).shape == (0, 1)


def test_embeddings_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="text must be finite"):
        tools([np.nan, 0.0])


def test_rounding_of_the_product_never_decides_who_is_found(monkeypatch):
    """The product off by as much as float32 may be: the hits and scores stay what they were."""
    found, asked = random_case(3, n=60, q=8, repeats=6)
    before = [(h.tolist(), s.tolist()) for h, s in found.top(asked, 20)]
    rng, plain = np.random.default_rng(0), ProjectedTools._block_scores

    def rounded_otherwise(self, *args):
        scores = plain(self, *args)
        return scores + (self.slack / 2 * rng.uniform(-0.99, 0.99, scores.shape)).astype("f4")

    monkeypatch.setattr(ProjectedTools, "_block_scores", rounded_otherwise)
    assert [(h.tolist(), s.tolist()) for h, s in found.top(asked, 20)] == before


def test_equal_embeddings_are_projected_once_so_that_they_stay_equal():
    class RowByRowOtherwise(Head):
        def __call__(self, x):
            return super().__call__(x) + np.arange(len(x), dtype=np.float32)[:, None]

    identity = Head.identity(2)
    head = RowByRowOtherwise(identity.architecture, 0.0, identity.weights)
    views = {"text": rows(X, Y, X, Y, X)}
    scores = ProjectedTools(views, {"text": 1.0}, head).scores(queries(DIAGONAL))[0]
    assert scores[0] == scores[2] == scores[4] != scores[1] == scores[3]
