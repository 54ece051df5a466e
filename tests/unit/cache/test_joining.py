"""Small shards: a writer that adds a row at a time, as a server does, leaves few of them."""

import errno
import logging
import os
from pathlib import Path

import numpy as np
import pytest
from tests.unit.cache.samples import open_cache, shard_files, vectors

from toolheads.cache import joining, prune_cache
from toolheads.cache.joining import MOST_SMALL, SMALL_BYTES

COUNT = 5 * MOST_SMALL


def add_singly(cache, numbers, name=""):
    for i in numbers:
        cache.add([f"{name}{i}"], vectors(i))


def texts(numbers, name=""):
    return [f"{name}{i}" for i in numbers]


def test_rows_added_one_by_one_leave_few_files_and_are_all_there(tmp_path):
    cache = open_cache(tmp_path)
    for i in range(COUNT):
        add_singly(cache, [i])
        assert len(shard_files(tmp_path)) <= MOST_SMALL
    for reader in (cache, open_cache(tmp_path)):
        np.testing.assert_array_equal(reader.rows(texts(range(COUNT))), vectors(*range(COUNT)))
    assert (len(cache), cache.damaged) == (COUNT, [])


def test_an_object_that_adds_row_after_row_holds_no_object_for_each(tmp_path):
    cache = open_cache(tmp_path)
    add_singly(cache, range(COUNT))
    held = (cache._shards, cache._starts, cache._names, cache._checked, cache._own)
    assert max(len(of_one) for of_one in held) <= MOST_SMALL


def test_a_row_keeps_its_number_when_its_shard_is_joined(tmp_path):
    cache = open_cache(tmp_path)
    add_singly(cache, range(MOST_SMALL))
    numbers, before = cache.find(texts(range(MOST_SMALL))), cache.matrix()
    add_singly(cache, range(MOST_SMALL, COUNT))
    np.testing.assert_array_equal(cache.find(texts(range(MOST_SMALL))), numbers)
    for matrix in (before, cache.matrix()):
        np.testing.assert_array_equal(matrix[numbers], vectors(*range(MOST_SMALL)))


def test_what_another_process_wrote_is_left_to_it(tmp_path):
    other, cache = open_cache(tmp_path), open_cache(tmp_path)
    add_singly(other, range(3), "other ")
    theirs = shard_files(tmp_path)
    assert (cache.find(texts(range(3), "other ")) >= 0).all()
    add_singly(cache, range(COUNT))
    assert all(path.exists() for path in theirs)
    for reader in (other, cache):
        np.testing.assert_array_equal(reader.rows(texts(range(COUNT))), vectors(*range(COUNT)))
        np.testing.assert_array_equal(reader.rows(texts(range(3), "other ")), vectors(0, 1, 2))


def test_two_writers_in_turn_lose_nothing(tmp_path):
    one, two = open_cache(tmp_path), open_cache(tmp_path)
    for i in range(COUNT):
        add_singly(one, [i], "one ")
        add_singly(two, [i], "two ")
        if i % 7 == 0:
            two.find(texts([i], "one "))  # takes in what the other wrote
    cache = open_cache(tmp_path)
    for name in ("one ", "two "):
        np.testing.assert_array_equal(cache.rows(texts(range(COUNT), name)), vectors(*range(COUNT)))


def test_a_large_shard_is_not_written_again(tmp_path):
    cache = open_cache(tmp_path)
    rows = SMALL_BYTES // (4 * 4 + 32) + 1
    cache.add(texts(range(rows), "large "), np.ones((rows, 4)))
    (large,) = shard_files(tmp_path)
    add_singly(cache, range(COUNT))
    assert large.exists()


def test_a_disk_that_is_full_when_shards_are_joined_costs_no_row(tmp_path, monkeypatch, caplog):
    cache = open_cache(tmp_path)
    add_singly(cache, range(MOST_SMALL))

    def fail(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(joining, "write_shard", fail)
        add_singly(cache, [MOST_SMALL])
    assert "not joined yet" in caplog.text
    numbers = range(MOST_SMALL + 2)
    add_singly(cache, [MOST_SMALL + 1])
    for reader in (cache, open_cache(tmp_path)):
        np.testing.assert_array_equal(reader.rows(texts(numbers)), vectors(*numbers))
    assert len(shard_files(tmp_path)) == 1


def test_a_kill_between_the_joined_shard_and_the_end_of_the_small_ones_loses_nothing(
    tmp_path, monkeypatch
):
    cache = open_cache(tmp_path)
    add_singly(cache, range(MOST_SMALL))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *args, **kwargs: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            add_singly(cache, [MOST_SMALL])
    numbers = range(MOST_SMALL + 1)
    np.testing.assert_array_equal(open_cache(tmp_path).rows(texts(numbers)), vectors(*numbers))
    assert prune_cache(tmp_path).duplicates == MOST_SMALL + 1
