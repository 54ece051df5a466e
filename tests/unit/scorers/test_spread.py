from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.scorers.spread import Spread


def rows(n, d, seed):
    return np.random.default_rng(seed).normal(0.3, 1, size=(n, d)).astype(np.float32)


@given(st.integers(0, 99), st.integers(2, 60), st.integers(1, 40))
def test_it_is_the_deviation_of_the_products_whether_tools_or_entries_are_more(seed, n, d):
    tools, (query,) = rows(n, d, seed), rows(1, d, seed + 1)
    expected = (tools.astype(np.float64) @ query.astype(np.float64)).std()
    assert Spread(tools).of(query) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_it_is_the_same_over_many_blocks(monkeypatch):
    tools, (query,) = rows(500, 8, 0), rows(1, 8, 1)
    whole = Spread(tools).of(query)
    monkeypatch.setattr("toolheads.scorers.spread._BLOCK", 7)
    assert Spread(tools).of(query) == pytest.approx(whole, rel=1e-12)


def test_one_tool_alone_and_equal_tools_have_none():
    assert Spread(rows(1, 4, 0)).of(rows(1, 4, 1)[0]) == 0
    for n in (3, 9):
        same = np.repeat(rows(1, 4, 0), n, axis=0)
        assert Spread(same).of(rows(1, 4, 1)[0]) == pytest.approx(0, abs=1e-12)
