"""Rows of a batch: all threads have work, and no bit depends on how many there are."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from tests.unit.jobs.made import WIDTH, Counted, expected, heads, tools

from toolheads.cache import VectorCache
from toolheads.jobs import rows as rows_module
from toolheads.jobs.rows import RowMaker, tools_of_a_batch


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_threads_share_a_batch_and_change_no_bit(tmp_path, monkeypatch, count):
    listed = tools(0, count)
    seen: list[int] = []
    project = RowMaker._project

    def watched(self, numbers, *others):
        seen.append(len(numbers))
        return project(self, numbers, *others)

    monkeypatch.setattr(RowMaker, "_project", watched)
    maker = RowMaker(heads(), Counted(), tmp_path / "cache", threads=4)
    try:
        texts = [maker.texts(tool) for tool in listed]
        made = maker.rows(texts)
        np.testing.assert_array_equal(made.rows, expected(listed, tmp_path))
        assert len(seen) == min(count, 4)
        assert sum(seen) == len(list(chain.from_iterable(texts)))
        assert maker.rows([]).rows.shape == (0, maker.width)
    finally:
        maker.close()


@pytest.mark.parametrize(
    ("width", "threads", "views", "tools"),
    [
        (384, 1, 3, 24 * 341),
        (384, 2, 3, 12 * 682),
        (4096, 2, 1, 2 * 2048),
        (4096, 16, 1, 4096),  # fewer than a block for each thread
        (4096, 3, 1, 3 * 1024),
    ],
)
def test_a_batch_gives_threads_whole_blocks_and_is_no_larger_than_its_bound(
    width, threads, views, tools
):
    assert tools_of_a_batch(width, views, threads) == tools


def test_rows_stay_while_the_next_batch_is_made(tmp_path):
    maker = RowMaker(heads(), Counted(), tmp_path / "cache", threads=2)
    try:
        batches = [[maker.texts(tool) for tool in tools(at, 9)] for at in (0, 3, 6)]
        first = maker.rows(batches[0]).rows
        before = first.copy()
        second = maker.rows(batches[1]).rows
        np.testing.assert_array_equal(first, before)
        assert not np.may_share_memory(first, second)
        third = maker.rows(batches[2]).rows
        assert np.may_share_memory(first, third)  # memory is not touched afresh
        np.testing.assert_array_equal(third, expected(tools(6, 9), tmp_path))
    finally:
        maker.close()


def test_a_vector_of_many_texts_of_a_batch_is_projected_once_and_changes_no_bit(
    tmp_path, monkeypatch
):
    listed = tools(0, 30)
    seen: list[int] = []
    project = RowMaker._project

    def watched(self, numbers, *others):
        seen.extend(numbers.tolist())
        return project(self, numbers, *others)

    maker = RowMaker(heads(), Counted(), tmp_path / "cache", threads=3)
    try:
        texts = [maker.texts(tool) for tool in listed]
        alone = maker.rows(texts).rows.copy()
        monkeypatch.setattr(RowMaker, "_project", watched)
        order = np.random.default_rng(0).integers(0, 30, 50)
        together = maker.rows([texts[at] for at in order]).rows
        np.testing.assert_array_equal(together, alone[order])
        assert len(seen) == len(set(seen)) == len({t for at in order for t in texts[at]})
    finally:
        maker.close()


def test_memory_of_the_cache_is_let_go_of_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setattr(rows_module, "_READ_ENTRIES", 15 * WIDTH)
    gone = []
    monkeypatch.setattr(VectorCache, "let_go", lambda _: gone.append(1))
    maker = RowMaker(heads(), Counted(), tmp_path / "cache")
    try:
        texts = [maker.texts(tool) for tool in tools(0, 12 // len(maker.wording.views))]
        for _ in range(4):  # 12 vectors each
            maker.rows(texts)
        assert len(gone) == 2
    finally:
        maker.close()
