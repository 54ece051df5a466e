"""float16 as float32: every one of the 65,536 values."""

import numpy as np

from toolheads.arrays import from_half


def test_every_float16_becomes_what_numpy_makes_of_it():
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    assert from_half(finite).tobytes() == finite.astype(np.float32).tobytes()


def test_what_is_not_finite_stays_so():
    for odd in (np.nan, np.inf, -np.inf):
        found = from_half(np.array([[1.0, odd], [0.5, 65504.0]], np.float16))
        np.testing.assert_array_equal(found, np.array([[1, odd], [0.5, 65504]], np.float32))


def test_only_the_piece_with_a_number_that_is_not_finite_takes_the_slow_way(monkeypatch):
    values = np.ones((3, 1 << 17), np.float16)
    values[1, 5] = np.nan
    slow = []
    copy = np.copyto

    def watched(to, values):
        if values.dtype == np.float16:
            slow.append(values)
        copy(to, values)

    monkeypatch.setattr(np, "copyto", watched)
    out = np.empty(values.shape, np.float32)
    assert from_half(values, out=out) is out
    np.testing.assert_array_equal(out, values.astype(np.float32))
    assert [part.shape for part in slow] == [(1, 1 << 17)]
