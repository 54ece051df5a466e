import numpy as np
import pytest

from toolheads.cache import StoredMatrix
from toolheads.cache.precision import to_floats, to_stored
from toolheads.errors import ShapeError


def two_blocks() -> StoredMatrix:
    """Rows 0, 1 and 4, 5; rows 2 and 3 were lost."""
    first = np.array([[0, 1], [2, 3]], np.float16)
    second = np.array([[8, 9], [10, 11]], np.float16)
    return StoredMatrix([(0, first), (4, second)], width=2, dtype="float16")


def test_rows_of_many_blocks_come_in_the_order_asked_for():
    rows = two_blocks()[[5, 0, 5, 4]]
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, [[10, 11], [0, 1], [10, 11], [8, 9]])


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
def test_rows_that_follow_each_other_are_those_that_are_asked_for(dtype):
    rng = np.random.default_rng(0)
    blocks = [(at, to_stored(rng.random((7, 3), np.float32), dtype)) for at in (0, 7, 20)]
    matrix = StoredMatrix(blocks, width=3, dtype=dtype)
    for first, last in ((0, 7), (2, 5), (5, 9), (7, 14), (20, 27), (26, 27)):
        rows = matrix[np.arange(first, last)]
        one_by_one = [matrix[at] for at in range(first, last)]
        np.testing.assert_array_equal(rows, one_by_one)
        expected = [to_floats(b[n - at], dtype) for n in range(first, last) for at, b in blocks
                    if 0 <= n - at < 7]  # fmt: skip
        np.testing.assert_array_equal(rows, expected)
        rows += 1  # of the caller's own
        np.testing.assert_array_equal(matrix[np.arange(first, last)], expected)
    with pytest.raises(ShapeError, match="got 6 that are not, first 14"):
        matrix[np.arange(12, 22)]


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
@pytest.mark.parametrize("step", [1, -3])
def test_more_rows_than_one_piece_are_read_to_an_array_at_hand(dtype, step):
    stored = to_stored(np.random.default_rng(0).random((900, 500), np.float32), dtype)
    matrix = StoredMatrix([(0, stored[:700]), (700, stored[700:])], width=500, dtype=dtype)
    numbers = np.arange(690)[::step] if step > 0 else np.arange(900)[::step]
    out = np.empty((len(numbers), 500), np.float32)
    assert matrix.read(numbers, out=out) is out
    np.testing.assert_array_equal(out, to_floats(stored, dtype)[numbers])


def test_one_row_number_gives_one_row():
    np.testing.assert_array_equal(two_blocks()[4], [8, 9])


def test_stored_rows_keep_their_dtype():
    assert two_blocks().stored(np.array([1])).dtype == np.float16


@pytest.mark.parametrize("row", [-1, 2, 3, 6])
def test_a_row_that_was_lost_or_never_was_is_an_error(row):
    with pytest.raises(ShapeError, match=f"got 1 that are not, first {row}"):
        two_blocks()[[0, row]]


def test_no_blocks_are_a_matrix_of_no_rows():
    empty = StoredMatrix([], width=3, dtype="float32")
    assert empty.shape == (0, 3)
    assert empty[np.array([], np.int64)].shape == (0, 3)


def test_streaming_gives_the_blocks_with_their_first_row():
    assert [(start, len(rows)) for start, rows in two_blocks().blocks()] == [(0, 2), (4, 2)]
