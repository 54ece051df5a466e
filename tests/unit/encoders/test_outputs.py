from __future__ import annotations

import numpy as np
import pytest

from toolheads.encoders.outputs import unit_rows
from toolheads.errors import EncoderError


def test_vectors_come_out_as_float32_rows_of_length_one():
    rows = unit_rows([[3, 4], [0, -2]], count=2, width=2, encoder="e")
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, np.array([[0.6, 0.8], [0.0, -1.0]]), atol=1e-7)  # float32


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1.0, 0.0]], "must give 2 vectors, got 1"),
        ([[1.0], [1.0]], r"gave an answer that cannot be used: vectors must have shape \(n, 2\)"),
        ([[1.0, np.nan], [1.0, 0.0]], "vectors must be finite, got NaN or inf in 1 rows"),
        ([[1.0, 0.0], [0.0, 0.0]], "must not give zero vectors, got 1 of 2"),
        ([["a", "b"], ["c", "d"]], "must hold real numbers"),
    ],
)
def test_an_answer_that_cannot_be_used_names_the_encoder_and_the_reason(vectors, message):
    with pytest.raises(EncoderError, match=f"^encoder 'm' .*{message}"):
        unit_rows(vectors, count=2, width=2, encoder="encoder 'm'")


def test_without_a_name_the_error_starts_with_the_reason():
    with pytest.raises(EncoderError, match=r"^must give 2 vectors, got 1$"):
        unit_rows([[1.0, 0.0]], count=2, width=2, encoder="")
