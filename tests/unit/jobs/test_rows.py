"""Rows of a batch: all threads have work, and no bit depends on how many there are."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from tests.unit.jobs.made import Counted, expected, heads, tools

from toolheads.jobs.rows import RowMaker, tools_of_a_batch


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_threads_share_a_batch_and_change_no_bit(tmp_path, monkeypatch, count):
    listed = tools(0, count)
    seen: list[int] = []
    project = RowMaker._project

    def watched(self, numbers, out):
        seen.append(len(numbers))
        return project(self, numbers, out)

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
