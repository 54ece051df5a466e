"""Damage is found, never searched; what is not damaged goes on."""

import os

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

from toolheads.errors import IndexStoreError
from toolheads.indexes import DTYPES
from toolheads.indexes.store import folder as folder_module
from toolheads.indexes.store import segment_file


def two_segments(folder, dtype="float32"):
    """Rows a, b in the first file, c in the second."""
    index = open_folder(folder, dtype)
    index.apply(["a", "b"], rows(3, 2))
    (first,) = segment_files(folder)
    index.apply(["c"], rows(1))
    index.close()
    return first


def flip(path, place):
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_flipped_bit_in_a_row_is_found_before_it_is_searched(tmp_path, dtype):
    first = two_segments(tmp_path, dtype)
    flip(first, 0)
    index = open_folder(tmp_path, dtype)
    with pytest.raises(IndexStoreError, match="must hold the rows that were written, got others"):
        index.search(FIRST, 1)
    assert found(index) == ["c"]
    assert index.keys() == {"c"}
    assert str(first) in index.faults[0]


def test_a_flipped_bit_is_found_before_a_row_is_gathered(tmp_path):
    flip(two_segments(tmp_path), 0)
    with pytest.raises(IndexStoreError, match="add the rows that are missing again"):
        open_folder(tmp_path).gather(["a"])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("place", [-1, -2, -4])
def test_a_flipped_bit_in_a_key_is_found_when_the_index_is_opened(tmp_path, place, dtype):
    first = two_segments(tmp_path, dtype)
    flip(first, first.stat().st_size + place)
    index = open_folder(tmp_path, dtype)
    assert "keys that were written" in index.faults[0]
    assert found(index) == ["c"]


def test_a_flipped_bit_in_a_scale_is_found_when_the_index_is_opened(tmp_path):
    first = two_segments(tmp_path, "int8")
    flip(first, 64)
    assert found(open_folder(tmp_path, "int8")) == ["c"]


@pytest.mark.parametrize("size", [0, 1, 16, 40, 67])
def test_a_truncated_segment_is_left_out_and_reported(tmp_path, size, caplog):
    first = two_segments(tmp_path)
    os.truncate(first, size)
    index = open_folder(tmp_path)
    assert index.keys() == {"c"}
    assert index.faults == (f"{first} must have 68 bytes, got {size}",)
    assert "left out until they are added again" in caplog.text


def test_a_missing_segment_is_left_out_and_reported(tmp_path):
    two_segments(tmp_path).unlink()
    index = open_folder(tmp_path)
    assert found(index) == ["c"]
    assert "must exist" in index.faults[0]


@pytest.mark.parametrize("damage", ["truncate", "flip a row", "flip a key", "delete"])
def test_rows_that_were_lost_can_be_added_again(tmp_path, damage):
    first = two_segments(tmp_path)
    if damage == "truncate":
        os.truncate(first, 10)
    elif damage == "delete":
        first.unlink()
    else:
        flip(first, 0 if damage == "flip a row" else 65)
    index = open_folder(tmp_path)
    index.verify()
    missing = {"a", "b", "c"} - index.keys()
    assert missing == {"a", "b"}
    index.apply(["a", "b"], rows(3, 2))
    for opened in (index, open_folder(tmp_path)):
        assert found(opened) == ["a", "b", "c"]
    assert not first.exists()
    assert open_folder(tmp_path).faults == ()


@pytest.mark.parametrize(
    "text",
    ["{", "", "null", "[]", "{}", "\0" * 50, '{"format": 1, "digest": ""}', "9" * 5000, "[" * 9999],
    ids=lambda text: repr(text[:20]),
)
def test_a_manifest_that_is_none_holds_nothing(tmp_path, text):
    two_segments(tmp_path)
    manifest_file(tmp_path).write_text(text)
    index = open_folder(tmp_path)
    assert len(index) == 0
    assert "manifest.json" in index.faults[0]
    index.apply(["a"], rows(1))
    assert found(open_folder(tmp_path)) == ["a"]
    assert len(segment_files(tmp_path)) == 1


def test_a_manifest_that_was_edited_holds_nothing(tmp_path):
    two_segments(tmp_path)
    path = manifest_file(tmp_path)
    path.write_text(path.read_text().replace('"dead": []', '"dead": [1]'))
    index = open_folder(tmp_path)
    assert len(index) == 0
    assert "another digest" in index.faults[0]


