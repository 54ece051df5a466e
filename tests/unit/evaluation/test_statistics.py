from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.errors import ConfigError, ShapeError
from toolheads.evaluation import statistics
from toolheads.evaluation.statistics import bootstrap_means, holm, interval, permutation_p

DIFFERENCES = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=9)


def enumerated_p(strata):
    """The definition, sign vector by sign vector."""

    def statistic(signs):
        remaining = iter(signs)
        means = [np.mean([next(remaining) * x for x in values]) for values in strata.values()]
        return abs(np.mean(means))

    n = sum(map(len, strata.values()))
    least = statistic([1] * n) - 1e-12
    tried = [statistic(signs) >= least for signs in itertools.product((-1, 1), repeat=n)]
    return np.mean(tried)


@given(DIFFERENCES)
def test_few_queries_give_the_exact_p(differences):
    assert permutation_p({"set": differences}) == pytest.approx(enumerated_p({"set": differences}))


@given(st.lists(DIFFERENCES.map(lambda d: d[:3]), min_size=1, max_size=3))
def test_the_macro_test_flips_queries_and_averages_data_sets(strata):
    named = {f"set {i}": values for i, values in enumerate(strata)}
    assert permutation_p(named) == pytest.approx(enumerated_p(named))


def test_three_equal_signs_of_three_worked_out_by_hand():
    # Of 8 sign vectors only +++ and --- are as far from 0.
    assert permutation_p({"set": [0.1, 0.2, 0.3]}) == pytest.approx(2 / 8)


def test_differences_of_zero_leave_p_as_it_is():
    assert permutation_p({"set": [0.1, 0.2, 0.3, *[0.0] * 50]}) == pytest.approx(2 / 8)


def test_nothing_that_differs_gives_one():
    assert permutation_p({"set": [0.0] * 20}) == 1.0


def test_random_signs_come_near_the_exact_p(monkeypatch):
    differences = {"set": [0.5, 0.4, -0.1, 0.3, 0.2, -0.25, 0.6, 0.1, 0.05, 0.35]}
    exact = permutation_p(differences)
    monkeypatch.setattr(statistics, "EXACT_QUERIES", 0)
    assert permutation_p(differences, resamples=20_000) == pytest.approx(exact, abs=0.005)


def test_random_signs_never_give_a_p_of_zero():
    assert permutation_p({"set": np.ones(40)}, resamples=99) == pytest.approx(1 / 100)


def test_one_seed_gives_one_p_and_another_seed_another():
    differences = {"set": np.random.default_rng(0).normal(0.02, 1, 60)}
    one, same, other = (permutation_p(differences, resamples=500, seed=s) for s in (1, 1, 2))
    assert one == same != other


def test_p_is_about_uniform_when_nothing_differs_in_truth():
    rng = np.random.default_rng(0)
    ps = [permutation_p({"set": rng.normal(size=30)}, resamples=200, seed=i) for i in range(200)]
    assert 0.02 <= np.mean(np.array(ps) <= 0.05) <= 0.09  # 200 trials: 0.05 +- 0.031


def test_blocks_do_not_change_the_means_of_the_bootstrap_much(monkeypatch):
    values = {"set": np.arange(10.0)}
    whole = bootstrap_means(values, resamples=4000, seed=0)["set"]
    monkeypatch.setattr(statistics, "_BLOCK", 7)
    in_blocks = bootstrap_means(values, resamples=4000, seed=0)["set"]
    assert whole.shape == in_blocks.shape == (4000, 1)
    assert in_blocks.std() == pytest.approx(whole.std(), rel=0.1)


def test_the_bootstrap_spreads_as_theory_says():
    values = np.random.default_rng(0).normal(size=200)
    means = bootstrap_means({"set": values}, resamples=4000, seed=0)["set"][:, 0]
    assert means.mean() == pytest.approx(values.mean(), abs=0.005)
    assert means.std() == pytest.approx(values.std() / np.sqrt(200), rel=0.05)


def test_all_metrics_of_a_query_are_drawn_together():
    values = np.random.default_rng(0).normal(size=(30, 1))
    means = bootstrap_means({"set": np.hstack([values, 2 * values])}, resamples=50, seed=0)["set"]
    np.testing.assert_allclose(means[:, 1], 2 * means[:, 0])


