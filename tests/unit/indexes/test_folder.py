"""What a folder of rows keeps, and what it writes for it."""

import json
import subprocess
import sys
import threading

import numpy as np
import pytest
from tests.unit.indexes.samples import (
    FIRST,
    found,
    manifest_file,
    open_folder,
    rows,
    segment_files,
)

from toolheads.errors import ConfigError, IndexStoreError
from toolheads.indexes import DTYPES
from toolheads.indexes.store import folder as folder_module
from toolheads.indexes.store import row_store, segment_file


def test_adding_a_row_writes_no_other_row(tmp_path):
    index = open_folder(tmp_path)
    index.apply(["a", "b"], rows(1, 2))
    before = {path: path.stat().st_mtime_ns for path in segment_files(tmp_path)}
    index.apply(["c"], rows(3), removed=["a"])
    after = {path: path.stat().st_mtime_ns for path in segment_files(tmp_path)}
    assert before.items() <= after.items()
    (added,) = after.keys() - before.keys()
    assert added.stat().st_size < 100  # one row of 16 bytes, padded to 64, and its key


def test_removing_rows_writes_the_manifest_alone(tmp_path):
    index = open_folder(tmp_path)
    index.apply(["a", "b"], rows(1, 2))
    files = segment_files(tmp_path)
    index.apply([], rows(), removed=["a"])
    assert segment_files(tmp_path) == files
    assert found(open_folder(tmp_path)) == ["b"]


def test_a_change_of_nothing_writes_nothing(tmp_path):
    index = open_folder(tmp_path)
    index.apply(["a"], rows(1))
    before = manifest_file(tmp_path).stat()
    index.apply(["a"], rows(1), removed=["unknown"])
    assert manifest_file(tmp_path).stat() == before


