import numpy as np
import pytest
from tests.unit.cache.samples import flip_byte, open_cache, shard_files, vectors

from toolheads.cache import cache_info, prune_cache
from toolheads.errors import CacheError


def small_shards(root, count=5):
    cache = open_cache(root)
    for i in range(count):
        cache.add([f"text {i}", f"other {i}"], vectors(i, 10 + i))
    return [f"text {i}" for i in range(count)], vectors(*range(count))


def test_small_shards_become_one_and_every_row_stays(tmp_path):
    texts, rows = small_shards(tmp_path)
    report = prune_cache(tmp_path)
    assert (len(report.merged), len(report.written), report.duplicates) == (5, 1, 0)
    assert shard_files(tmp_path) == report.written
    np.testing.assert_array_equal(open_cache(tmp_path).rows(texts), rows)


def test_a_reader_that_was_open_before_goes_on(tmp_path):
    texts, rows = small_shards(tmp_path)
    reader = open_cache(tmp_path)
    prune_cache(tmp_path)
    np.testing.assert_array_equal(reader.rows(texts), rows)
    np.testing.assert_array_equal(reader.find(["unknown"]), [-1])
    np.testing.assert_array_equal(reader.rows(texts), rows)


def test_the_copy_that_was_served_is_the_one_that_stays(tmp_path):
    for i in range(4):
        open_cache(tmp_path).add(["a", f"only {i}"], vectors(i, 10 + i))
    served = open_cache(tmp_path).rows(["a"])
    assert prune_cache(tmp_path).duplicates == 3
    cache = open_cache(tmp_path)
    assert len(cache) == 5
    np.testing.assert_array_equal(cache.rows(["a"]), served)
    np.testing.assert_array_equal(
        cache.rows([f"only {i}" for i in range(4)]), vectors(10, 11, 12, 13)
    )


def test_a_shard_that_is_a_subset_of_another_goes(tmp_path):
    cache = open_cache(tmp_path)
    cache.add(["a"], vectors(1))
    cache.add(["a"], vectors(2))
    prune_cache(tmp_path)
    assert len(shard_files(tmp_path)) == 1
    assert len(open_cache(tmp_path)) == 1


def test_pruning_twice_changes_nothing_the_second_time(tmp_path):
    small_shards(tmp_path)
    prune_cache(tmp_path)
    before = shard_files(tmp_path)
    report = prune_cache(tmp_path)
    assert (report.merged, report.written, report.freed_bytes) == ([], [], 0)
    assert shard_files(tmp_path) == before


def test_large_shards_are_left_alone_and_merged_ones_are_bounded(tmp_path):
    small_shards(tmp_path, count=6)
    size = shard_files(tmp_path)[0].stat().st_size
    assert prune_cache(tmp_path, merged_bytes=2 * size).merged == []
    report = prune_cache(tmp_path, merged_bytes=3 * size)
    assert (len(report.merged), len(report.written)) == (6, 2)


def test_damaged_shards_go_whether_set_aside_or_not(tmp_path):
    small_shards(tmp_path)
    first, second, *_ = shard_files(tmp_path)
    first.write_bytes(b"")
    set_aside = open_cache(tmp_path).folder / "damaged" / f"float32-{first.name}"
    flip_byte(second, -1)
    report = prune_cache(tmp_path)
    assert report.set_aside == [set_aside]
    assert [damage.path for damage in report.damages] == [second]
    assert not second.exists()
    assert not set_aside.exists()
    assert len(open_cache(tmp_path)) == 6


def test_a_dry_run_reports_the_same_and_changes_nothing(tmp_path):
    small_shards(tmp_path)
    flip_byte(shard_files(tmp_path)[0], -1)
    (shard_files(tmp_path)[0].parent / ".tmp-1-a").write_bytes(b"x")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    dry = prune_cache(tmp_path, dry_run=True)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    real = prune_cache(tmp_path)
    assert (dry.leftovers, dry.damages, dry.merged) == (real.leftovers, real.damages, real.merged)


def test_a_disk_that_is_full_while_merging_loses_nothing(tmp_path, monkeypatch):
    texts, rows = small_shards(tmp_path)
    before = shard_files(tmp_path)

    def full(*args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.write", full)
        with pytest.raises(CacheError, match="must have room"):
            prune_cache(tmp_path)
    assert shard_files(tmp_path) == before
    np.testing.assert_array_equal(open_cache(tmp_path).rows(texts), rows)


def test_a_folder_without_readable_fingerprint_is_named_and_left_alone(tmp_path):
    small_shards(tmp_path)
    (open_cache(tmp_path).folder / "fingerprint.json").write_text("{")
    before = shard_files(tmp_path)
    assert "must be the JSON that was written" in str(prune_cache(tmp_path).unusable[0])
    assert shard_files(tmp_path) == before


def test_dtypes_are_merged_apart(tmp_path):
    for dtype in ("float16", "float32"):
        for i in range(2):
            open_cache(tmp_path, dtype).add([f"text {i}"], vectors(i))
    prune_cache(tmp_path)
    spaces = cache_info(tmp_path).spaces
    assert [(s.dtype, s.rows, s.shards) for s in spaces] == [("float16", 2, 1), ("float32", 2, 1)]