def test_the_manifest_of_another_space_holds_nothing(tmp_path):
    two_segments(tmp_path)
    open_folder(tmp_path, space="other").apply(["x"], rows(9))
    other = (tmp_path / "other" / "float32" / "manifest.json").read_bytes()
    (tmp_path / "space" / "float32" / "manifest.json").write_bytes(other)
    index = open_folder(tmp_path)
    assert len(index) == 0
    assert "must be of space space, got other" in index.faults[0]


def test_a_manifest_of_another_format_is_not_guessed_at(tmp_path, monkeypatch):
    two_segments(tmp_path)
    from toolheads.indexes.store import manifest

    monkeypatch.setattr(manifest, "FORMAT", 2)
    index = open_folder(tmp_path)
    assert len(index) == 0
    assert "has index format 1, this version reads 2" in index.faults[0]


def test_traces_of_a_kill_are_ignored_and_swept_away(tmp_path):
    two_segments(tmp_path)
    folder = manifest_file(tmp_path).parent
    (folder / ".tmp-123-abc").write_bytes(b"half a manifest")
    (folder / "00ff00ff00ff00ff.rows").write_bytes(b"a segment that no manifest lists")
    index = open_folder(tmp_path)
    assert found(index) == ["a", "b", "c"]
    assert index.faults == ()
    index.apply(["d"], rows(0))
    assert len(segment_files(tmp_path)) == 3
    assert list(folder.glob(".tmp-*")) == []


@pytest.mark.parametrize("step", ["segment", "manifest"])
def test_a_full_disk_changes_nothing(tmp_path, monkeypatch, step):
    index = open_folder(tmp_path)
    index.apply(["a", "b"], rows(3, 2))

    def full(*args, **settings):
        raise OSError(28, "No space left on device")

    module = segment_file if step == "segment" else folder_module
    with monkeypatch.context() as patched:
        patched.setattr(module, "write_whole", full)
        with pytest.raises(IndexStoreError, match="must have room, got 'No space left on device'"):
            index.apply(["c"], rows(1), removed=["a"])
    for opened in (index, open_folder(tmp_path)):
        assert found(opened) == ["a", "b"]
    assert len(segment_files(tmp_path)) == 1
    index.apply(["c"], rows(1), removed=["a"])
    assert found(index) == ["b", "c"]


def test_a_folder_that_is_a_file_is_one_clear_line(tmp_path):
    (tmp_path / "space").write_text("in the way")
    with pytest.raises(IndexStoreError, match=r"index folder .*: Not a directory"):
        open_folder(tmp_path)
    index = open_folder(tmp_path / "other")
    (tmp_path / "other").write_text("in the way")
    with pytest.raises(IndexStoreError, match="cannot write to index folder"):
        index.apply(["a"], rows(1))


def test_verify_finds_what_was_damaged_after_it_was_searched(tmp_path):
    first = two_segments(tmp_path)
    index = open_folder(tmp_path)
    assert found(index) == ["a", "b", "c"]
    assert index.verify() == ()
    flip(first, 0)
    (fault,) = index.verify()
    assert str(first) in fault
    assert found(index) == ["c"]


def test_verify_survives_a_file_that_was_truncated_under_it(tmp_path):
    """To read past the end of a mapped file would kill the process."""
    first = two_segments(tmp_path)
    index = open_folder(tmp_path)
    os.truncate(first, 10)
    assert "must have 68 bytes, got 10" in index.verify()[0]
    assert index.keys() == {"c"}


def test_a_damaged_segment_is_not_merged_into_a_sound_one(tmp_path):
    first = two_segments(tmp_path)
    flip(first, 0)
    index = open_folder(tmp_path)
    for i in range(40):
        index.apply([f"k{i}"], rows(-i))
    assert index.keys() == {"c", *(f"k{i}" for i in range(40))}
    assert "got others" in index.faults[0]


def test_what_is_found_damaged_stays_out_after_a_refresh(tmp_path):
    flip(two_segments(tmp_path), 0)
    reader, writer = open_folder(tmp_path), open_folder(tmp_path)
    reader.verify()
    writer.apply(["d"], rows(0))
    reader.refresh()
    assert reader.keys() == {"c", "d"}
    np.testing.assert_array_equal(reader.gather(["c"]), rows(1))
