import numpy as np
import pytest

from toolheads.decide import PickerSettings
from toolheads.decide.calibration.episodes import Episodes, Leads
from toolheads.decide.calibration.lists import fit_fixed_k, fit_list_cutoff, list_figures
from toolheads.decide.calibration.thresholds import (
    LEAST_DUPLICATE,
    absence_auroc,
    fit_duplicate_threshold,
    fit_thresholds,
    trade_of,
)
from toolheads.errors import CalibrationError


def leads(scores, gaps=None, twins=None, strangers=None, right=None):
    n = len(scores)

    def column(values, default):
        return np.full(n, default, np.float32) if values is None else np.array(values, np.float32)

    is_right = np.ones(n, np.bool_) if right is None else np.array(right, np.bool_)
    return Leads(
        np.array(scores, np.float32),
        column(gaps, 1.0),
        column(twins, -2.0),
        column(strangers, -2.0),
        is_right,
    )


def episodes(present, absent, gaps=(), ranks=None, hits=()):
    gaps = tuple(np.array(g, np.float64) for g in gaps)
    hits = tuple(np.array(h, np.float32) for h in hits)
    if ranks is None:
        ranks = tuple(
            np.array([1 + np.searchsorted(h, x) if np.isfinite(x) else np.inf for x in g])
            for g, h in zip(gaps, hits, strict=True)
        )
    return Episodes(present, absent, gaps, ranks, hits, 1.0)


def drawn(n, rng, *, gap_of_right=0.2):
    """Queries whose right tool scores higher than the next one, by and large."""
    present = rng.normal(0.7, 0.1, n)
    absent = rng.normal(0.5, 0.1, n)
    right = rng.random(n) < 0.8
    gaps = np.where(right, rng.exponential(gap_of_right, n), rng.exponential(0.02, n))
    return episodes(
        leads(present, gaps, right=right),
        leads(absent, rng.exponential(0.05, n), right=np.zeros(n)),
        [[0.0]] * n,
        hits=[[0.0]] * n,
    )


def test_thresholds_are_measured_by_counting():
    seen = episodes(
        leads([0.9, 0.8, 0.7, 0.2], gaps=[0.5, 0.5, 0.01, 0.5], right=[1, 0, 1, 1]),
        leads([0.6, 0.4, 0.3, 0.2]),
    )
    trade = trade_of(seen, PickerSettings(similarity_floor=0.5, margin=0.1))
    assert (trade.false_binds, trade.coverage, trade.accuracy) == (0.25, 0.5, 0.5)
    assert (trade.present, trade.absent, trade.duplicates) == (4, 4, 0.0)


def test_duplicates_over_the_floor_are_counted_apart():
    seen = episodes(leads([0.9, 0.1], twins=[0.99, 0.99]), leads([0.1]))
    trade = trade_of(seen, PickerSettings(similarity_floor=0.5))
    assert (trade.duplicates, trade.coverage) == (0.5, 0.0)


@pytest.mark.parametrize("target", [0.05, 0.1])
def test_false_binds_on_new_queries_stay_at_the_target_on_average(target):
    """The promise is of the mean over calibrations."""
    rng = np.random.default_rng(0)
    shares = []
    for seed in range(60):
        settings = fit_thresholds(drawn(200, rng), target, seed=seed)
        assert settings is not None
        shares.append(trade_of(drawn(1000, rng), settings).false_binds)
    assert np.mean(shares) < target + 0.008  # four standard errors over 60 sets
    assert np.mean(shares) > target / 2


def test_a_margin_is_chosen_where_it_tells_right_from_wrong():
    settings = fit_thresholds(drawn(2000, np.random.default_rng(0)), 0.05)
    assert settings is not None
    assert settings.margin > 0.01


def test_too_few_queries_for_a_target_give_no_thresholds():
    rng = np.random.default_rng(0)
    assert fit_thresholds(drawn(150, rng), 0.01) is None
    assert fit_thresholds(drawn(200, rng), 0.01) is not None


def test_right_leaders_are_not_called_duplicates_of_other_tools():
    alike = [0.95] * 10 + [0.5] * 190
    threshold = fit_duplicate_threshold(leads([0.5] * 200, strangers=alike))
    assert 0.95 < threshold < 0.9501


def test_a_duplicate_threshold_is_never_fitted_below_the_least():
    assert fit_duplicate_threshold(leads([0.5] * 200)) == LEAST_DUPLICATE


def test_few_right_leaders_leave_equal_tools_as_the_only_duplicates():
    assert fit_duplicate_threshold(leads([0.5] * 20)) == 1.0


def test_auroc_is_the_chance_of_a_better_leader_with_ties_as_half():
    seen = episodes(leads([0.9, 0.5]), leads([0.5, 0.1]))
    assert absence_auroc(seen) == pytest.approx((1 + 1 + 0.5 + 1) / 4)


def with_lists(n, rng, *, tail=0.1):
    """Lists of 50 hits; a share of right tools lies anywhere, the rest near the top."""
    hits = np.sort(rng.random((n, 50)), axis=1)
    hits[:, 0] = 0.0
    at = np.where(rng.random(n) < tail, rng.integers(0, 50, n), rng.integers(0, 3, n))
    gaps = [[hits[i, at[i]]] for i in range(n)]
    return episodes(leads([0.5] * n), leads([0.5] * n), gaps, hits=list(hits))


@pytest.mark.parametrize("alpha", [0.05, 0.1])
def test_lists_miss_at_most_alpha_of_the_right_tools_of_new_queries_on_average(alpha):
    rng = np.random.default_rng(1)
    missed = []
    for seed in range(40):
        cut = fit_list_cutoff(with_lists(200, rng), alpha, seed=seed)
        assert cut is not None
        missed.append(list_figures(with_lists(1000, rng), cut.margin, cut.max_k).missed)
    assert np.mean(missed) < alpha + 0.01  # four standard errors over 40 sets
    assert np.mean(missed) > alpha / 3


def test_a_cut_off_cuts_as_its_settings_do():
    rng = np.random.default_rng(2)
    seen = with_lists(100, rng)
    cut = fit_list_cutoff(seen, 0.1)
    assert cut is not None
    lengths = [cut.settings.count(-hits) for hits in seen.hit_gaps]
    assert cut.figures.mean_length == pytest.approx(np.mean(lengths))


def test_lists_of_one_length_keep_the_same_bound():
    """19 queries, alpha 0.1: one may be missed."""
    hits = [[0.0, 0.1, 0.2, 0.3]] * 19
    gaps = [[0.0]] * 17 + [[0.1], [0.3]]
    seen = episodes(leads([0.5] * 19), leads([0.5] * 19), gaps, hits=hits)
    assert fit_fixed_k(seen, 0.1) == 2
    assert fit_fixed_k(seen, 0.05) == 4


def test_where_most_right_tools_are_no_hits_there_is_no_cut_off():
    n = 100
    seen = episodes(leads([0.5] * n), leads([0.5] * n), [[np.inf]] * n, hits=[[0.0]] * n)
    assert fit_list_cutoff(seen, 0.1) is None
    assert fit_fixed_k(seen, 0.1) is None


def test_lists_without_right_tools_are_not_measured():
    with pytest.raises(CalibrationError, match="must have relevant tools"):
        list_figures(episodes(leads([]), leads([0.5])), 0.1, 5)
