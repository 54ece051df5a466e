from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.errors import ConfigError, ShapeError
from toolheads.scorers import spread as module
from toolheads.scorers.spread import Spread

NONE = np.empty((0, 6), np.float32)


def rows(n, d, seed):
    return np.random.default_rng(seed).normal(0.3, 1, size=(n, d)).astype(np.float32)


@given(st.integers(0, 99), st.integers(2, 60), st.integers(1, 40))
def test_it_is_the_deviation_of_the_products_whether_tools_or_entries_are_more(seed, n, d):
    tools, (query,) = rows(n, d, seed), rows(1, d, seed + 1)
    expected = (tools.astype(np.float64) @ query.astype(np.float64)).std()
    # Each entry of a row is off by half a step of 2^-15 of the longest row at most, each of the
    # query by 2^-16 of the sum of its entries.
    longest, peak = float(np.linalg.norm(tools, axis=1).max()), float(np.abs(query).sum())
    assert Spread(tools).of(query) == pytest.approx(expected, abs=2**-14 * longest * peak)


@given(st.integers(0, 99), st.sampled_from([4, 6, 20, 50]), st.randoms())
def test_the_order_of_the_tools_does_not_matter_to_the_bit(seed, n, random):
    tools, (query,) = rows(n, 6, seed), rows(1, 6, seed + 1)
    order = list(range(n))
    random.shuffle(order)
    assert Spread(tools).of(query) == Spread(tools[order]).of(query)


@given(st.integers(0, 99), st.integers(7, 40), st.integers(0, 30), st.integers(0, 30))
def test_a_changed_one_is_that_of_the_rows_made_anew_to_the_bit(seed, n, added, removed):
    tools, more, (query,) = rows(n, 6, seed), rows(added, 6, seed + 1), rows(1, 6, seed + 2)
    removed = min(removed, n + added - 6, n)
    history = Spread(tools, 40.0).changed(more, NONE).changed(NONE, tools[:removed])
    fresh = Spread(np.concatenate([more, tools[removed:]]), 40.0)
    assert history.of(query) == fresh.of(query)


def test_it_is_the_same_over_many_blocks(monkeypatch):
    tools, (query,) = rows(500, 8, 0), rows(1, 8, 1)
    whole = Spread(tools).of(query)
    monkeypatch.setattr(module, "_BLOCK", 7)
    assert Spread(tools).of(query) == whole


def test_one_tool_alone_and_equal_tools_have_none():
    assert Spread(rows(1, 4, 0)).of(rows(1, 4, 1)[0]) == 0
    for n in (3, 9):
        same = np.repeat(rows(1, 4, 0), n, axis=0)
        assert Spread(same).of(rows(1, 4, 1)[0]) == 0


def test_no_tools_have_none():
    assert Spread(NONE).of(rows(1, 6, 1)[0]) == 0


def test_a_saved_one_is_read_back_to_the_bit():
    tools, (query,) = rows(50, 6, 0), rows(1, 6, 1)
    spread = Spread(tools)
    assert Spread.from_arrays(spread.to_arrays()).of(query) == spread.of(query)


def test_arrays_of_something_else_are_refused():
    arrays = Spread(rows(50, 6, 0)).to_arrays()
    with pytest.raises(ShapeError, match="sums"):
        Spread.from_arrays({**arrays, "sums": arrays["sums"][:3]})
    with pytest.raises(ShapeError, match="about"):
        Spread.from_arrays({})


def test_fewer_rows_than_entries_are_not_changed_but_made_anew():
    few = Spread(rows(5, 6, 0))
    assert not few.is_summed
    with pytest.raises(ShapeError, match="at least 6"):
        few.changed(rows(9, 6, 1), NONE)
    with pytest.raises(ShapeError, match="got 5 after"):
        Spread(rows(6, 6, 0)).changed(NONE, rows(6, 6, 0)[:1])


def test_more_rows_than_are_exact_are_refused(monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 9)
    with pytest.raises(ConfigError, match="at most 9 tools, got 10"):
        Spread(rows(10, 6, 0))
