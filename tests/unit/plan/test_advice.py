from __future__ import annotations

import pytest

from toolheads.errors import ConfigError
from toolheads.plan import STRATEGIES, PlanSettings, advise
from toolheads.plan.evidence import evidence_for, nearest


@pytest.mark.parametrize(
    ("n", "strategy"),
    [(0, "one_shot"), (31, "one_shot"), (32, "retrieve"), (63, "retrieve"), (64, "two_stage")],
)
def test_the_number_of_tools_decides_where_there_is_room(n, strategy):
    assert advise(n, 100, context_tokens=100_000, budget_tokens=100_000).strategy == strategy


@pytest.mark.parametrize(
    ("limits", "strategy"),
    [
        ({"context_tokens": 2000}, "one_shot"),
        ({"context_tokens": 1999}, "two_stage"),
        ({"budget_tokens": 1000}, "one_shot"),
        ({"budget_tokens": 999}, "two_stage"),
        ({"context_tokens": 0, "budget_tokens": 0}, "one_shot"),
        ({}, "one_shot"),
    ],
)
def test_what_is_over_half_the_context_or_over_the_budget_is_shown_in_two_stages(limits, strategy):
    assert advise(8, 1000, **limits).strategy == strategy


def test_sizes_that_are_not_known_decide_nothing():
    assert advise(8, None, context_tokens=10, budget_tokens=10).strategy == "one_shot"


def test_thresholds_are_parameters():
    settings = PlanSettings(retrieve_from=4, two_stage_from=6, context_share=0.25)
    strategies = [advise(n, 1, settings=settings).strategy for n in (3, 4, 6)]
    assert strategies == ["one_shot", "retrieve", "two_stage"]
    assert advise(1, 26, context_tokens=100, settings=settings).strategy == "two_stage"


def test_the_reason_says_which_threshold_it_was():
    assert advise(70).reason == "70 tools, and from 64 a menu comes first"
    assert advise(1).reason == "1 tool, few enough to show all"
    over = advise(8, 1001, context_tokens=2000).reason
    assert over == "all schemas take 1,001 tokens, more than 50% of the context of 2,000"


@pytest.mark.parametrize(("n", "count"), [(0, 4), (7, 4), (8, 16), (31, 16), (32, 64), (5000, 256)])
def test_the_nearest_count_is_so_by_its_logarithm_and_ties_go_up(n, count):
    assert nearest(n, (4, 16, 64, 256)) == count


def test_each_strategy_has_the_rows_of_its_own():
    rows = {s: [row.value for row in evidence_for(s, 200)] for s in STRATEGIES}
    assert rows == {
        "one_shot": [26.72],
        "retrieve": [12.70, 31.19, 26.72],
        "two_stage": [26.72, 40.77],
        "retrieve_then_menu": [12.70, 31.19, 26.72, 40.77],
    }


def test_a_row_says_how_far_its_setting_is():
    (row,) = evidence_for("one_shot", 5)
    assert row.note == "measured at 4 tools, this has 5"
    assert row.to_json()["interval"] == [1.23, 8.58]
    (same,) = evidence_for("one_shot", 4)
    assert same.note == ""


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("retrieve_from", 0),
        ("two_stage_from", 1.5),
        ("context_share", 0),
        ("context_share", 1.1),
        ("context_share", float("nan")),
        ("context_share", True),
        ("menu_tools", 0),
        ("menu_description_chars", 0),
    ],
)
def test_a_threshold_that_breaks_its_rule_is_refused(field, value):
    with pytest.raises(ConfigError, match=f"{field} must be"):
        PlanSettings(**{field: value})


@pytest.mark.parametrize("bad", [-1, 1.5, "8", True])
def test_sizes_that_are_no_counts_are_refused(bad):
    with pytest.raises(ConfigError, match="n_tools must be a whole number >= 0"):
        advise(bad)
    with pytest.raises(ConfigError, match="context_tokens must be a whole number >= 0"):
        advise(1, context_tokens=bad)
