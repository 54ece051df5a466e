"""What the cache gives back, and that it keeps encoders apart."""

import logging
from dataclasses import replace

import numpy as np
import pytest
import safetensors
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.cache.samples import (
    FINGERPRINT,
    PROBE,
    flip_byte,
    open_cache,
    shard_files,
    vectors,
)

from toolheads.cache import DTYPES, VectorCache
from toolheads.cache.precision import to_floats, to_stored
from toolheads.errors import BackboneMismatchError, CacheError, ConfigError, ShapeError


def test_rows_come_back_in_the_order_of_the_texts_across_shards(tmp_path):
    cache = open_cache(tmp_path)
    cache.add(["a", "b"], vectors(1, 2))
    cache.add(["c"], vectors(3))
    np.testing.assert_array_equal(cache.rows(["c", "a", "c", "b"]), vectors(3, 1, 3, 2))


@pytest.mark.parametrize("dtype", DTYPES)
def test_another_process_reads_the_stored_precision(tmp_path, dtype):
    rows = vectors(1 / 3, 0.1)
    open_cache(tmp_path, dtype).add(["a", "b"], rows)
    expected = to_floats(to_stored(rows, dtype), dtype)
    np.testing.assert_array_equal(open_cache(tmp_path, dtype).rows(["a", "b"]), expected)
    np.testing.assert_array_equal(open_cache(tmp_path, dtype).rounded(rows), expected)


@settings(max_examples=25)
@given(sizes=st.lists(st.integers(1, 5), max_size=4), picks=st.lists(st.integers(0, 99)))
def test_shard_boundaries_do_not_change_what_is_read(tmp_path_factory, sizes, picks):
    cache = open_cache(tmp_path_factory.mktemp("cache"))
    n = sum(sizes)
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        numbers = range(end - size, end)
        cache.add([str(i) for i in numbers], vectors(*numbers))
    wanted = [p % n for p in picks] if n else []
    np.testing.assert_array_equal(cache.rows([str(i) for i in wanted]), vectors(*wanted))


def test_a_text_that_is_not_there_has_row_minus_one(tmp_path):
    cache = open_cache(tmp_path)
    np.testing.assert_array_equal(cache.find(["a"]), [-1])
    cache.add(["a"], vectors(1))
    np.testing.assert_array_equal(cache.find(["x", "a", ""]), [-1, 0, -1])


def test_whether_texts_are_there_is_told_without_reading_a_vector(tmp_path):
    cache, other = open_cache(tmp_path), open_cache(tmp_path)
    other.add(["a"], vectors(1))
    assert cache.has(["x", "a", ""]).tolist() == [False, True, False]
    (shard,) = shard_files(tmp_path)
    flip_byte(shard, shard.stat().st_size - 32 - 2)  # in the vector, before the key
    assert open_cache(tmp_path).has(["a"]).tolist() == [True]
    assert shard_files(tmp_path) == [shard]


def test_rows_of_a_missing_text_name_it(tmp_path):
    cache = open_cache(tmp_path)
    cache.add(["a"], vectors(1))
    with pytest.raises(CacheError, match="got 2 that are not, first 'x'"):
        cache.rows(["a", "x", "y"])


def test_no_texts_give_no_rows(tmp_path):
    cache = open_cache(tmp_path)
    cache.add([], np.empty((0, 4), np.float32))
    assert cache.rows([]).shape == (0, 4)
    assert shard_files(tmp_path) == []


def test_a_lone_surrogate_is_a_text_like_any_other(tmp_path):
    cache = open_cache(tmp_path)
    cache.add(["\ud800", "?"], vectors(1, 2))
    np.testing.assert_array_equal(cache.rows(["\ud800"]), vectors(1))


def test_adding_leaves_existing_shards_as_they_are(tmp_path):
    cache = open_cache(tmp_path)
    cache.add(["a"], vectors(1))
    before = {path: path.stat().st_mtime_ns for path in shard_files(tmp_path)}
    cache.add(["b"], vectors(2))
    assert before.items() <= {p: p.stat().st_mtime_ns for p in shard_files(tmp_path)}.items()


def test_shards_of_another_process_are_found_on_the_first_miss(tmp_path):
    one, two = open_cache(tmp_path), open_cache(tmp_path)
    two.add(["a"], vectors(1))
    np.testing.assert_array_equal(one.rows(["a"]), vectors(1))


