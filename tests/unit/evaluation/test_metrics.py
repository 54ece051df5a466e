from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.evaluation.builders import QRELS, RANKED

from toolheads.errors import ConfigError, DataError
from toolheads.evaluation.metrics import (
    DEFINITIONS,
    Metric,
    average_precision,
    completeness,
    default_metrics,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)
from toolheads.evaluation.ranked import per_query_metrics

CUTOFFS = st.integers(1, 15)


def test_ndcg_worked_out_by_hand():
    # gains 0, 2, 1 at ranks 1 to 3; the ideal order has 2, 1
    got = ndcg(["x", "a", "b"], {"a": 2, "b": 1}, 3)
    assert got == pytest.approx((2 / math.log2(3) + 1 / 2) / (2 + 1 / math.log2(3)))


def test_the_ideal_list_of_ndcg_is_cut_at_the_same_depth():
    # Three relevant tools and k = 2: two of them in front are as good as it gets.
    assert ndcg(["a", "b"], {"a": 1, "b": 1, "c": 1}, 2) == pytest.approx(1.0)


def test_recall_counts_all_relevant_tools_even_beyond_k():
    assert recall(["a", "b"], {"a": 1, "b": 1, "c": 1, "d": 1}, 2) == pytest.approx(0.5)


def test_precision_divides_by_k_when_the_list_is_shorter():
    assert precision(["a"], {"a": 1}, 5) == pytest.approx(0.2)


def test_average_precision_worked_out_by_hand():
    # found at ranks 2 and 4, of three: (1/2 + 2/4) / 3
    got = average_precision(["x", "a", "y", "b"], {"a": 1, "b": 2, "c": 1}, 10)
    assert got == pytest.approx(1 / 3)


def test_average_precision_ignores_what_lies_beyond_the_cutoff():
    assert average_precision(["x", "a"], {"a": 1}, 1) == 0.0


def test_reciprocal_rank_is_zero_below_the_cutoff():
    ranked = ["x", "y", "a"]
    assert [reciprocal_rank(ranked, {"a": 1}, k) for k in (2, 3)] == [0.0, pytest.approx(1 / 3)]


def test_completeness_needs_every_relevant_tool():
    qrels = {"a": 1, "b": 3, "c": 0}
    assert [completeness(["a", "x", "b"], qrels, k) for k in (2, 3)] == [0.0, 1.0]


def test_a_query_with_more_relevant_tools_than_k_is_never_complete():
    qrels = dict.fromkeys("abc", 1)
    assert completeness(["a", "b", "c"], qrels, 2) == 0.0


@pytest.mark.parametrize("qrels", [{}, {"a": 0}, {"a": -1}])
@pytest.mark.parametrize("kind", DEFINITIONS)
def test_a_query_without_relevant_tools_scores_zero(kind, qrels):
    assert Metric(kind, 5)(["a", "b"], qrels) == 0.0


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_an_empty_list_scores_zero(kind):
    assert Metric(kind, 5)([], {"a": 1}) == 0.0


@pytest.mark.parametrize("kind", DEFINITIONS)
@given(ranked=RANKED, qrels=QRELS, cutoff=CUTOFFS)
def test_every_metric_lies_between_zero_and_one(kind, ranked, qrels, cutoff):
    assert 0.0 <= Metric(kind, cutoff)(ranked, qrels) <= 1.0 + 1e-12


@given(qrels=QRELS, cutoff=CUTOFFS)
def test_the_ideal_order_has_an_ndcg_of_one(qrels, cutoff):
    ranked = sorted(qrels, key=lambda tool_id: -qrels[tool_id])
    want = 1.0 if any(grade > 0 for grade in qrels.values()) else 0.0
    assert ndcg(ranked, qrels, cutoff) == pytest.approx(want)


@pytest.mark.parametrize("kind", DEFINITIONS)
@given(ranked=RANKED, qrels=QRELS, cutoff=CUTOFFS)
def test_unjudged_tools_at_the_end_change_nothing(kind, ranked, qrels, cutoff):
    metric = Metric(kind, cutoff)
    assert metric([*ranked, "unjudged 1", "unjudged 2"], qrels) == metric(ranked, qrels)


@pytest.mark.parametrize(
    "name", ["ndcg", "ndcg@", "ndcg@0", "ndcg@-1", "ndcg@1.5", "ndcg@²", "NDCG@10", "f1@3", ""]
)
def test_an_unknown_metric_is_refused_with_the_ones_there_are(name):
    with pytest.raises(ConfigError, match=r"KIND one of ndcg, recall, .* got '"):
        Metric.parse(name)


def test_default_metrics_are_every_kind_at_every_cutoff_and_the_first_hit():
    names = default_metrics((5, 10))
    assert len(names) == 1 + 6 * 2
    assert {"precision@1", "ndcg@5", "completeness@10", "map@10", "mrr@5"} <= set(names)


def test_a_run_that_names_a_tool_twice_is_refused_by_name():
    with pytest.raises(DataError, match="query 'q1' must name each tool once, got 'b' twice"):
        per_query_metrics({"q1": ["a", "b", "b"]}, {"q1": {"a": 1}}, ["ndcg@10"])


def test_a_judged_query_without_a_list_counts_as_empty():
    got = per_query_metrics({"q1": ["a"]}, {"q0": {"a": 1}, "q1": {"a": 1}}, ["recall@5"])
    assert got["recall@5"].tolist() == [0.0, 1.0]


def test_a_run_query_without_judgements_is_left_out():
    got = per_query_metrics({"q1": ["a"], "q2": ["a"]}, {"q1": {"a": 1}}, ["recall@5"])
    assert got["recall@5"].tolist() == [1.0]


@given(st.lists(st.tuples(RANKED, QRELS), max_size=6))
def test_the_order_of_judgements_and_queries_does_not_matter(cases):
    run = {f"q{i}": ranked for i, (ranked, _) in enumerate(cases)}
    qrels = {f"q{i}": judged for i, (_, judged) in enumerate(cases)}
    turned = {q: dict(reversed(judged.items())) for q, judged in reversed(qrels.items())}
    got = per_query_metrics(run, qrels, ["ndcg@5", "map@5"])
    again = per_query_metrics(run, turned, ["ndcg@5", "map@5"])
    for name, values in got.items():
        assert values.tolist() == pytest.approx(again[name][::-1].tolist())
