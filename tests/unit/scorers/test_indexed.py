from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.hash_encoder import HashEncoder
from tests.made_heads import ALL_VIEWS
from tests.unit.scorers.plain_index import HalfBlindIndex, PlainIndex

from toolheads.domain import Query, Tool
from toolheads.embedder import Embedder
from toolheads.errors import ConfigError, IndexStoreError
from toolheads.heads import Fusion
from toolheads.heads.fusion import HubnessPart, LexicalPart
from toolheads.scorers import indexed
from toolheads.scorers.dense import DenseScorer
from toolheads.scorers.exact import QueryProjections
from toolheads.scorers.fused import Words
from toolheads.scorers.hybrid import HybridScorer
from toolheads.scorers.index_backed import IndexBackedScorer
from toolheads.scorers.indexed import IndexedRows, IndexedSearch
from toolheads.scorers.indexed_corpus import IndexedCorpus, spread_of
from toolheads.scorers.rank_fusion import RankFusion
from toolheads.scorers.recipe import Recipe

WIDTH = 24
ENCODER = HashEncoder(WIDTH)
WORDS = ["mail", "send", "weather", "city", "issue", "create", "list", "flight", "book", "file"]
FUSIONS = [
    None,
    Fusion(LexicalPart(0.5)),
    Fusion(LexicalPart(20.0)),
    Fusion(None, None, 0.05),
    Fusion(LexicalPart(0.5), None, 0.05),
]


@pytest.fixture(autouse=True)
def _ask_the_index(monkeypatch):
    """Small corpora are scored whole otherwise."""
    monkeypatch.setattr(indexed, "_FEW", 0)


def made_tools(seed, n):
    """Some equal but for the id, since there are few words."""
    rng = np.random.default_rng(seed)
    return [
        Tool(f"t{i}", "_".join(rng.choice(WORDS, 2)), None, " ".join(rng.choice(WORDS, 2)))
        for i in range(n)
    ]


def made_queries(seed):
    rng = np.random.default_rng(seed + 1000)
    texts = [" ".join(rng.choice(WORDS, 3)) for _ in range(3)]
    return [Query("q", text) for text in [*texts, "book the flight to a city, then send the mail"]]


def plain(fusion):
    return DenseScorer(Embedder(ENCODER), ALL_VIEWS, fusion=fusion)


def backed(fusion, index=None, **options):
    recipe = Recipe.frozen(WIDTH, ALL_VIEWS, fusion=fusion)
    index = PlainIndex(WIDTH) if index is None else index
    return IndexBackedScorer("dense", Embedder(ENCODER), recipe, index, "|".join, **options)


@settings(max_examples=40)
@given(
    st.integers(0, 500),
    st.sampled_from([1, 2, 20, 60, 150]),
    st.sampled_from([1, 3, 10, 200]),
    st.sampled_from([1, 4, 30]),
    st.sampled_from(FUSIONS),
)
def test_over_an_exact_index_hits_and_scores_are_those_of_the_scan_to_the_bit(
    seed, n, k, depth, fusion
):
    tools, queries = made_tools(seed, n), made_queries(seed)
    scan, found = plain(fusion), backed(fusion, depth=depth)
    scan.index(tools)
    found.index(tools)
    assert found.rank(queries, k) == scan.rank(queries, k)


@settings(max_examples=15)
@given(st.integers(0, 100), st.sampled_from([3, 40, 150]), st.sampled_from([1, 5, 200]))
def test_ranks_are_fused_over_an_index_as_they_are_over_the_scan(seed, n, k):
    tools, queries, ranks = made_tools(seed, n), made_queries(seed), RankFusion(depth=7)
    scan = HybridScorer(Embedder(ENCODER), ranks=ranks)
    recipe = Recipe.frozen(WIDTH, fusion=Fusion(LexicalPart(0.5)))
    found = IndexBackedScorer(
        "hybrid", Embedder(ENCODER), recipe, PlainIndex(WIDTH), "|".join, ranks=ranks
    )
    scan.index(tools)
    found.index(tools)
    assert found.rank(queries, k) == scan.rank(queries, k)


@settings(max_examples=15)
@given(st.integers(0, 100), st.integers(1, 8), st.sampled_from(FUSIONS))
def test_any_order_of_corpora_ends_as_the_last_one_made_anew(seed, changes, fusion):
    history, queries = backed(fusion), made_queries(seed)
    tools = made_tools(seed, 60)
    rng = np.random.default_rng(seed)
    for _ in range(changes):
        kept = [tool for tool in made_tools(seed, 80) if rng.random() < 0.7]
        history.index(kept)
    history.index(tools)
    fresh = backed(fusion)
    fresh.index(tools)
    assert history.rank(queries, 60) == fresh.rank(queries, 60)


def test_only_new_tools_are_embedded_and_written_and_those_gone_are_removed():
    encoder, index = HashEncoder(WIDTH), PlainIndex(WIDTH)
    scorer = IndexBackedScorer("d", Embedder(encoder), Recipe.frozen(WIDTH), index, "|".join)
    tools = made_tools(0, 20)
    scorer.index(tools)
    del encoder.sent[:], index.written[:]
    scorer.index([*tools[5:], Tool("new", "quite_new")])
    assert len(encoder.sent) == len(index.written) == 1
    assert len(index) == len({(t.name, t.description) for t in tools[5:]}) + 1


