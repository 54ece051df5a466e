"""Rows that are written while the next ones are made."""

from __future__ import annotations

import threading
from contextlib import closing

import numpy as np
import pytest

from toolheads.errors import ShapeError
from toolheads.jobs import pending as module
from toolheads.jobs.pending import JOURNAL, PART, PendingRows


def rows(n, seed=0):
    return np.random.default_rng(seed).random((n, 4), np.float32)


def taken_up(folder, dtype):
    with closing(PendingRows(folder, width=4, dtype=dtype)) as pending:
        return pending.keys


def test_rows_are_written_while_others_are_made(tmp_path, monkeypatch):
    may_end = threading.Event()
    flush = module._flush

    def slow(file):
        assert may_end.wait(60)
        flush(file)

    monkeypatch.setattr(module, "_flush", slow)
    pending = PendingRows(tmp_path, width=4, dtype="float32")
    pending.add(["a", "b"], rows(2))
    assert pending.keys == {"a", "b"}  # and this thread is free
    assert (tmp_path / JOURNAL).read_bytes() == b""
    may_end.set()
    pending.add(["c"], rows(1, seed=1))
    assert len((tmp_path / JOURNAL).read_bytes().splitlines()) >= 1
    pending.close()
    assert (tmp_path / PART).read_bytes() == rows(2).tobytes() + rows(1, seed=1).tobytes()
    assert taken_up(tmp_path, "float32") == {"a", "b", "c"}


@pytest.mark.parametrize("then", [lambda p: p.add(["c"], rows(1)), lambda p: p.finished()])
def test_rows_that_cannot_be_written_are_told_at_the_next_call(tmp_path, then):
    pending = PendingRows(tmp_path, width=4, dtype="float16")
    pending.add(["a"], rows(1))
    pending.add(["b"], rows(1) + np.float32(1e6))
    with pytest.raises(ShapeError, match="beyond it, first row 0"):
        then(pending)
    pending.close()
    assert taken_up(tmp_path, "float16") == {"a"}


def test_nothing_after_a_damaged_batch_is_taken_up(tmp_path):
    pending = PendingRows(tmp_path, width=4, dtype="float32")
    for at, key in enumerate("abc"):
        pending.add([key], rows(1, seed=at))
    pending.close()
    whole = bytearray((tmp_path / PART).read_bytes())
    whole[20] ^= 1  # of the second
    (tmp_path / PART).write_bytes(whole)
    assert taken_up(tmp_path, "float32") == {"a"}