def test_draws_of_a_data_set_do_not_depend_on_its_company():
    values, other = np.arange(7.0), np.arange(9.0)
    alone = bootstrap_means({"set": values}, resamples=20, seed=3)
    together = bootstrap_means({"other": other, "set": values}, resamples=20, seed=3)
    np.testing.assert_array_equal(alone["set"], together["set"])


def test_data_sets_of_equal_size_are_drawn_independently():
    values = np.random.default_rng(0).normal(size=50)
    means = bootstrap_means({"a": values, "b": values}, resamples=1000, seed=0)
    assert abs(np.corrcoef(means["a"][:, 0], means["b"][:, 0])[0, 1]) < 0.1


def test_an_interval_cuts_the_same_share_off_both_ends():
    low, high = interval(np.arange(101.0), confidence=0.9)
    assert (low, high) == pytest.approx((5.0, 95.0))


def test_holm_worked_out_by_hand():
    # sorted 0.005, 0.011, 0.02, 0.04 times 4, 3, 2, 1 is 0.02, 0.033, 0.04, 0.04
    assert holm([0.011, 0.02, 0.04, 0.005]) == pytest.approx([0.033, 0.04, 0.04, 0.02])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closed_test_of_every_subset_of_the_hypotheses(ps):
    """A hypothesis falls if each subset that holds it does, tested by Bonferroni (Marcus, Peritz
    and Gabriel 1976): its corrected p is the largest of theirs."""
    sets = [s for n in range(1, len(ps) + 1) for s in itertools.combinations(range(len(ps)), n)]
    expected = [
        max(min(1.0, len(s) * min(ps[i] for i in s)) for s in sets if mine in s)
        for mine in range(len(ps))
    ]
    assert holm(ps) == pytest.approx(expected)


@given(DIFFERENCES.map(lambda d: d[:5]))
def test_the_bootstrap_interval_is_that_of_all_resamples_there_are(differences):
    n = len(differences)
    every = np.array([np.mean(s) for s in itertools.product(differences, repeat=n)])
    drawn = bootstrap_means({"set": differences}, resamples=4000, seed=0)["set"][:, 0]
    ends = interval(drawn, confidence=0.9)
    # The share of all resamples below and above either end; 4,000 draws: 0.05 +- 0.015.
    assert np.mean(every < ends[0] - 1e-9) <= 0.065
    assert np.mean(every > ends[1] + 1e-9) <= 0.065
    assert np.mean(every <= ends[0] + 1e-9) >= 0.035
    assert np.mean(every >= ends[1] - 1e-9) >= 0.035


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_keeps_the_order_and_never_lowers_a_p(ps):
    corrected = holm(ps)
    assert all(p <= c <= 1 for p, c in zip(ps, corrected, strict=True))
    assert all(
        one <= two
        for (p, one), (q, two) in itertools.product(zip(ps, corrected, strict=True), repeat=2)
        if p < q
    )


@pytest.mark.parametrize("bad", [[float("nan"), 1.0], [float("inf")], [], [[[1.0]]]])
def test_values_that_are_not_finite_or_not_there_are_refused(bad):
    with pytest.raises(ShapeError, match="values of set must be finite, at least one query"):
        bootstrap_means({"set": bad}, resamples=10, seed=0)
    with pytest.raises(ShapeError, match="values of set must be finite"):
        permutation_p({"set": bad})


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ConfigError, match="resamples must be >= 1, got 0"):
        bootstrap_means({"set": [1.0]}, resamples=0, seed=0)
    with pytest.raises(ConfigError, match=r"confidence must be in \(0, 1\), got 1"):
        interval(np.ones(3), confidence=1)
    with pytest.raises(ConfigError, match="seed must be >= 0, got -1"):
        bootstrap_means({"set": [1.0]}, resamples=1, seed=-1)
    with pytest.raises(ShapeError, match=r"p_values must be in \[0, 1\]"):
        holm([float("nan")])
    with pytest.raises(ShapeError, match="at least one data set"):
        permutation_p({})
    with pytest.raises(ShapeError, match=r"differences of set must have shape \(n,\)"):
        permutation_p({"set": np.ones((3, 2))})