def test_row_numbers_stay_when_shards_are_added(tmp_path):
    cache = open_cache(tmp_path)
    cache.add(["a", "b"], vectors(1, 2))
    before = cache.find(["a", "b"])
    for i in range(5):
        cache.add([f"more {i}"], vectors(i))
    np.testing.assert_array_equal(cache.find(["a", "b"]), before)
    np.testing.assert_array_equal(cache.matrix()[before], vectors(1, 2))


def test_of_two_copies_every_process_serves_the_same(tmp_path):
    one, two = open_cache(tmp_path), open_cache(tmp_path)
    one.add(["a"], vectors(1))
    two.add(["a"], vectors(2))
    one.refresh()
    served = open_cache(tmp_path).rows(["a"])
    np.testing.assert_array_equal(one.rows(["a"]), served)
    two.refresh()
    np.testing.assert_array_equal(two.rows(["a"]), served)


def test_of_a_text_that_is_added_twice_the_first_vector_is_kept(tmp_path):
    cache = open_cache(tmp_path)
    cache.add(["b", "a", "b"], vectors(1, 2, 3))
    assert len(cache) == 2
    np.testing.assert_array_equal(cache.rows(["b", "a"]), vectors(1, 2))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.full((1, 4), np.nan), "vectors must be finite"),
        (np.zeros((1, 4)), "not zero as float16, got 1 rows that are not, first row 0"),
        (np.full((1, 4), 1e6), "finite and not zero as float16"),  # beyond 65504
        (np.full((1, 4), 1e-9), "finite and not zero as float16"),  # below 6e-8
        (np.ones((1, 5)), r"shape \(n, 4\), got \(1, 5\)"),
        (np.ones((2, 4)), "must be 1, one for each text, got 2"),
    ],
)
def test_a_vector_that_must_not_be_served_is_never_stored(tmp_path, bad, message):
    cache = open_cache(tmp_path, "float16")
    with pytest.raises(ShapeError, match=message):
        cache.add(["a"], bad)
    assert shard_files(tmp_path) == []


def test_other_weights_behind_the_same_name_are_refused(tmp_path):
    open_cache(tmp_path)
    other = np.roll(PROBE, 1, axis=1)
    with pytest.raises(BackboneMismatchError, match="made with other weights"):
        VectorCache.open(tmp_path, FINGERPRINT, other)


def test_another_encoder_has_vectors_of_its_own(tmp_path):
    open_cache(tmp_path).add(["a"], vectors(1))
    encoder = replace(FINGERPRINT.encoder, model="other")
    other = VectorCache.open(tmp_path, replace(FINGERPRINT, encoder=encoder), PROBE)
    assert other.find(["a"]) == -1


def test_another_dtype_has_vectors_of_its_own(tmp_path):
    open_cache(tmp_path, "float16").add(["a"], vectors(1))
    assert open_cache(tmp_path, "float32").find(["a"]) == -1


def test_an_unknown_dtype_is_refused_before_anything_is_made(tmp_path):
    with pytest.raises(ConfigError, match="float16, bfloat16, float32, got 'f8'"):
        open_cache(tmp_path / "cache", "f8")
    assert not (tmp_path / "cache").exists()


def test_a_probe_of_another_width_is_refused(tmp_path):
    with pytest.raises(ShapeError, match=r"probe must have shape \(n, 4\)"):
        VectorCache.open(tmp_path, FINGERPRINT, np.ones((4, 5), np.float32))


@pytest.mark.parametrize("dtype", DTYPES)
def test_shards_are_what_the_safetensors_library_reads(tmp_path, dtype):
    cache = open_cache(tmp_path, dtype)
    cache.add(["a", "b"], vectors(1, 2))
    (path,) = cache.folder.glob(f"{dtype}/*")
    with safetensors.safe_open(path, "numpy") as file:
        assert sorted(file.keys()) == ["keys", "vectors"]
        assert file.get_slice("vectors").get_shape() == [2, 4]
        assert file.get_slice("keys").get_dtype() == "U8"


def test_a_cache_that_cannot_be_written_can_be_read(tmp_path, monkeypatch, caplog):
    open_cache(tmp_path).add(["a"], vectors(1))

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    monkeypatch.setattr("pathlib.Path.replace", refuse)
    with caplog.at_level(logging.WARNING):
        np.testing.assert_array_equal(open_cache(tmp_path).rows(["a"]), vectors(1))
    assert caplog.records == []
