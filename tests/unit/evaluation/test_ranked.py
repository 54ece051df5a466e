from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.evaluation.builders import METRICS, QRELS, RANKED, TOOL_IDS

from toolheads.errors import ConfigError, DataError, ShapeError
from toolheads.evaluation.metrics import Metric
from toolheads.evaluation.ranked import (
    NO_ROW,
    Relevant,
    adaptive_metrics,
    ranked_metrics,
    to_rows,
)

ROW_OF = {tool_id: row for row, tool_id in enumerate(TOOL_IDS)}
CASES = st.lists(st.tuples(RANKED, QRELS), max_size=8)


def relevant(*qrels):
    return Relevant.from_qrels(qrels, ROW_OF)


@given(CASES)
def test_many_lists_at_once_equal_the_definitions_one_by_one(cases):
    rows = to_rows([ranked for ranked, _ in cases], ROW_OF)
    got = ranked_metrics(rows, relevant(*(judged for _, judged in cases)), METRICS)
    for name in METRICS:
        want = [Metric.parse(name)(ranked, judged) for ranked, judged in cases]
        np.testing.assert_allclose(got[name], want, rtol=0, atol=1e-12)  # order of sums


@given(CASES, st.integers(0, 12))
def test_adaptive_values_equal_the_definitions_of_the_cut_list(cases, length):
    lists = [ranked for ranked, _ in cases]
    lengths = np.array([min(length, len(ranked)) for ranked in lists], dtype=np.int64)
    judged = [qrels for _, qrels in cases]
    got = adaptive_metrics(to_rows(lists, ROW_OF), lengths, relevant(*judged))
    for at, (ranked, qrels) in enumerate(cases):
        n = int(lengths[at])
        assert got["length@adaptive"][at] == n
        for kind in ("recall", "precision", "completeness") if n else ():
            assert got[f"{kind}@adaptive"][at] == pytest.approx(Metric(kind, n)(ranked, qrels))


def test_an_empty_adaptive_list_has_no_precision():
    got = adaptive_metrics(np.array([[0, 1]]), np.array([0]), relevant({"a": 1}))
    assert {name: values.tolist() for name, values in got.items()} == {
        "length@adaptive": [0.0],
        "recall@adaptive": [0.0],
        "precision@adaptive": [0.0],
        "completeness@adaptive": [0.0],
    }


def test_no_queries_give_empty_values():
    got = ranked_metrics(np.empty((0, 10), dtype=np.int64), relevant(), ["ndcg@10"])
    assert got["ndcg@10"].shape == (0,)


def test_metrics_keep_the_order_they_were_asked_in():
    got = ranked_metrics(np.array([[0]]), relevant({"a": 1}), ["recall@5", "ndcg@1", "map@3"])
    assert list(got) == ["recall@5", "ndcg@1", "map@3"]


def test_int32_rows_are_taken_as_they_are():
    rows = np.array([[1, 0]], dtype=np.int32)
    assert ranked_metrics(rows, relevant({"a": 1}), ["mrr@2"])["mrr@2"].tolist() == [0.5]


def test_padding_is_never_relevant():
    rows = np.array([[NO_ROW, NO_ROW], [11, NO_ROW]])
    got = ranked_metrics(rows, relevant({"l": 1}, {"a": 1}), ["recall@2"])
    assert got["recall@2"].tolist() == [0.0, 0.0]


def test_a_list_that_names_a_row_twice_is_refused():
    with pytest.raises(ShapeError, match="list 1 must name each row once, got row 3 twice"):
        ranked_metrics(np.array([[1, 2], [3, 3]]), relevant({"a": 1}, {"a": 1}), ["ndcg@2"])


def test_a_twin_beyond_every_cutoff_is_refused_too():
    with pytest.raises(ShapeError, match="row 4 twice"):
        ranked_metrics(np.array([[1, 4, 2, 4]]), relevant({"a": 1}), ["ndcg@1"])


@pytest.mark.parametrize("rows", [np.array([[0], [1]]), np.array([0]), np.array([[0.5]])])
def test_rows_of_another_shape_or_kind_are_refused(rows):
    with pytest.raises(ShapeError, match=r"rows must be integers of shape \(1, k\)"):
        ranked_metrics(rows, relevant({"a": 1}), ["ndcg@1"])


def test_a_row_below_the_padding_is_refused():
    with pytest.raises(ShapeError, match=r"rows must be >= 0, or -1 .* got -2"):
        ranked_metrics(np.array([[0, -2]]), relevant({"a": 1}), ["ndcg@1"])


def test_an_unknown_metric_is_refused():
    with pytest.raises(ConfigError, match="got 'f1@2'"):
        ranked_metrics(np.array([[0]]), relevant({"a": 1}), ["f1@2"])


def test_an_adaptive_list_that_names_a_row_twice_is_refused():
    with pytest.raises(ShapeError, match="list 0 must name each row once, got row 3 twice"):
        adaptive_metrics(np.array([[3, 3]]), np.array([1]), relevant({"a": 1}))


def test_lengths_beyond_the_list_are_refused():
    with pytest.raises(ShapeError, match=r"lie in \[0, 2\]"):
        adaptive_metrics(np.array([[0, 1]]), np.array([3]), relevant({"a": 1}))


@pytest.mark.parametrize(
    ("offsets", "rows", "grades", "message"),
    [
        ([0, 3], [0, 1], [1, 1], "offsets must rise from 0 to 2"),
        ([1, 2], [0, 1], [1, 1], "offsets must rise from 0 to 2"),
        ([0, 2, 1, 2], [0, 1], [1, 1], "offsets must rise"),
        ([], [], [], "offsets must rise from 0 to 0, got None"),
        ([0, 2], [0, 1], [1], "grades must be integers of the shape of rows"),
        ([0, 1], [0], [0.5], "grades must be integers"),
        ([0, 1], [-1], [1], "rows must be >= 0, got -1"),
        ([0, 2], [4, 4], [1, 0], "query 0 must judge each tool once, got row 4 twice"),
    ],
)
def test_judgements_that_make_no_sense_are_refused(offsets, rows, grades, message):
    with pytest.raises(ShapeError, match=message):
        Relevant(np.array(offsets, dtype=np.int64), np.array(rows), np.array(grades))


def test_a_judged_tool_outside_the_corpus_is_named():
    with pytest.raises(DataError, match="must be in the corpus, got 'zzz'"):
        relevant({"zzz": 1})
