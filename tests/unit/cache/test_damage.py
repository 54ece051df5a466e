"""Damaged files are named, set aside and never served."""

import json
import logging
import shutil

import numpy as np
import pytest
from tests.unit.cache.samples import (
    FINGERPRINT,
    PROBE,
    WIDTH,
    flip_byte,
    open_cache,
    shard_files,
    vectors,
)

from toolheads.cache import VectorCache, verify_cache
from toolheads.cache.disk import write_by_digest
from toolheads.cache.shard import tensors_as_parts
from toolheads.errors import BackboneMismatchError, CacheError


def two_shards(root):
    """Two shards; the path of the one with texts a and b."""
    cache = open_cache(root)
    cache.add(["a", "b"], vectors(1, 2))
    (path,) = shard_files(root)
    cache.add(["c"], vectors(3))
    return path


def parts_of(path):
    """(offset of the header, of the vectors, of the keys, and size)."""
    content = path.read_bytes()
    header = int.from_bytes(content[:8], "little")
    return 8, 8 + header, 8 + header + 2 * WIDTH * 4, len(content)


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_flipped_byte_is_named_and_its_texts_are_missing(tmp_path, caplog, part):
    path = two_shards(tmp_path)
    flip_byte(path, parts_of(path)[part] + 3)
    cache = open_cache(tmp_path)
    with caplog.at_level(logging.WARNING):
        # A flipped key is another text's key: the shard is not looked at for a or b.
        found = cache.find(["a", "b", "c"])
        cache.matrix()
    assert (found[2] >= 0, cache.damaged) == (True, [path])
    assert str(path) in caplog.text
    np.testing.assert_array_equal(cache.find(["a", "b"]), [-1, -1])
    np.testing.assert_array_equal(cache.rows(["c"]), vectors(3))


@pytest.mark.parametrize("size", [0, 5, 8, 40, 200, -32, -1])
def test_a_truncated_shard_is_named_and_its_texts_are_missing(tmp_path, size):
    path = two_shards(tmp_path)
    path.write_bytes(path.read_bytes()[:size])
    cache = open_cache(tmp_path)
    assert cache.damaged == [path]
    np.testing.assert_array_equal(cache.find(["a", "b", "c"]) >= 0, [False, False, True])


def test_a_shard_that_grew_is_refused(tmp_path):
    path = two_shards(tmp_path)
    path.write_bytes(path.read_bytes() + b"\0")
    assert open_cache(tmp_path).damaged == [path]


def test_a_damaged_shard_is_set_aside_and_can_be_written_again(tmp_path):
    path = two_shards(tmp_path)
    flip_byte(path, -1)
    cache = open_cache(tmp_path)
    assert (cache.find(["a", "b"]) < 0).any()
    assert not path.exists()
    assert [f.name for f in cache.folder.glob("damaged/*")] == [f"float32-{path.name}"]
    cache.add(["a", "b"], vectors(1, 2))
    np.testing.assert_array_equal(open_cache(tmp_path).rows(["a", "b"]), vectors(1, 2))


def test_a_large_shard_that_is_cut_off_while_open_is_refused(tmp_path):
    many = [str(i) for i in range(40_000)]  # more than 1 MiB, so that the file is mapped
    open_cache(tmp_path).add(many, np.ones((len(many), WIDTH)))
    cache = open_cache(tmp_path)
    (path,) = shard_files(tmp_path)
    with path.open("r+b") as file:
        file.truncate(1000)
    assert (cache.find(many) == -1).all()
    assert cache.damaged == [path]


def test_a_large_shard_is_mapped_and_checked_after_it_was_merged_away(tmp_path):
    many = [str(i) for i in range(40_000)]
    open_cache(tmp_path).add(many, np.ones((len(many), WIDTH)))
    cache = open_cache(tmp_path)
    shard_files(tmp_path)[0].unlink()
    assert (cache.rows(many) == 1).all()


def test_a_shard_of_another_width_is_refused(tmp_path):
    cache = open_cache(tmp_path)
    cache.add(["a"], vectors(1))
    folder = shard_files(tmp_path)[0].parent
    rows, keys = np.ones((1, WIDTH + 1), np.float32), np.zeros((1, 32), np.uint8)
    parts = tensors_as_parts({"vectors": ("F32", rows), "keys": ("U8", keys)})
    path = write_by_digest(folder, parts, suffix=".safetensors")
    assert open_cache(tmp_path).damaged == [path]


