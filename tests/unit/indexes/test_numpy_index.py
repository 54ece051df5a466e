"""Exact to the last bit, in every precision, and like a dict of rows."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.unit.indexes.samples import FIRST, SPACE, WIDTH, found, open_folder, rows

from toolheads.errors import ConfigError, ShapeError
from toolheads.indexes import DTYPES, limit_blas_threads, open_index, scan
from toolheads.indexes.precision import to_stored, widened

KEYS = [f"k{i}" for i in range(12)]
ROWS = np.random.default_rng(0).normal(size=(12, WIDTH)).astype(np.float32)
ROWS[7] = ROWS[2]  # a tie
STEPS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 11), max_size=6),
        st.lists(st.integers(0, 11), max_size=6),
        st.booleans(),
    ),
    max_size=8,
)


@settings(max_examples=40)
@given(steps=STEPS, dtype=st.sampled_from(DTYPES))
def test_any_sequence_of_changes_equals_a_dict_of_rows(tmp_path_factory, steps, dtype):
    folder = tmp_path_factory.mktemp("index")
    index = open_folder(folder, dtype)
    model: dict[str, int] = {}
    for added, removed, reopen in steps:
        index.apply([KEYS[i] for i in added], ROWS[added], [KEYS[i] for i in removed])
        for i in set(removed) - set(added):
            model.pop(KEYS[i], None)
        model |= {KEYS[i]: i for i in added}
        if reopen:
            index.close()
            index = open_folder(folder, dtype)
        stored = to_stored(ROWS, dtype).floats(slice(None))
        exact = stored[list(model.values())].astype(np.float64) @ np.eye(WIDTH)[0]
        pairs = sorted(zip(-exact.astype(np.float32), model, strict=True))
        ((keys, scores),) = index.search(FIRST, 20)
        assert keys == [key for _, key in pairs]
        np.testing.assert_array_equal(scores, [-score for score, _ in pairs])
        assert index.keys() == set(model)
    index.close()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_worst_rounding_is_what_the_table_says(dtype):
    sample = np.random.default_rng(0).normal(size=(200, 64)).astype(np.float32)
    peak = np.abs(sample).max(axis=1, keepdims=True)
    error = np.abs(to_stored(sample, dtype).floats(slice(None)) - sample)
    worst = {"float32": 0, "float16": peak / 2048, "int8": peak / 254 * 1.001}[dtype]
    assert (error <= worst).all()
    assert dtype == "float32" or error.max() > 0


@pytest.mark.parametrize("dtype", DTYPES)
@given(
    sample=arrays.arrays(
        np.float32, (3, 5), elements=st.floats(-6e4, 6e4, width=32, allow_subnormal=True)
    )
)
def test_any_row_is_stored_finite_and_within_its_largest_entry(dtype, sample):
    stored = to_stored(sample, dtype).floats(slice(None))
    assert np.isfinite(stored).all()
    peak = np.abs(sample).max(axis=1, keepdims=True)
    assert (np.abs(stored) <= peak * np.float32(1.001) + np.float32(1e-7)).all()


def test_every_number_of_float16_is_widened_to_itself():
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    numbers = every[np.isfinite(every)].reshape(-1, 8)
    wide = widened(numbers)
    np.testing.assert_array_equal(wide, numbers.astype(np.float32))
    np.testing.assert_array_equal(np.signbit(wide), np.signbit(numbers))


def test_a_row_beyond_float16_is_refused_and_nothing_is_written(tmp_path):
    index = open_folder(tmp_path, "float16")
    with pytest.raises(ShapeError, match="within 65504 as float16, got 1 beyond it, first row 1"):
        index.apply(["a", "b"], rows(1, 1e6))
    assert len(index) == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_of_zeros_stays_one(dtype):
    index = open_index("numpy", space=SPACE, width=WIDTH, dtype=dtype)
    index.apply(["zero", "one"], np.array([[0] * 4, [1] * 4], np.float32))
    np.testing.assert_array_equal(index.gather(["zero"]), [[0] * 4])
    assert found(index) == ["one", "zero"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_size_of_blocks_does_not_change_what_is_found(monkeypatch, dtype):
    generator = np.random.default_rng(0)
    index = open_index("numpy", space=SPACE, width=WIDTH, dtype=dtype)
    index.apply([f"k{i}" for i in range(300)], generator.normal(size=(300, 4)).astype("f4"))
    queries = generator.normal(size=(20, 4)).astype("f4")
    before = index.search(queries, 30)
    monkeypatch.setattr(scan, "_BLOCK_ENTRIES", 28)
    monkeypatch.setattr(scan, "_PRODUCT_ENTRIES", 900)
    for one, two in zip(before, index.search(queries, 30), strict=True):
        assert one[0] == two[0]
        np.testing.assert_array_equal(one[1], two[1])


def test_rows_whose_products_differ_by_less_than_rounding_are_ordered_rightly():
    generator = np.random.default_rng(0)
    base = generator.normal(size=(1, 256))
    near = (base * (1 + 1e-7 * generator.normal(size=(500, 256)))).astype(np.float32)
    index = open_index("numpy", space=SPACE, width=256)
    keys = [f"k{i:03}" for i in range(500)]
    index.apply(keys, near)
    query = base.astype(np.float32)
    scores = (near.astype(np.float64) * query).sum(axis=1).astype(np.float32)
    best = sorted(zip(-scores, keys, strict=True))[:10]
    assert found(index, 10, query) == [key for _, key in best]


def test_rows_in_float16_never_become_one_large_array(monkeypatch):
    index = open_index("numpy", space=SPACE, width=WIDTH, dtype="float16")
    index.apply([f"k{i}" for i in range(1000)], rows(*range(1000)))
    monkeypatch.setattr(scan, "_BLOCK_ENTRIES", 40)
    largest = 0
    real = np.matmul

    def watched(queries, block, **kwargs):
        nonlocal largest
        largest = max(largest, block.size)
        return real(queries, block, **kwargs)

    monkeypatch.setattr(np, "matmul", watched)
    assert found(index, 2) == ["k999", "k998"]
    assert 0 < largest <= 40


@pytest.mark.parametrize("scale", [1e-30, 1e30, 3e38])
def test_products_at_the_ends_of_float32_are_ordered_rightly(scale):
    """Sums of these overflow or vanish in float32, not in the float64 that decides."""
    index = open_index("numpy", space=SPACE, width=WIDTH)
    small = np.array([[1, 1, 1, 0], [1, 1, -1, -1], [1, 1, -1, 0], [-1, -1, -1, 0]], np.float32)
    index.apply(["three", "zero", "one", "least"], small * np.float32(scale))
    keys, scores = index.search(np.full((1, 4), scale, np.float32), 4)[0]
    assert np.isfinite(scores).all()
    if scale < 1:  # all vanish in float32: a tie, by key
        assert keys == sorted(keys)
    else:
        assert keys == ["one", "three", "zero", "least"]


def test_a_query_of_zeros_orders_all_by_key():
    index = open_index("numpy", space=SPACE, width=WIDTH)
    index.apply(["b", "c", "a"], rows(1, 2, 3))
    keys, scores = index.search(np.zeros((1, 4), np.float32), 2)[0]
    assert keys == ["a", "b"]
    np.testing.assert_array_equal(scores, [0, 0])


def test_one_query_may_come_without_its_axis():
    index = open_index("numpy", space=SPACE, width=WIDTH)
    index.apply(["a"], rows(1))
    assert len(index.search(FIRST[0], 1)) == 1


@pytest.mark.parametrize("key", ["", "a\nb", "a\0", "\ud800", "x" * 257, 7, None])
def test_a_key_that_cannot_be_stored_is_refused(key):
    index = open_index("numpy", space=SPACE, width=WIDTH)
    with pytest.raises(ConfigError, match="keys must be printable texts of 1 to 256 bytes"):
        index.apply([key], rows(1))
    with pytest.raises(ConfigError, match="removed must be printable"):
        index.apply([], rows(), removed=[key])


def test_a_single_text_is_no_collection_of_keys():
    index = open_index("numpy", space=SPACE, width=WIDTH)
    with pytest.raises(ConfigError, match="removed must be a collection of keys"):
        index.apply([], rows(), removed="abc")


def test_a_key_that_is_added_and_removed_at_once_is_kept():
    index = open_index("numpy", space=SPACE, width=WIDTH)
    index.apply(["a"], rows(1))
    index.apply(["a", "b"], rows(1, 2), removed=["a", "b"])
    assert index.keys() == {"a", "b"}


LIMIT = """
import threading
import numpy, threadpoolctl
from toolheads.indexes import limit_blas_threads

def show():
    pools = threadpoolctl.threadpool_info()
    print({pool["num_threads"] for pool in pools if pool["user_api"] == "blas"})

threadpoolctl.threadpool_limits(2, user_api="blas")
show()
print(limit_blas_threads(1))
other = threading.Thread(target=show)
other.start()
other.join()
"""


def test_blas_threads_are_limited_in_every_thread():
    pytest.importorskip("threadpoolctl", reason="needs threadpoolctl")
    done = subprocess.run([sys.executable, "-c", LIMIT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["{2}", "True", "{1}"]


def test_without_threadpoolctl_the_caller_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    assert limit_blas_threads(1) is False


def test_no_threads_at_all_is_no_limit():
    with pytest.raises(ConfigError, match="threads must be a whole number >= 1, got 0"):
        limit_blas_threads(0)