def test_opening_makes_no_folder(tmp_path):
    open_folder(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_rows_that_come_and_go_leave_nothing_behind_in_memory_or_on_the_disk(tmp_path):
    index = open_folder(tmp_path)
    index.apply(["a"], rows(1))
    for number in range(200):
        removed = [f"k{number - 1}"] if number else []
        index.apply([f"k{number}"], rows(number), removed=removed)
        found(index)
    inside = index._store._folder
    assert inside is not None
    held = (inside._entries, inside._segments, inside._checked, inside._bad, inside.faults)
    assert max(len(of_one) for of_one in held) <= 3
    assert len(segment_files(tmp_path)) <= 3


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_take_the_bytes_of_their_dtype(tmp_path, dtype):
    index = open_folder(tmp_path, dtype)
    index.apply([f"k{i:05}" for i in range(10_000)], rows(*range(10_000)))
    (path,) = segment_files(tmp_path)
    of_a_row = {"float32": 16, "float16": 8, "int8": 4 + 4}[dtype]
    of_the_keys = 7 * 10_000
    assert path.stat().st_size == pytest.approx(of_a_row * 10_000 + of_the_keys, abs=64)


def test_dtypes_of_one_space_do_not_mix(tmp_path):
    open_folder(tmp_path, "float16").apply(["a"], rows(1))
    assert len(open_folder(tmp_path, "float32")) == 0


def test_another_width_of_the_same_space_is_refused(tmp_path):
    open_folder(tmp_path).apply(["a"], rows(1))
    from toolheads.indexes import open_index

    with pytest.raises(ConfigError, match="width must be 4, as the rows of space space are, got 5"):
        open_index("numpy", space="space", width=5, folder=tmp_path)


def test_opening_reads_keys_and_no_row(tmp_path, monkeypatch):
    open_folder(tmp_path).apply(["a"], rows(1))
    checked = []
    real = segment_file.holds_what_was_written

    def watched(segment, entry):
        checked.append(entry.file)
        return real(segment, entry)

    monkeypatch.setattr(folder_module, "holds_what_was_written", watched)
    index = open_folder(tmp_path)
    assert index.keys() == {"a"}
    assert checked == []
    index.search(FIRST, 1)
    index.search(FIRST, 1)
    assert len(checked) == 1


def test_rows_are_mapped_not_read(tmp_path):
    index = open_folder(tmp_path)
    index.apply(["a"], rows(1))
    for opened in (index, open_folder(tmp_path)):
        (part,) = opened._store.snapshot.parts
        assert isinstance(part.segment.rows.values.base, np.memmap)


def test_many_small_segments_become_one(tmp_path):
    index = open_folder(tmp_path)
    for i in range(100):
        index.apply([f"k{i}"], rows(i))
        assert len(segment_files(tmp_path)) <= 33
    assert found(index) == found(open_folder(tmp_path)) == [f"k{i}" for i in range(99, -1, -1)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_segment_that_is_mostly_dead_is_written_anew(tmp_path, dtype):
    index = open_folder(tmp_path, dtype)
    keys = [f"k{i}" for i in range(5000)]
    index.apply(keys, rows(*range(5000)))
    kept = index.gather(keys[4000:])
    (before,) = segment_files(tmp_path)
    size = before.stat().st_size
    index.apply([], rows(), removed=keys[:4000])
    (after,) = segment_files(tmp_path)
    assert after.stat().st_size < 0.3 * size
    again = open_folder(tmp_path, dtype)
    np.testing.assert_array_equal(again.gather(keys[4000:]), kept)
    assert again.search(FIRST, 3)[0][0] == index.search(FIRST, 3)[0][0]


def test_searches_go_on_while_segments_are_merged(tmp_path):
    index = open_folder(tmp_path)
    index.apply(["last"], rows(-1))
    errors, done = [], threading.Event()

    def look():
        while not done.is_set():
            keys = found(index)
            if keys[-1] != "last" or keys != [f"k{i}" for i in range(len(keys) - 2, -1, -1)] + [
                "last"
            ]:
                errors.append(keys)

    looker = threading.Thread(target=look)
    looker.start()
    try:
        for i in range(80):
            index.apply([f"k{i}"], rows(i))
    finally:
        done.set()
        looker.join()
    assert errors == []


def test_a_reader_sees_what_another_wrote_after_refresh(tmp_path):
    writer, reader = open_folder(tmp_path), open_folder(tmp_path)
    writer.apply(["a"], rows(1))
    assert len(reader) == 0
    reader.refresh()
    assert found(reader) == ["a"]


def test_a_reader_goes_on_with_files_that_were_merged_away(tmp_path):
    writer = open_folder(tmp_path)
    writer.apply(["a"], rows(1))
    reader = open_folder(tmp_path)
    for i in range(40):
        writer.apply([f"k{i}"], rows(-i))
    assert not set(segment_files(tmp_path)) & {
        tmp_path / "space" / "float32" / p.segment.file for p in reader._store.snapshot.parts
    }
    assert found(reader) == ["a"]
    reader.refresh()
    assert len(reader) == 41


def test_a_reader_that_meets_a_merge_reads_again(tmp_path, monkeypatch):
    writer = open_folder(tmp_path)
    for i in range(32):
        writer.apply([f"k{i}"], rows(i))
    real = segment_file.read_segment
    met: list = []

    def read_once_merged(folder, entry, **settings):
        if not met:
            met.append(entry.file)
            writer.apply(["more"], rows(99))  # the file that is about to be read is gone
        return real(folder, entry, **settings)

    monkeypatch.setattr(folder_module, "read_segment", read_once_merged)
    reader = open_folder(tmp_path)
    assert reader.keys() == writer.keys()
    assert len(reader) == 33
    assert reader.faults == ()


def test_two_writers_lose_nothing(tmp_path):
    one, two = open_folder(tmp_path), open_folder(tmp_path)
    one.apply(["a"], rows(1))
    two.apply(["b"], rows(2))
    one.apply(["c"], rows(3), removed=["b"])
    assert one.keys() == open_folder(tmp_path).keys() == {"a", "c"}


WRITE = """
import sys
from tests.unit.indexes.samples import open_folder, rows
index = open_folder(sys.argv[1])
for i in range(20):
    index.apply([f"{sys.argv[2]} {i}"], rows(i))
"""


def test_writers_in_several_processes_lose_nothing(tmp_path):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITE, str(tmp_path), name]) for name in "abc"
    ]
    assert [writer.wait(timeout=100) for writer in writers] == [0, 0, 0]
    assert open_folder(tmp_path).keys() == {f"{name} {i}" for name in "abc" for i in range(20)}


def test_a_writer_waits_for_another_only_so_long(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_module, "_LOCK_TIMEOUT_S", 0.05)
    one, two = open_folder(tmp_path), open_folder(tmp_path)
    with (
        one._store.held(),
        pytest.raises(IndexStoreError, match=r"lock must be free within 0\.05 s"),
    ):
        two.apply(["a"], rows(1))


def test_a_merge_that_fails_does_not_undo_the_change(tmp_path, monkeypatch, caplog):
    index = open_folder(tmp_path)

    def no_room(parts):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(row_store, "merged", no_room)
    for i in range(34):
        index.apply([f"k{i}"], rows(i))
    assert len(open_folder(tmp_path)) == 34
    assert "were not merged" in caplog.text


def test_the_manifest_is_plain_json_with_a_format(tmp_path):
    open_folder(tmp_path).apply(["a", "b"], rows(3, 4), removed=["c"])
    manifest = json.loads(manifest_file(tmp_path).read_text())
    assert manifest["format"] == 1
    assert manifest["entries"][0]["rows"] == 2