def test_an_approximate_index_gives_exact_scores_of_what_it_finds():
    tools, queries = made_tools(1, 100), made_queries(1)
    scan, found = plain(FUSIONS[1]), backed(FUSIONS[1], HalfBlindIndex(WIDTH), depth=5)
    scan.index(tools)
    found.index(tools)
    for hits, all_hits in zip(found.rank(queries, 10), scan.rank(queries, 100), strict=True):
        assert len(hits) == 10
        assert {(h.tool_id, h.score) for h in hits} <= {(h.tool_id, h.score) for h in all_hits}
        assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)


def test_an_approximate_index_still_gives_as_many_hits_as_there_are_tools():
    found = backed(None, HalfBlindIndex(WIDTH), depth=5)
    found.index(made_tools(1, 100))
    assert [len(hits) for hits in found.rank(made_queries(1), 1000)] == [100] * 4


def test_an_index_is_asked_deeper_only_where_its_rows_prove_nothing():
    """Ten rows point at the query and the rest far away: the first answer proves itself."""
    index = PlainIndex(2)
    near = np.array([[1, i / 100] for i in range(10)], np.float32)
    far = np.array([[i / 1000 - 1, 0.5] for i in range(200)], np.float32)
    keys = [f"k{i:03}" for i in range(210)]
    index.apply(keys, np.concatenate([near, far]))
    rows = IndexedRows.of(keys, longest=2.0)
    query = QueryProjections(
        np.array([[1, 0]], np.float32), np.empty((0, 2), np.float32), np.array([0, 0]), 1.0, 0.0
    )
    assert len(IndexedSearch(index, rows, query, 0).top(5, depth=11)[0]) == 5
    assert index.depths == [11]
    assert len(IndexedSearch(index, rows, query, 0).top(60, depth=60)[0]) == 60
    assert index.depths[1:] == [60, 240]  # the 60th of 60 may tie with the next
    added = np.zeros(210)
    added[150] = 3.0  # the last by its vector, the first by what is added
    tools, _ = IndexedSearch(index, rows, query, 0, added=added).top(3, depth=11)
    assert tools[0] == 150


def search_of(tools, allowed=None, missing=(), index=None):
    recipe = Recipe.frozen(WIDTH, fusion=Fusion(LexicalPart(0.5)))
    index = PlainIndex(WIDTH) if index is None else index
    keys = [tool.id for tool in tools]
    index.apply(keys, recipe.rows(Embedder(ENCODER), tools))
    known = [None if key in missing else key for key in keys]
    rows = IndexedRows.of(known, recipe.longest)
    rows = replace(rows, mean=spread_of(index, rows).mean)
    words = Words.of(Fusion(LexicalPart(0.5)), tools)
    corpus = IndexedCorpus(recipe, rows, spread_of(index, rows), words)
    text = "create the issue list"
    queries = recipe.queries(Embedder(ENCODER), [text])
    return corpus.search(index, text, queries, allowed=allowed)


@settings(max_examples=15)
@given(st.integers(0, 100), st.sampled_from([0.02, 0.3, 0.9]))
def test_what_may_not_be_found_is_left_out_before_the_cut(seed, share):
    tools = made_tools(seed, 120)
    allowed = np.random.default_rng(seed).random(120) < share
    found, scores = search_of(tools, allowed).top(10, depth=3)
    every, of_every = search_of(tools).top(120)
    expected = [(row, s) for row, s in zip(every, of_every, strict=True) if allowed[row]][:10]
    assert list(zip(found, scores, strict=True)) == expected


def test_a_tool_without_a_row_counts_as_the_mean_and_is_found_by_its_words():
    tools = [*made_tools(0, 50), Tool("new", "create_issue_list", None, "create issue list")]
    search = search_of(tools, missing={"new"})
    rows, scores = search.top(51)
    assert rows.tolist().index(50) < 25  # without words it would be in the middle
    assert len(rows) == 51
    assert np.isfinite(scores).all()


def test_tools_that_were_not_found_can_be_scored_too():
    tools = made_tools(3, 60)
    every, scores = search_of(tools).top(60)
    search = search_of(tools)
    search.top(2)
    np.testing.assert_array_equal(search.score(every), scores)


def test_an_index_without_the_rows_is_an_error_that_says_so():
    index = PlainIndex(WIDTH)
    search = search_of(made_tools(0, 50), index=index)
    index.apply([], np.empty((0, WIDTH), np.float32), {"t7"})
    with pytest.raises(IndexStoreError, match="rows of all tools, got none for key 't7'"):
        search.top(50)


def test_hubness_is_refused_over_an_index():
    scorer = backed(Fusion(LexicalPart(0.5), HubnessPart(0.2)))
    with pytest.raises(ConfigError, match="hubness must be left out over an index"):
        scorer.index(made_tools(0, 5))
