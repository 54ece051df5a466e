"""Which tools are hard negatives: ranks, margin, count and relabelling, on numbers one sees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from toolheads.errors import ConfigError  # noqa: E402
from toolheads_train.labelling.mine import MiningSettings, mined_rows  # noqa: E402

pytestmark = pytest.mark.train

TRAINED = np.array([0.5, 0.9, 0.44, 0.6, 0.3, 0.46], np.float32)
BASE = np.array([0.5, 0.8, 0.2, 0.4, 0.3, 0.9], np.float32)
RIGHT = np.array([True, False, False, False, False, False])
"""Tool 0 is right. By the heads 1, 3 stand above it, then 5, 2, 4; by the encoder 5, 1."""


def mined(right=RIGHT, **settings):
    negatives, positives = mined_rows(TRAINED, BASE, right, MiningSettings(**settings))
    return negatives.tolist(), positives.tolist()


def test_negatives_are_below_the_right_tool_by_the_margin_highest_first():
    assert mined(margin=0.05) == ([2, 4], [])
    assert mined(margin=0.0) == ([5, 2, 4], [])


def test_the_window_of_ranks_is_counted_among_the_other_tools():
    assert mined(margin=0.0, from_rank=4, to_rank=4) == ([2], [])
    assert mined(margin=0.0, from_rank=1, to_rank=2) == ([], [])


def test_no_more_than_the_count_are_taken():
    assert mined(margin=0.0, count=1) == ([5], [])


def test_a_tool_above_the_right_one_by_both_may_count_as_right():
    """Tool 3 is above by the heads alone and stays out of both."""
    assert mined(margin=0.0, relabel="positive") == ([5, 2, 4], [1])


def test_the_best_of_several_right_tools_is_the_measure():
    right = RIGHT | (np.arange(6) == 1)
    assert mined(right, margin=0.35) == ([5, 2, 4], [])


@given(
    st.integers(2, 12),
    st.integers(0, 10_000),
    st.floats(0, 0.5),
    st.sampled_from(["drop", "positive"]),
)
def test_a_right_tool_is_never_mined_and_nothing_is_both(n, seed, margin, relabel):
    rng = np.random.default_rng(seed)
    trained, base = rng.random((2, n)).astype(np.float32)
    right = rng.random(n) < 0.4
    right[rng.integers(n)] = True
    settings = MiningSettings(margin=margin, relabel=relabel)
    negatives, positives = mined_rows(trained, base, right, settings)
    assert not set(negatives) & set(positives)
    assert not right[negatives].any()
    assert not right[positives].any()
    assert (trained[negatives] <= trained[right].max()).all()
    assert (np.diff(trained[negatives]) <= 0).all()


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"from_rank": 0}, "mining.from_rank must be >= 1, got 0"),
        ({"from_rank": 5, "to_rank": 4}, "mining.to_rank must be >= from_rank, got 4"),
        ({"margin": -0.1}, r"mining.margin must be in \[0, 2\), got -0.1"),
        ({"count": 0}, "mining.count must be >= 1, got 0"),
    ],
)
def test_settings_that_break_their_rule_are_refused(settings, match):
    with pytest.raises(ConfigError, match=match):
        MiningSettings(**settings)
