"""A catalogue that changes for ever takes no more memory, files or descriptors for it."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.retrieval.worlds import PATIENT, TOOLS, WORDS, retriever_of

MANY = 48


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs a list of descriptors")
def test_changes_leave_nothing_behind(tmp_path):
    settings = replace(PATIENT, keep_rows_s=0.0)
    with retriever_of(TOOLS, folder=tmp_path, settings=settings) as retriever:

        def change(numbers):
            for number in numbers:
                tools = list(TOOLS)
                # Of known words: new ones are remembered, up to a bound of their own.
                text = " ".join(WORDS[number // 10**place % 10] for place in range(3))
                tools[number % len(tools)] = replace(tools[number % len(tools)], description=text)
                retriever.update(tools)
                assert retriever.wait(30)
                retriever.search("create an issue")

        def left():
            gc.collect()
            files = sum(1 for path in tmp_path.rglob("*") if path.is_file())
            descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir())
            return tracemalloc.get_traced_memory()[0], files, descriptors

        change(range(MANY))
        tracemalloc.start()
        try:
            change(range(MANY, 2 * MANY))
            before, files_before, open_before = left()
            change(range(2 * MANY, 3 * MANY))
            after, files_after, open_after = left()
        finally:
            tracemalloc.stop()
    assert (
        after - before
    ) / MANY < 1_300  # bytes a change; a shard of its own for each takes 1,900
    assert abs(files_after - files_before) < MANY / 2
    assert abs(open_after - open_before) < MANY / 2
