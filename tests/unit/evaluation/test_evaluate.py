from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tests.unit.evaluation.builders import TOOL_IDS, TableScorer, dataset

from toolheads.cutoff import CutoffSettings
from toolheads.errors import ConfigError, ShapeError
from toolheads.evaluation.evaluate import evaluate
from toolheads.evaluation.settings import EvaluationSettings

RELEVANCE = {"q1": {"a": 1}, "q2": {"b": 2, "c": 1}, "q3": {"d": 1}}
HITS = {
    "q1": [("b", 0.9), ("a", 0.8)],
    "q2": [("b", 0.9), ("c", 0.5)],
}


def settings(**changes):
    return replace(EvaluationSettings(metrics=("ndcg@10", "recall@1", "mrr@10"), k=10), **changes)


def test_values_stand_in_the_order_of_the_file():
    report = evaluate(TableScorer(HITS), dataset(RELEVANCE), settings())
    assert report.query_ids == ("q1", "q2", "q3")
    assert report.values["ndcg@10"].tolist() == pytest.approx([1 / math.log2(3), 1.0, 0.0])
    assert report.values["recall@1"].tolist() == pytest.approx([0.0, 0.5, 0.0])


def test_the_report_says_which_data_it_read():
    report = evaluate(TableScorer(HITS), dataset(RELEVANCE, name="tools"), settings())
    assert (report.name, report.tools) == ("tools", len(TOOL_IDS))
    assert set(report.digest) == {"tools.jsonl", "queries.jsonl"}


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_no_value_depends_on_the_batch_size(batch_size):
    scorer = TableScorer(HITS)
    report = evaluate(scorer, dataset(RELEVANCE), settings(), batch_size=batch_size)
    assert max(scorer.batches) <= batch_size
    assert report.values["mrr@10"].tolist() == [0.5, 1.0, 0.0]


def test_queries_that_want_no_tool_are_counted_and_left_out():
    report = evaluate(
        TableScorer(HITS), dataset(RELEVANCE | {"none": {}, "zero": {"a": 0}}), settings()
    )
    assert report.query_ids == ("q1", "q2", "q3")
    assert report.without_relevant == 2


def test_only_the_split_that_was_asked_for_is_ranked():
    data = dataset(RELEVANCE, split="val")
    assert evaluate(TableScorer(HITS), data, settings(split="val")).query_ids == tuple(RELEVANCE)
    with pytest.raises(ConfigError, match=r"split 'test', got 0 queries there; its splits: val"):
        evaluate(TableScorer(HITS), data, settings())


def test_a_split_without_relevant_tools_is_refused():
    with pytest.raises(ConfigError, match="must have queries with relevant tools"):
        evaluate(TableScorer({}), dataset({"q": {}}), settings())


def test_adaptive_values_follow_the_scores():
    """q1: 0.9 and 0.8 within 0.2 of the best; q2: 0.9 alone; q3: nothing found."""
    report = evaluate(
        TableScorer(HITS),
        dataset(RELEVANCE),
        settings(cutoff=CutoffSettings(margin=0.2, max_k=5)),
    )
    assert report.values["length@adaptive"].tolist() == [2.0, 1.0, 0.0]
    assert report.values["recall@adaptive"].tolist() == [1.0, 0.5, 0.0]
    assert report.values["precision@adaptive"].tolist() == [0.5, 1.0, 0.0]
    assert report.values["completeness@adaptive"].tolist() == [1.0, 0.0, 0.0]


def test_a_limit_draws_queries_by_seed_and_keeps_their_order():
    relevance = {f"q{i}": {"a": 1} for i in range(50)}
    drawn = [
        evaluate(TableScorer({}), dataset(relevance), settings(limit=5, seed=seed)).query_ids
        for seed in (0, 0, 1)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert list(drawn[0]) == sorted(drawn[0], key=lambda q: int(q[1:]))


def test_a_limit_above_the_number_of_queries_takes_all():
    assert len(evaluate(TableScorer({}), dataset(RELEVANCE), settings(limit=9)).query_ids) == 3


def test_hits_are_handed_out_batch_by_batch():
    seen = []
    evaluate(
        TableScorer(HITS),
        dataset(RELEVANCE),
        settings(),
        batch_size=2,
        on_ranked=lambda queries, ranked: seen.append(([q.id for q in queries], len(ranked[0]))),
    )
    assert seen == [(["q1", "q2"], 2), (["q3"], 0)]


@pytest.mark.parametrize(
    ("hits", "message"),
    [
        ([("a", float("nan"))], "query 'q1': scores must be finite, got nan"),
        ([("a", 1.0), ("b", float("-inf"))], "scores must be finite, got -inf"),
        ([("a", 0.1), ("b", 0.2)], "scores must fall from hit to hit, got a rise"),
        ([("a", 0.2), ("a", 0.1)], "must name each tool once, got one twice"),
        ([("zzz", 0.2)], "must rank tools of the data set, got 'unknown'"),
    ],
)
def test_a_scorer_that_breaks_its_contract_is_named(hits, message):
    with pytest.raises(ShapeError, match=f"scorer table.*{message}"):
        evaluate(TableScorer({"q1": hits}), dataset(RELEVANCE), settings())


def test_a_scorer_with_too_few_or_too_long_lists_is_refused():
    class Short(TableScorer):
        def rank(self, queries, k):
            return super().rank(queries[1:], k)

    class Long(TableScorer):
        def rank(self, queries, k):
            return super().rank(queries, 100)

    with pytest.raises(ShapeError, match="must give 3 lists, got 2"):
        evaluate(Short(HITS), dataset(RELEVANCE), settings())
    with pytest.raises(ShapeError, match="at most 1 hits, got 2"):
        evaluate(Long(HITS), dataset(RELEVANCE), settings(k=1, metrics=("recall@1",)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": 5}, "k must be >= every cutoff of the metrics, 10, got 5"),
        ({"cutoff": CutoffSettings(max_k=11)}, "k must be >= max_k of the adaptive cutoff, 11"),
        ({"metrics": ()}, "metrics must be named once each, at least one"),
        ({"metrics": ("ndcg@5", "ndcg@5")}, "metrics must be named once each"),
        ({"metrics": ("ndcg@5", "f1@5")}, "got 'f1@5'"),
        ({"limit": 0}, "limit must be a whole number >= 1, got 0"),
        ({"k": True}, "k must be a whole number >= 1, got True"),
        ({"seed": -1}, "seed must be a whole number >= 0, got -1"),
        ({"resamples": 0}, "resamples must be a whole number >= 1"),
        ({"confidence": 1.0}, r"confidence must be in \(0, 1\), got 1.0"),
        ({"confidence": float("nan")}, "confidence must be in"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        settings(**changes)


def test_a_batch_size_below_one_is_refused():
    with pytest.raises(ConfigError, match="batch_size must be >= 1, got 0"):
        evaluate(TableScorer(HITS), dataset(RELEVANCE), settings(), batch_size=0)
