from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from tests.unit.evaluation.builders import report

from toolheads.cutoff import CutoffSettings
from toolheads.errors import ConfigError
from toolheads.evaluation.comparison import compare
from toolheads.evaluation.protocol import check_protocol
from toolheads.evaluation.report import ScorerRecord
from toolheads.evaluation.settings import EvaluationSettings
from toolheads.evaluation.statistics import permutation_p

A = report({"one": [0.0, 0.5, 0.5], "two": [0.2] * 4})
B = report({"one": [0.5, 1.0, 1.0], "two": [0.2] * 4}, name="clm")


def test_differences_are_second_minus_first():
    comparison = compare(A, B)
    assert [line.name for line in comparison.datasets] == ["one", "two"]
    assert [line.difference for line in comparison.datasets] == pytest.approx([0.5, 0.0])
    assert comparison.macro.difference == pytest.approx(0.25)
    assert (comparison.macro.a, comparison.macro.b) == pytest.approx(
        (A.macro.means["ndcg@10"], B.macro.means["ndcg@10"])
    )


def test_turning_the_reports_round_turns_signs_and_keeps_p():
    one, two = compare(A, B), compare(B, A)
    assert two.macro.difference == -one.macro.difference
    assert two.macro.p == one.macro.p
    assert two.macro.interval == pytest.approx(tuple(-end for end in reversed(one.macro.interval)))


def test_p_values_are_those_of_the_paired_test():
    comparison = compare(A, B)
    assert [line.p for line in comparison.datasets] == [pytest.approx(2 / 8), 1.0]
    assert [line.holm_p for line in comparison.datasets] == [pytest.approx(0.5), 1.0]
    differences = {"one": [0.5, 0.5, 0.5], "two": [0.0] * 4}
    assert comparison.macro.p == pytest.approx(permutation_p(differences))
    assert comparison.macro.holm_p is None


def test_corrected_p_values_of_three_sets_are_those_of_all_sign_vectors():
    """Enumerated: sign vectors for each p, subsets of data sets for each corrected one."""
    base = report({name: [0.5] * n for name, n in (("a", 8), ("b", 5), ("c", 6))})
    other = report(
        {
            "a": [0.9, 0.8, 0.7, 0.6, 0.9, 0.8, 0.75, 0.95],
            "b": [0.9, 0.1, 0.7, 0.6, 0.55],
            "c": [0.6, 0.7, 0.8, 0.9, 0.95, 0.4],
        }
    )
    lines = compare(base, other).datasets
    values = [
        (other.datasets[i].values["ndcg@10"] - base.datasets[i].values["ndcg@10"]).tolist()
        for i in range(3)
    ]

    def exact(differences):
        sums = [
            abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
            for signs in itertools.product((-1, 1), repeat=len(differences))
        ]
        return sum(one >= abs(sum(differences)) - 1e-9 for one in sums) / len(sums)

    ps = [exact(differences) for differences in values]
    assert [line.p for line in lines] == pytest.approx(ps)
    subsets = [s for n in (1, 2, 3) for s in itertools.combinations(range(3), n)]
    corrected = [
        max(min(1.0, len(s) * min(ps[i] for i in s)) for s in subsets if mine in s)
        for mine in range(3)
    ]
    assert [line.holm_p for line in lines] == pytest.approx(corrected)
    assert corrected[0] > ps[0]  # 2/256 three times


def test_a_constant_difference_has_an_interval_of_one_point():
    assert compare(A, B).datasets[0].interval == pytest.approx((0.5, 0.5))


def test_a_report_against_itself_shows_no_difference():
    comparison = compare(A, A)
    assert {line.p for line in comparison.datasets} == {1.0}
    assert comparison.macro.interval == (0.0, 0.0)


def test_an_adaptive_metric_is_compared_even_when_the_cutoffs_differ():
    one, two = (
        report({"one": [1.0, 2.0]}, settings=EvaluationSettings(cutoff=c, resamples=9))
        for c in (CutoffSettings(margin=0.1), CutoffSettings(margin=0.3))
    )
    assert compare(one, two, metric="length@adaptive").macro.difference == 0.0


def changed(report_, **changes):
    return replace(report_, settings=replace(report_.settings, **changes))


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (changed(A, split="val"), r"split \(test and val\)"),
        (changed(A, limit=50), r"limit \(None and 50\)"),
        (changed(A, k=50), r"k \(100 and 50\)"),
        (changed(A, skip_bad=True), "skip_bad"),
        (changed(A, metrics=("ndcg@10", "mrr@7")), "metrics .*and mrr@7"),
        (replace(A, metrics_version="metrics/v0"), r"metric definitions \(metrics/v1 and metrics/"),
        (report({"one": [0.1] * 3}), r"data sets \(two and none more\)"),
        (report({"one": [0.1] * 3, "two": [0.2] * 5}), r"choice of queries of two \(4 and 5\)"),
        (
            report({"one": [0.1] * 3, "two": [0.2] * 4}, digest="ee" * 32),
            r"digest of one/queries.jsonl \(abababababab and eeeeeeeeeeee\); digest of two",
        ),
    ],
)
def test_reports_that_measure_something_else_are_refused_and_told_apart(other, named):
    with pytest.raises(ConfigError, match=f"A.json and B.json must be comparable.*{named}"):
        compare(A, other, names=("A.json", "B.json"))


def test_queries_in_another_order_are_refused():
    datasets = (A.datasets[0], replace(A.datasets[1], query_ids=("q3", "q2", "q1", "q0")))
    with pytest.raises(ConfigError, match="order of queries of two"):
        compare(A, replace(A, datasets=datasets))


def test_an_unknown_metric_is_refused_with_those_there_are():
    with pytest.raises(ConfigError, match=r"metric must be one of A.json: .*ndcg@10.* got 'f1'"):
        compare(A, B, metric="f1", names=("A.json", "B.json"))


@pytest.mark.parametrize(
    ("report_", "rule"),
    [
        (changed(A, limit=50), "all queries, got limit 50"),
        (changed(A, split="val"), "split test, got val"),
        (changed(A, k=50), "k 100, got 50"),
        (changed(A, skip_bad=True), "every line of the data"),
        (changed(A, metrics=("ndcg@10",)), "all metrics of the protocol, got none of .*recall@5"),
        (replace(A, metrics_version="metrics/v0"), "metrics/v1, got metrics/v0"),
        (replace(A, scorer=ScorerRecord("clm", heads="mine")), "sha256 of its heads, got none"),
        (
            replace(A, datasets=(replace(A.datasets[0], digest={}), A.datasets[1])),
            "digests of its data, got none",
        ),
    ],
)
def test_a_report_that_breaks_the_protocol_is_refused_by_rule(report_, rule):
    with pytest.raises(ConfigError, match=f"x.json must follow the protocol: .*{rule}"):
        check_protocol("x.json", report_)


def test_a_report_that_follows_the_protocol_passes():
    check_protocol("x.json", B)
