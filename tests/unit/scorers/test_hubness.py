from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.arrays import normalized
from toolheads.scorers import hubness as module
from toolheads.scorers.hubness import hubness


def unit(n, d=6, seed=0):
    return normalized(np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32))


def plain(texts, asked, m):
    """The definition, a tool at a time."""
    near = []
    for row in range(len(texts)):
        others = [float(texts[row] @ asked[i]) for i in range(len(texts)) if i != row]
        near.append(np.mean(sorted(others)[-m:]))
    return (np.array(near) - np.mean(near)) / np.std(near)


@given(st.integers(0, 50), st.integers(3, 30), st.integers(1, 40))
def test_it_is_the_mean_of_the_nearest_others_standardised(seed, n, m):
    texts, asked = unit(n, seed=seed), unit(n, seed=seed + 1)
    np.testing.assert_allclose(hubness(texts, asked, m), plain(texts, asked, m), atol=1e-3)


def test_a_tool_in_the_middle_of_all_is_a_hub():
    around = unit(8) + np.array([3, 0, 0, 0, 0, 0])
    texts = normalized(np.vstack([around, around.mean(axis=0)]).astype(np.float32))
    assert hubness(texts, texts, 5).argmax() == 8


def test_equal_tools_have_equal_hubness_to_the_bit_wherever_they_stand(monkeypatch):
    texts, asked = (np.tile(unit(101, 33, seed), (9, 1)) for seed in (1, 2))
    for entries in (1, 2000, 1 << 24):
        monkeypatch.setattr(module, "_BLOCK_ENTRIES", entries)
        found = hubness(texts, asked, 10).reshape(9, 101)
        assert (found == found[0]).all()
        assert found[0].std() == pytest.approx(1)


def test_few_tools_and_equal_tools_have_none():
    for n in (1, 2):
        assert hubness(unit(n), unit(n), 10).tolist() == [0] * n
    same = np.repeat(unit(1), 7, axis=0)
    assert hubness(same, same, 3).tolist() == [0] * 7
