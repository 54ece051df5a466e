"""Writing: a full disk, leftovers of a kill, and several writers at once."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from tests.unit.cache.samples import open_cache, shard_files, vectors

from toolheads.cache import prune_cache
from toolheads.cache.disk import locked, write_by_digest
from toolheads.errors import CacheError


def all_files(root):
    return sorted(path for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_one_clear_error_and_leaves_nothing(tmp_path, monkeypatch, call, code):
    cache = open_cache(tmp_path)
    cache.add(["a"], vectors(1))
    before = all_files(tmp_path)

    def fail(*args):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(CacheError, match=r"must have room, got .*; free some space") as caught:
            cache.add(["b"], vectors(2))
    assert "\n" not in str(caught.value)
    assert all_files(tmp_path) == before
    cache.add(["b"], vectors(2))
    np.testing.assert_array_equal(cache.rows(["a", "b"]), vectors(1, 2))


def test_a_disk_that_is_full_halfway_through_a_file_leaves_nothing(tmp_path):
    """A limit on the size of files stands in for the disk: the kernel cuts the write short."""
    code = (
        "import resource, sys, numpy as np\n"
        "from pathlib import Path\n"
        "from tests.unit.cache.samples import open_cache\n"
        "cache = open_cache(Path(sys.argv[1]))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "cache.add([str(i) for i in range(9000)], np.ones((9000, 4)))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert "CacheError: cache folder" in run.stderr
    assert shard_files(tmp_path) == []
    assert not list(tmp_path.rglob(".tmp-*"))


def test_a_short_write_is_carried_on(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data[:7])))
    open_cache(tmp_path).add(["a", "b"], vectors(1, 2))
    np.testing.assert_array_equal(open_cache(tmp_path).rows(["a", "b"]), vectors(1, 2))


def test_a_file_is_synced_before_it_gets_its_name_and_its_folder_after(tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor):
        events.append("sync")
        fsync(descriptor)

    def named(path, target):
        events.append("name")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", named)
    write_by_digest(tmp_path, [b"x"], suffix=".bin")
    assert events == ["sync", "name", "sync"]


def test_half_written_files_are_ignored_and_pruned(tmp_path):
    cache = open_cache(tmp_path)
    cache.add(["a"], vectors(1))
    leftover = shard_files(tmp_path)[0].parent / ".tmp-123-abc"
    leftover.write_bytes(b"half")
    again = open_cache(tmp_path)
    assert (len(again), again.damaged) == (1, [])
    assert prune_cache(tmp_path).leftovers == [leftover]
    assert not leftover.exists()


def test_a_folder_whose_making_was_killed_is_made_again(tmp_path):
    first = open_cache(tmp_path)
    (first.folder / "fingerprint.json").unlink()
    cache = open_cache(tmp_path)
    cache.add(["a"], vectors(1))
    np.testing.assert_array_equal(open_cache(tmp_path).rows(["a"]), vectors(1))


def write_many(root, name, count, start):
    cache = open_cache(root)
    start.wait()
    for i in range(count):
        cache.add([f"{name} {i}", f"shared {i}"], vectors(i, 100 + i))


def test_two_processes_writing_at_once_lose_nothing(tmp_path):
    context = get_context("spawn")
    start = context.Barrier(2)
    writers = [
        context.Process(target=write_many, args=(tmp_path, name, 10, start)) for name in "ab"
    ]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        prune_cache(tmp_path)  # merges what is there between their chunks
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    cache = open_cache(tmp_path)
    assert cache.damaged == []
    for name in "ab":
        np.testing.assert_array_equal(
            cache.rows([f"{name} {i}" for i in range(10)]), vectors(*range(10))
        )
    shared = cache.rows([f"shared {i}" for i in range(10)])
    np.testing.assert_array_equal(shared, vectors(*range(100, 110)))


def mode_of(file):
    return fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_lock_is_of_a_file_that_is_open_for_both_as_network_file_systems_need(
    tmp_path, monkeypatch, exclusive
):
    modes = []
    monkeypatch.setattr(fcntl, "flock", lambda file, kind: modes.append(mode_of(file)))
    with locked(tmp_path / "lock", exclusive=exclusive):
        assert modes == [os.O_RDWR]


def test_pruning_waits_for_a_chunk_that_is_being_written(tmp_path):
    cache = open_cache(tmp_path)
    leftover = cache.folder / ".tmp-1-a"
    pruning = threading.Thread(target=prune_cache, args=(tmp_path,))
    with locked(cache.folder / "lock", exclusive=False):
        leftover.write_bytes(b"being written")
        pruning.start()
        pruning.join(0.3)  # without the lock it would be done in a few milliseconds
        assert pruning.is_alive()
        assert leftover.exists()
    pruning.join(30)
    assert not leftover.exists()
