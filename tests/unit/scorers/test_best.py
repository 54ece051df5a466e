"""Tile by tile, the best tools are what sorting all scores gives, in bounded memory."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hash_encoder import HashEncoder

from toolheads.domain import Query, Tool
from toolheads.embedder import Embedder
from toolheads.scorers import vectors
from toolheads.scorers.best import MeanScored, best
from toolheads.scorers.dense import DenseScorer
from toolheads.scorers.exact import ProjectedTools, QueryProjections
from toolheads.scorers.row_file import collected

WIDTH = 16


def corpus(seed, n, distinct=None):
    """Tools of rows among which many are equal, so that there are ties."""
    rng = np.random.default_rng(seed)
    kinds = rng.standard_normal((distinct or max(1, n // 3), WIDTH)).astype(np.float32)
    rows = kinds[rng.integers(len(kinds), size=n)]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return ProjectedTools.of_rows(rows)


def queries_of(seed, q, *, clauses=True):
    rng = np.random.default_rng(seed + 1)
    sizes = rng.integers(0, 3, q) if clauses else np.zeros(q, int)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = rng.standard_normal((q + offsets[-1], WIDTH)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    weights = (0.5, 0.5, 0.1) if clauses else (1.0, 0.0, 0.0)
    return QueryProjections(rows[:q], rows[q:], offsets, *weights)


def sorted_whole(scored, k, above=None):
    """The definition: every tool scored alone, all of them sorted, ties by row."""
    everything = np.arange(scored.tools)
    for row in range(len(scored)):
        exact = scored.exact(row, everything)
        order = np.argsort(-exact, kind="stable")
        count = k if above is None else max(k, int((exact > above[row]).sum()))
        yield order[:count], exact[order[:count]]


def assert_equal(found, expected):
    found, expected = list(found), list(expected)
    assert [rows.tolist() for rows, _ in found] == [rows.tolist() for rows, _ in expected]
    assert [scores.tolist() for _, scores in found] == [s.tolist() for _, s in expected]


@given(
    st.integers(0, 10_000),
    st.integers(1, 300),
    st.integers(1, 9),
    st.integers(1, 40),
    st.sampled_from([1, 7, 64, 1000, None]),
    st.sampled_from(["plain", "clauses", "more", "mean"]),
)
def test_tiles_of_any_size_give_what_sorting_everything_gives(seed, n, q, k, entries, kind):
    tools, queries = corpus(seed, n), queries_of(seed, q, clauses=kind != "plain")
    more = np.random.default_rng(seed).integers(0, 3, (q, n)) / 4
    scored = tools.asked(queries, more.__getitem__ if kind == "more" else None)
    if kind == "mean":
        scored = MeanScored([scored, corpus(seed + 9, n).asked(queries_of(seed + 9, q))])
    assert_equal(best(scored, k, tile_entries=entries), sorted_whole(scored, k))


@given(st.integers(0, 10_000), st.integers(1, 200), st.sampled_from([1, 50, None]))
def test_tools_above_a_score_are_found_besides_the_best(seed, n, entries):
    tools, queries = corpus(seed, n), queries_of(seed, 5)
    scored = tools.asked(queries)
    above = [float(scored.exact(row, np.array([seed % n]))[0]) for row in range(5)]
    assert_equal(best(scored, 3, above=above, tile_entries=entries), sorted_whole(scored, 3, above))


def test_whatever_multiplies_as_exactly_as_float32_finds_the_same():
    tools, queries = corpus(1, 500), queries_of(1, 7)

    def other(one, two):
        product = (one.astype(np.float64) @ two.T.astype(np.float64)).astype(np.float32)
        return np.nextafter(product, np.float32(-9))

    assert_equal(best(tools.asked(queries, multiply=other), 20), best(tools.asked(queries), 20))


def test_no_matrix_of_all_queries_and_tools_is_held():
    """60 MB of scores, and a quarter of it is enough with tiles of 4 MB."""
    tools, queries = corpus(0, 50_000, distinct=40_000), queries_of(0, 300, clauses=False)
    scored = tools.asked(queries)
    tracemalloc.start()
    for _ in best(scored, 10, tile_entries=1 << 20):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 15_000_000


def test_rows_in_a_file_are_those_in_memory(monkeypatch):
    rows = corpus(3, 1000).rows
    monkeypatch.setattr("toolheads.scorers.row_file.HELD_BYTES", 1000)
    mapped = collected(1000, WIDTH, (rows[at : at + 300] for at in range(0, 1000, 300)))
    assert isinstance(mapped, np.memmap)
    np.testing.assert_array_equal(mapped, rows)
    queries = queries_of(3, 9)
    tiled = best(ProjectedTools.of_rows(mapped).asked(queries), 20, tile_entries=500)
    assert_equal(tiled, best(ProjectedTools.of_rows(rows).asked(queries), 20))


def test_a_corpus_that_is_indexed_in_parts_is_ranked_alike(monkeypatch, tmp_path):
    tools = [Tool(f"t{i}", f"tool_{i % 40}", None, f"does thing {i % 50}") for i in range(200)]
    queries = [Query(str(i), f"do thing {i}") for i in range(20)]
    embedder = Embedder(HashEncoder(WIDTH), cache=tmp_path)

    def ranked():
        scorer = DenseScorer(embedder)
        scorer.index(tools)
        return scorer.rank(queries, 30)

    whole = ranked()
    monkeypatch.setattr(vectors, "_EMBEDDED_ENTRIES", 17 * WIDTH)
    monkeypatch.setattr("toolheads.scorers.row_file.HELD_BYTES", 1000)
    assert ranked() == whole


CHILD = """
import resource, sys
import numpy as np
from toolheads.scorers.best import best
from toolheads.scorers.exact import ProjectedTools, QueryProjections
from toolheads.scorers import row_file
row_file.HELD_BYTES = 0
n, e, q = int(sys.argv[1]), 256, 64
rng = np.random.default_rng(0)
parts = (rng.standard_normal((5000, e), np.float32) for _ in range(0, n, 5000))
tools = ProjectedTools.of_rows(row_file.collected(n, e, parts))
asked = rng.standard_normal((q, e), np.float32)
queries = QueryProjections(asked, asked[:0], np.zeros(q + 1, np.int64), 1.0, 0.0)
found = sum(len(rows) for rows, _ in best(tools.asked(queries), 10, tile_entries=1 << 20))
assert found == 10 * q
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does")
def test_the_memory_of_a_search_does_not_grow_with_the_corpus():
    """200,000 rows take 205 MB; most of them are never in memory at once."""
    few, many = (
        int(subprocess.check_output([sys.executable, "-c", CHILD, str(n)]))
        for n in (20_000, 200_000)
    )
    assert many - few < 60_000  # KB
