from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from toolheads.cutoff import EDGE, CutoffSettings
from toolheads.errors import ConfigError, ShapeError

SCORES = st.lists(st.floats(-1, 1, width=32), max_size=30).map(lambda s: sorted(s, reverse=True))


@st.composite
def settings(draw):
    max_k = draw(st.integers(1, 12))
    return CutoffSettings(
        margin=draw(st.floats(0, 2)),
        max_k=max_k,
        min_k=draw(st.integers(0, max_k)),
        threshold=draw(st.none() | st.floats(-1, 1)),
    )


def test_hits_within_the_margin_of_the_best_are_kept():
    assert CutoffSettings(margin=0.2).count([0.9, 0.8, 0.71, 0.69, 0.1]) == 3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("best", [0.9, 0.7, 0.3, 0.21, 1.0])
def test_a_score_on_the_edge_is_kept(best, dtype):
    """0.9 - 0.2 is 0.7000000000000001 in double precision: a plain comparison drops 0.7."""
    edge = round(best - 0.2, 2)
    assert CutoffSettings(margin=0.2).count(np.array([best, edge], dtype)) == 2
    assert CutoffSettings(margin=0.2).count(np.array([best, edge - 2 * EDGE], dtype)) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_score_on_the_threshold_is_kept(dtype):
    assert CutoffSettings(threshold=0.7).count(np.array([0.7], dtype)) == 1
    assert CutoffSettings(threshold=0.7).count(np.array([0.7 - 2 * EDGE], dtype)) == 0


def test_a_margin_of_zero_keeps_the_best_and_its_equals():
    assert CutoffSettings(margin=0.0).count([0.9, 0.9, 0.8]) == 2


def test_no_more_than_max_k_are_kept():
    assert CutoffSettings(max_k=3).count([0.9] * 8) == 3


def test_at_least_min_k_are_kept_if_there_are_as_many():
    assert CutoffSettings(min_k=3).count([0.9, 0.1, 0.0, -0.5]) == 3
    assert CutoffSettings(min_k=3).count([0.9, 0.1]) == 2


def test_below_the_threshold_nothing_fits_whatever_min_k_says():
    assert CutoffSettings(min_k=2, threshold=0.5).count([0.4, 0.3, 0.2]) == 0
    assert CutoffSettings(min_k=2, threshold=0.5).count([0.6, 0.3, 0.2]) == 1


def test_of_an_empty_list_nothing_is_kept():
    assert CutoffSettings().count([]) == 0


@given(settings(), SCORES)
def test_the_count_is_what_the_words_say(cutoff, scores):
    kept = cutoff.count(scores)
    assert 0 <= kept <= min(cutoff.max_k, len(scores))
    if cutoff.threshold is None:
        assert kept >= min(cutoff.min_k, len(scores))
    if kept:
        far = [s for s in scores[:kept] if s < scores[0] - cutoff.margin - EDGE]
        assert not far or kept <= cutoff.min_k
        assert cutoff.threshold is None or scores[kept - 1] >= cutoff.threshold - EDGE


@given(settings(), SCORES, st.floats(0, 1))
def test_a_wider_margin_never_keeps_fewer(cutoff, scores, more):
    fields = cutoff.to_json()
    wider = CutoffSettings(**{**fields, "margin": cutoff.margin + more})
    assert wider.count(scores) >= cutoff.count(scores)


@given(settings(), SCORES)
def test_hits_beyond_max_k_change_nothing(cutoff, scores):
    assume(scores)
    assert cutoff.count(scores) == cutoff.count(scores[: cutoff.max_k])


@given(settings())
def test_json_reads_back_what_it_wrote(cutoff):
    assert CutoffSettings.from_json(cutoff.to_json()) == cutoff


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_scores_that_are_no_numbers_are_refused(bad):
    with pytest.raises(ShapeError, match="scores must be finite"):
        CutoffSettings().count([0.9, bad])


def test_scores_of_another_shape_are_refused():
    with pytest.raises(ShapeError, match=r"of shape \(n,\), got \(1, 2\)$"):
        CutoffSettings().count([[0.9, 0.8]])


def test_scores_that_rise_are_refused():
    with pytest.raises(ShapeError, match="scores must fall, got a rise after rank 2"):
        CutoffSettings().count([0.9, 0.8, 0.85])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"margin": -0.1}, "margin must be a finite number >= 0, got -0.1"),
        ({"margin": math.nan}, "margin must be a finite number >= 0, got nan"),
        ({"margin": math.inf}, "margin must be a finite number"),
        ({"margin": "0.2"}, "margin must be a finite number"),
        ({"margin": True}, "margin must be a finite number"),
        ({"max_k": 0}, "max_k must be a whole number >= 1, got 0"),
        ({"max_k": 2.0}, "max_k must be a whole number >= 1, got 2.0"),
        ({"max_k": True}, "max_k must be a whole number"),
        ({"min_k": -1}, r"min_k must be a whole number in \[0, 10\]"),
        ({"min_k": 11}, r"min_k must be a whole number in \[0, 10\] \(max_k\), got 11"),
        ({"min_k": None}, "min_k must be a whole number"),
        ({"threshold": math.nan}, "threshold must be None or a finite number, got nan"),
        ({"threshold": "0.5"}, "threshold must be None or a finite number"),
    ],
)
def test_settings_that_break_a_rule_are_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        CutoffSettings(**fields)


@pytest.mark.parametrize("data", [None, [], {}, {**CutoffSettings().to_json(), "more": 1}])
def test_json_without_exactly_the_fields_is_refused(data):
    with pytest.raises(ConfigError, match="cutoff must have the fields margin, max_k, min_k"):
        CutoffSettings.from_json(data)
