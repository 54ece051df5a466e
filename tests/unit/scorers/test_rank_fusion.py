from __future__ import annotations

import numpy as np
import pytest

from toolheads.errors import ConfigError
from toolheads.scorers.rank_fusion import RankFusion, best_first


def order(rows, scores):
    return np.array(rows, np.int64), np.array(scores, np.float64)


NONE = order([], [])


def test_a_tool_scores_the_sum_of_its_reciprocal_ranks():
    fused = RankFusion(60).fused(4, order([2, 0], [0.9, 0.8]), order([0, 1], [7.0, 3.0]))
    np.testing.assert_allclose(fused, [1 / 62 + 1 / 61, 1 / 62, 1 / 61, 0])


def test_equal_scores_have_equal_ranks():
    fused = RankFusion(10).fused(4, order([0, 1, 2, 3], [3.0, 2.0, 2.0, 1.0]), NONE)
    np.testing.assert_allclose(fused, [1 / 11, 1 / 12, 1 / 12, 1 / 14])


def test_words_can_weigh_more():
    fused = RankFusion(1, lexical_weight=3.0).fused(2, order([0], [1.0]), order([1], [1.0]))
    np.testing.assert_allclose(fused, [0.5, 1.5])


def test_of_tools_that_share_the_last_place_none_counts():
    """The third is beyond the depth and equal to the second, which must not be better off."""
    fused = RankFusion(10, depth=2).fused(3, order([0, 1, 2], [3.0, 2.0, 2.0]), NONE)
    np.testing.assert_allclose(fused, [1 / 11, 0, 0])


def test_ranks_beyond_the_depth_do_not_count():
    fused = RankFusion(10, depth=2).fused(3, order([0, 1, 2], [3.0, 2.0, 1.0]), NONE)
    np.testing.assert_allclose(fused, [1 / 11, 1 / 12, 0])


def test_the_best_come_first_and_ties_by_row():
    rows, scores = best_first(np.array([1.0, 3.0, 2.0, 3.0, 2.0]), np.array([4, 3, 2, 1]), 3)
    assert rows.tolist() == [1, 3, 2]
    assert scores.tolist() == [3, 3, 2]


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"constant": 0}, "constant must be a finite number > 0, got 0"),
        ({"lexical_weight": float("nan")}, "lexical_weight must be"),
        ({"depth": 0}, "depth must be a whole number >= 1, got 0"),
        ({"depth": True}, "depth must be"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, rule):
    with pytest.raises(ConfigError, match=rule):
        RankFusion(**settings)