def test_verify_reads_every_byte_and_names_each_damaged_shard(tmp_path):
    path = two_shards(tmp_path)
    assert verify_cache(tmp_path).damages == ()
    flip_byte(path, -1)
    report = verify_cache(tmp_path)
    assert [damage.path for damage in report.damages] == [path]
    assert (report.shards, report.rows) == (2, 1)
    assert path.exists(), "verify changes nothing"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "must be the JSON that was written"),
        (b"\xff\xfe", "must be the JSON that was written"),
        (b"[1]", "must be the JSON that was written"),
        (b"{}", "must be the JSON that was written"),
        (b'{"format": "2"}', "has cache format '2', this version reads '1'"),
    ],
)
def test_a_damaged_fingerprint_file_is_one_clear_error(tmp_path, content, reason):
    path = open_cache(tmp_path).folder / "fingerprint.json"
    path.write_bytes(content)
    flip_byte(next(path.parent.glob("*.probe.safetensors")), -1)  # else it would be written anew
    with pytest.raises(CacheError, match=rf"fingerprint.json {reason}.*; delete "):
        open_cache(tmp_path)
    assert reason in verify_cache(tmp_path).damages[0].reason


def test_a_fingerprint_file_that_cannot_be_read_is_written_anew_from_an_intact_probe(
    tmp_path, caplog
):
    cache = open_cache(tmp_path)
    cache.add(["a"], vectors(1))
    path = cache.folder / "fingerprint.json"
    before = path.read_bytes()
    path.write_bytes(before[:40])
    np.testing.assert_array_equal(open_cache(tmp_path).rows(["a"]), vectors(1))
    assert path.read_bytes() == before
    assert "fingerprint.json could not be read and was written anew" in caplog.text


def test_an_intact_probe_of_other_weights_does_not_mend_a_fingerprint_file(tmp_path):
    path = open_cache(tmp_path).folder / "fingerprint.json"
    path.write_bytes(b"{")
    with pytest.raises(BackboneMismatchError, match="was made with other weights"):
        VectorCache.open(tmp_path, FINGERPRINT, np.roll(PROBE, 1, axis=1))
    assert path.read_bytes() == b"{"


def test_a_cache_of_a_later_format_is_never_written_over(tmp_path):
    path = open_cache(tmp_path).folder / "fingerprint.json"
    path.write_bytes(b'{"format": "2"}')
    with pytest.raises(CacheError, match="has cache format '2'"):
        open_cache(tmp_path)
    assert path.read_bytes() == b'{"format": "2"}'


def test_a_fingerprint_file_of_another_folder_is_refused(tmp_path):
    path = open_cache(tmp_path).folder / "fingerprint.json"
    about = json.loads(path.read_text())
    about["fingerprint"]["encoder"]["model"] = "other"
    path.write_text(json.dumps(about))
    with pytest.raises(CacheError, match=f"must have the key {FINGERPRINT.key}, got"):
        open_cache(tmp_path)


def test_a_flipped_probe_is_damage_and_not_other_weights(tmp_path):
    (probe,) = open_cache(tmp_path).folder.glob("*.probe.safetensors")
    flip_byte(probe, -1)
    with pytest.raises(CacheError, match=f"{probe.name}, which must exist and have that sha256"):
        open_cache(tmp_path)


def test_shards_without_a_fingerprint_are_not_taken_over_by_the_next_encoder(tmp_path):
    two_shards(tmp_path)
    (tmp_path / FINGERPRINT.key / "fingerprint.json").unlink()
    with pytest.raises(CacheError, match=r"must have fingerprint\.json, got shards without it"):
        VectorCache.open(tmp_path, FINGERPRINT, np.roll(PROBE, 1, axis=1))


def test_a_folder_deleted_while_it_is_open_is_one_clear_error(tmp_path):
    cache = open_cache(tmp_path)
    shutil.rmtree(cache.folder)
    with pytest.raises(CacheError, match=f"cannot write to cache folder {cache.folder}"):
        cache.add(["a"], vectors(1))


def test_a_root_that_is_a_file_is_one_clear_error(tmp_path):
    root = tmp_path / "cache"
    root.write_text("")
    with pytest.raises(CacheError, match="cannot create cache folder"):
        open_cache(root)
