import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.decide.calibration.conformal import (
    allowed_loss,
    least_floor,
    least_margin,
    least_queries,
)
from toolheads.errors import ConfigError

alphas = st.sampled_from([0.01, 0.05, 0.1, 0.25, 0.5])
quarters = st.integers(0, 8).map(lambda n: n / 4)


def test_the_bound_is_that_of_the_paper():
    """n / (n + 1) * mean + 1 / (n + 1) <= alpha, for a sum of losses s: s <= alpha (n + 1) - 1."""
    assert allowed_loss(19, 0.05) == pytest.approx(0)
    assert allowed_loss(99, 0.05) == pytest.approx(4)


@pytest.mark.parametrize(("alpha", "queries"), [(0.05, 19), (0.01, 99), (0.1, 9), (0.3, 3)])
def test_fewer_queries_than_this_prove_nothing(alpha, queries):
    assert least_queries(alpha) == queries
    assert allowed_loss(queries, alpha) > -1e-9
    assert allowed_loss(queries - 1, alpha) < 0


@pytest.mark.parametrize("alpha", [0, 1, -0.1, float("nan")])
def test_an_alpha_outside_its_range_is_refused(alpha):
    with pytest.raises(ConfigError, match=r"alpha must be in \(0, 1\)"):
        allowed_loss(10, alpha)


def test_the_margin_lets_go_of_as_many_tools_as_the_bound_allows():
    """19 queries, alpha 0.1: the losses may add up to 1, so the farthest tool may be missed."""
    gaps = np.array([0.0] * 17 + [0.25, 0.5])
    assert least_margin(gaps, np.ones(19), 19, 0.1) == 0.25
    assert least_margin(gaps, np.ones(19), 19, 0.05) == 0.5


def test_a_query_with_several_tools_loses_a_share():
    """Two halves of one query are one loss."""
    gaps = np.array([0.0] * 18 + [0.5, 0.75])
    weights = np.array([1.0] * 18 + [0.5, 0.5])
    assert least_margin(gaps, weights, 19, 0.1) == 0.0
    assert least_margin(gaps, weights, 19, 0.07) == 0.75  # 0.4 may be lost: neither half


def test_tools_that_no_list_reaches_may_leave_no_margin():
    gaps = np.array([0.0] * 17 + [np.inf, np.inf])
    assert least_margin(gaps, np.ones(19), 19, 0.1) is None
    assert least_margin(gaps[:-1], np.ones(18), 19, 0.1) == 0.0
    assert least_margin(np.empty(0), np.empty(0), 5, 0.05) is None


@given(st.lists(quarters, min_size=1, max_size=40), alphas)
def test_the_margin_is_the_least_that_keeps_the_bound(values, alpha):
    n, gaps = len(values), np.array(values)

    def keeps(margin):
        return (gaps > margin).sum() <= alpha * (n + 1) - 1 + 1e-9

    margin = least_margin(gaps, np.ones(n), n, alpha)
    if margin is None:
        assert not keeps(gaps.max())
        return
    assert keeps(margin)
    assert margin == 0 or not keeps(np.nextafter(margin, 0))


@given(st.lists(quarters, max_size=40), st.integers(0, 40), alphas)
def test_the_floor_is_the_least_that_keeps_the_bound(values, harmless, alpha):
    scores = np.array(values, np.float32)
    n = len(values) + harmless

    def keeps(floor):
        return (scores >= np.float32(floor)).sum() <= alpha * (n + 1) - 1 + 1e-9

    floor = least_floor(scores, n, alpha)
    if floor is None:
        assert n < least_queries(alpha)
        return
    assert keeps(floor)
    assert floor == 0 or not keeps(np.nextafter(np.float32(floor), np.float32(0)))


@pytest.mark.parametrize("alpha", [0.05, 0.1])
def test_over_many_sets_the_next_query_is_missed_at_most_as_often_as_promised(alpha):
    """Exchangeable gaps; the promise is of the mean over sets and next queries."""
    rng = np.random.default_rng(0)
    n, missed = 60, []
    for _ in range(4000):
        gaps = rng.exponential(size=n + 1)
        margin = least_margin(gaps[:n], np.ones(n), n, alpha)
        missed.append(gaps[n] > margin)
    # The standard error is below 0.005; without "+ 1" alpha 0.05 would come out at 0.066.
    assert alpha - 1 / (n + 1) - 0.015 < np.mean(missed) < alpha + 0.01
