from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.evaluation.builders import report

from toolheads.cutoff import CutoffSettings
from toolheads.data.shared import COUNTS
from toolheads.errors import ConfigError
from toolheads.evaluation.comparison import compare
from toolheads.evaluation.settings import EvaluationSettings
from toolheads.evaluation.table import (
    comparison_table,
    put_between_markers,
    render,
    report_table,
    results_table,
    shown_name,
    shown_p,
    summary_table,
)

A = report({"one": [0.0, 0.5, 0.5], "two": [0.2] * 4})
B = report({"one": [0.5, 1.0, 1.0], "two": [0.2] * 4}, name="clm")
BOTH = [("a.json", A), ("b.json", B)]


def cells(table):
    """The cells of each line that is no rule."""
    lines = [line for line in table.splitlines() if line.startswith("|") and "---" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_a_report_table_has_a_line_for_each_set_and_both_averages():
    table = cells(report_table(A))
    assert table[0] == ["data set", "queries", "tools", "nDCG@10", "R@5", "C@10"]
    assert [row[0] for row in table[1:]] == ["one", "two", "**macro average**", "micro average"]
    assert table[2] == ["two", "4", "1,234", *["20.00 [20.0, 20.0]"] * 3]
    assert [row[3].split()[0] for row in table[3:]] == ["26.67", "25.71"]


def test_the_length_of_adaptive_lists_is_no_percentage():
    settings = EvaluationSettings(cutoff=CutoffSettings(), resamples=9)
    table = cells(report_table(report({"one": [3.0]}, settings=settings)))
    assert table[0][-2:] == ["K (adaptive)", "R (adaptive)"]
    assert table[1][-2] == "3.00 [3.00, 3.00]"


def test_all_metrics_are_shown_where_no_headline_was_measured():
    settings = EvaluationSettings(metrics=("mrr@3", "map@7"), resamples=9)
    table = cells(report_table(report({"one": [0.5]}, settings=settings)))
    assert table[0][3:] == ["RR@3", "MAP@7"]


def test_a_paired_comparison_shows_interval_p_and_holm():
    text = comparison_table(compare(A, B), ("A", "B"), paired=True)
    table = cells(text)
    assert text.startswith("nDCG@10\n\n|")
    assert table[0] == [
        "data set", "queries", "A", "B", "difference", "95% interval", "p", "Holm p"
    ]  # fmt: skip
    assert table[1] == [
        "one", "3", "33.33", "83.33", "+50.00", "[+50.00, +50.00]", "0.250", "0.500"
    ]  # fmt: skip
    assert table[3][0] == "**macro average**"
    assert table[3][-1] == ""


def test_an_unpaired_comparison_shows_values_and_difference_alone():
    table = cells(comparison_table(compare(A, B), ("A", "B"), paired=False))
    assert table[0] == ["data set", "queries", "A", "B", "difference"]


def test_published_results_have_the_best_of_each_line_in_bold():
    table = cells(results_table(BOTH, "ndcg@10", labels=["BM25", "ours"], intervals=False))
    assert table[0] == ["data set", "queries", "BM25", "ours"]
    assert table[1] == ["one", "3", "33.33", "**83.33**"]
    assert table[2] == ["two", "4", "**20.00**", "**20.00**"]  # a tie has no single best
    assert [row[0] for row in table[3:]] == ["**macro average**", "micro average"]


def test_published_results_stand_with_their_intervals():
    table = cells(results_table(BOTH, "ndcg@10", labels=["BM25", "ours"]))
    assert table[2][2] == "**20.00** [20.0, 20.0]"


def test_results_are_held_against_a_base_with_a_corrected_test_for_each_set():
    three = [*BOTH, ("c.json", report({"one": [0.5, 0.4, 0.6], "two": [0.3, 0.1, 0.2, 0.4]}))]
    text = results_table(
        three, "ndcg@10", labels=["BM25", "ours", "theirs"], intervals=False, base="BM25"
    )
    table = cells(text)
    assert table[0][5:] == ["ours - BM25", "theirs - BM25"]
    expected = compare(A, three[2][1])
    one, two = (f"p {shown_p(line.holm_p or 0)}" for line in expected.datasets)
    assert table[1][5] == "+50.00 [+50.00, +50.00] p 0.500"  # 2/8, of two sets
    assert table[1][6].endswith(one)
    assert table[2][6].endswith(two)
    assert table[3][6].endswith(f"p {shown_p(expected.macro.p)}")
    assert table[4][5:] == ["", ""]
    assert "corrected over 2 data sets (Holm)" in text.splitlines()[-1]


def test_a_base_that_no_report_has_is_refused():
    with pytest.raises(ConfigError, match=r"base must be one of .*a, b, got 'c'"):
        results_table(BOTH, "ndcg@10", labels=["a", "b"], base="c")
    with pytest.raises(ConfigError, match="base must be one of labels that differ, a, a"):
        results_table(BOTH, "ndcg@10", labels=["a", "a"], base="a")


def test_a_report_table_tells_how_many_relevant_tools_training_met_where_it_is_known():
    met = dict(zip(COUNTS, (1234, 40, 30, 12, 7), strict=True))
    known = replace(A, datasets=(replace(A.datasets[0], in_training=met), A.datasets[1]))
    table = cells(report_table(known))
    assert [row[3] for row in table] == [
        "relevant in training", "7 / 12 / 30", "not known", "", ""
    ]  # fmt: skip


def test_a_summary_has_a_line_for_each_report():
    table = cells(
        summary_table(BOTH, ["ndcg@10", "recall@5"], labels=["BM25", "ours"], intervals=False)
    )
    assert table == [
        ["macro average of 2 test sets", "nDCG@10", "R@5"],
        ["BM25", "26.67", "26.67"],
        ["ours", "**51.67**", "**51.67**"],
    ]


@pytest.mark.parametrize("make", [results_table, lambda r, m, **k: summary_table(r, [m], **k)])
def test_what_breaks_the_protocol_is_not_published(make):
    limited = replace(A, settings=replace(A.settings, limit=2))
    other_data = report({"one": [0.0, 0.5, 0.5], "two": [0.2] * 4}, digest="ee" * 32)
    with pytest.raises(ConfigError, match=r"c.json must follow the protocol: all queries"):
        make([*BOTH, ("c.json", limited)], "ndcg@10", labels=["a", "b", "c"])
    with pytest.raises(ConfigError, match=r"a.json and c.json must be comparable.*digest of one"):
        make([*BOTH, ("c.json", other_data)], "ndcg@10", labels=["a", "b", "c"])
    with pytest.raises(ConfigError, match=r"metric must be one of a.json: .*got 'f1'"):
        make(BOTH, "f1", labels=["a", "b"])
    with pytest.raises(ConfigError, match="labels must be one for each report, got 1 for 2"):
        make(BOTH, "ndcg@10", labels=["a"])


DOCUMENT = "# Title\n\n<!-- results:main -->\nold\n<!-- /results:main -->\n\nEnd é\n"


def test_only_what_stands_between_the_markers_is_replaced():
    assert put_between_markers(DOCUMENT, "main", "new\n") == DOCUMENT.replace("old", "new")


def test_putting_the_same_block_twice_changes_nothing():
    once = put_between_markers(DOCUMENT, "main", "| a |\n| b |")
    assert put_between_markers(once, "main", "| a |\n| b |") == once


@pytest.mark.parametrize(
    ("document", "name", "message"),
    [
        ("no markers", "main", "once each, got 0 and 0"),
        (DOCUMENT, "other", "once each, got 0 and 0"),
        (DOCUMENT * 2, "main", "once each, got 2 and 2"),
        (DOCUMENT.replace("<!-- /results:main -->", ""), "main", "once each, got 1 and 0"),
        (DOCUMENT + "<!-- results:main -->", "main", "once each, got 2 and 1"),
        ("<!-- /results:m --> <!-- results:m -->", "m", "must stand before"),
        (DOCUMENT, "a b -->", "marker must be made of letters"),
    ],
)
def test_a_document_without_the_two_markers_is_refused(document, name, message):
    with pytest.raises(ConfigError, match=message):
        put_between_markers(document, name, "new")


def test_a_table_is_aligned_as_text():
    table = render(["name", "value"], [["a", "1.00"], ["longer", "12.00"]])
    assert table.splitlines() == [
        "| name   | value |",
        "| ------ | ----: |",
        "| a      |  1.00 |",
        "| longer | 12.00 |",
    ]


def test_a_pipe_in_a_label_does_not_break_the_table():
    assert render(["a|b"], [["x\ny"]]).splitlines()[0::2] == ["| a\\|b |", "| x y  |"]


@pytest.mark.parametrize(
    ("p", "shown"), [(1.0, "1.000"), (0.0456, "0.046"), (0.0003, "<0.001"), (1e-4, "<0.001")]
)
def test_p_values_are_shown_with_three_decimals(p, shown):
    assert shown_p(p) == shown


def test_metrics_have_the_names_of_the_field():
    assert [shown_name(m) for m in ("ndcg@10", "mrr@5", "recall@adaptive")] == [
        "nDCG@10",
        "RR@5",
        "R (adaptive)",
    ]
