from __future__ import annotations

import numpy as np
import pytest
from tests.made_heads import PLAIN, made_head, made_heads

from toolheads.errors import HeadsFormatError
from toolheads.heads import Head, load_heads
from toolheads.heads.convert import LEAST_COSINE, convert_heads, least_cosine


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_converted_heads_project_as_before_and_the_cosine_is_told(tmp_path, dtype):
    heads = made_heads(state=made_head(PLAIN, alpha=0.1))
    done = convert_heads(heads, tmp_path / "h.npz", dtype=dtype)
    after = load_heads(done.path)
    assert after.sha256 == done.sha256
    assert min(done.state_cosine, done.action_cosine) >= LEAST_COSINE
    x = np.random.default_rng(0).normal(size=(20, 8))
    assert least_cosine(after.state(x), heads.state(x)) >= LEAST_COSINE - 1e-7  # other rows


def test_heads_that_would_project_otherwise_are_not_written(tmp_path):
    """Weights of 2^-26 vanish in float16; an alpha of 2^24 makes them count."""
    weights = {n: np.full_like(w, 2.0**-26) for n, w in made_head(PLAIN).weights.items()}
    heads = made_heads(state=Head(PLAIN, 2.0**24, weights | {"in.bias": np.ones(6)}))
    with pytest.raises(HeadsFormatError, match=r"must project as before, .* use dtype float32"):
        convert_heads(heads, tmp_path / "h.npz")
    assert not list(tmp_path.iterdir())


def test_the_least_cosine_is_that_of_the_worst_row():
    one = np.array([[1, 0], [0, 2]], np.float32)
    two = np.array([[3, 0], [1, 1]], np.float32)
    assert least_cosine(one, two) == pytest.approx(0.5**0.5)
