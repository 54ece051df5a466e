"""Reports and comparisons as Markdown tables, and the place in a document where one belongs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolheads.errors import ConfigError
from toolheads.evaluation.comparison import Comparison, Difference, compare
from toolheads.evaluation.protocol import check_comparable, check_protocol
from toolheads.evaluation.report import DatasetReport, Report, Summary

HEADLINE = ("ndcg@10", "recall@5", "completeness@10", "length@adaptive", "recall@adaptive")
"""Metrics that the table of one report shows, where it has them."""

_NAMES = {"ndcg": "nDCG", "recall": "R", "precision": "P", "map": "MAP", "mrr": "RR"}
_NAMES |= {"completeness": "C", "length": "K"}


def report_table(report: Report, metrics: Sequence[str] = ()) -> str:
    """One report: a line for each data set, then the averages, each with its interval.

    Where the heads know how many of a data set's relevant tools they met in training, a column
    says so: asked for by a labelled query / in the training corpus in any part / all.

    Args:
        report: What to show.
        metrics: Which metrics; none takes `HEADLINE`, or all where none of those was measured.
    """
    wanted = tuple(metrics) or tuple(m for m in HEADLINE if m in report.metrics) or report.metrics
    is_known = any(d.in_training is not None for d in report.datasets)
    rows = [
        [
            *(d.name, f"{len(d.query_ids):,}", f"{d.tools:,}"),
            *([_met(d)] if is_known else []),
            *_cells(report.summaries[d.name], wanted),
        ]
        for d in report.datasets
    ]
    queries = f"{sum(len(d.query_ids) for d in report.datasets):,}"
    blank = [""] * (1 + is_known)
    rows.append(["**macro average**", queries, *blank, *_cells(report.macro, wanted)])
    rows.append(["micro average", queries, *blank, *_cells(report.micro, wanted)])
    known = ["relevant in training"] if is_known else []
    return render(["data set", "queries", "tools", *known, *map(shown_name, wanted)], rows)


def comparison_table(comparison: Comparison, labels: tuple[str, str], *, paired: bool) -> str:
    """Two reports: values and difference of each data set, with the test if `paired`."""
    metric, percent = comparison.metric, f"{comparison.confidence:.0%}"
    header = ["data set", "queries", *labels, "difference"]
    if paired:
        header += [f"{percent} interval", "p", "Holm p"]

    def row(line: Difference, name: str) -> list[str]:
        values = [shown_value(metric, line.a), shown_value(metric, line.b)]
        cells = [name, f"{line.queries:,}", *values, shown_value(metric, line.difference, sign="+")]
        if paired:
            corrected = "" if line.holm_p is None else shown_p(line.holm_p)
            cells += [_interval(metric, line.interval, sign="+"), shown_p(line.p), corrected]
        return cells

    rows = [row(line, line.name) for line in comparison.datasets]
    rows.append(row(comparison.macro, "**macro average**"))
    return f"{shown_name(metric)}\n\n{render(header, rows)}"


def results_table(
    reports: Sequence[tuple[str, Report]],
    metric: str,
    *,
    labels: Sequence[str],
    intervals: bool = True,
    base: str | None = None,
) -> str:
    """Published results in one metric: a column for each report, the best of a line in bold.

    Args:
        reports: (name for the error, report), at least one.
        metric: Which metric.
        labels: Heads of the columns, one for each report.
        intervals: Whether each value stands with its bootstrap interval.
        base: Label of the report that the others are held against: each gets a column more with
            its difference, the interval of that and the p of the paired test, corrected over the
            data sets (Holm). None tests nothing.

    Raises:
        ConfigError: If a report breaks the protocol, two are not comparable, or no report has
            the label of the base.
    """
    _check_published(reports, labels, [metric])
    tested = _tested(reports, metric, labels, base)
    first = reports[0][1]
    queries = f"{sum(len(d.query_ids) for d in first.datasets):,}"
    lines = [
        ([d.name, f"{len(d.query_ids):,}"], [report.summaries[d.name] for _, report in reports])
        for d in first.datasets
    ]
    lines.append((["**macro average**", queries], [report.macro for _, report in reports]))
    lines.append((["micro average", queries], [report.micro for _, report in reports]))
    rows = []
    for head, summaries in lines:
        best = max(_rounded(metric, summary) for summary in summaries)
        rows.append(
            [
                *head,
                *(
                    _cell(summary, metric, intervals, bold=_rounded(metric, summary) == best)
                    for summary in summaries
                ),
            ]
        )
    for label, comparison in tested.items():
        lines_of = [*comparison.datasets, comparison.macro]
        for row, line in zip(rows, lines_of, strict=False):
            row.append(_difference(metric, line))
        rows[-1].append("")  # the micro average is no mean of data sets: it has no test
        labels = [*labels, f"{label} - {base}"]
    table = f"{shown_name(metric)}\n\n{render(['data set', 'queries', *labels], rows)}"
    return f"{table}\n\n{_test_note(next(iter(tested.values())))}" if tested else table


def summary_table(
    reports: Sequence[tuple[str, Report]],
    metrics: Sequence[str],
    *,
    labels: Sequence[str],
    intervals: bool = True,
) -> str:
    """Published macro averages: a line for each report, a column for each metric.

    Raises:
        ConfigError: As `results_table`.
    """
    _check_published(reports, labels, metrics)
    best = {m: max(_rounded(m, report.macro) for _, report in reports) for m in metrics}
    rows = [
        [
            label,
            *(
                _cell(report.macro, m, intervals, bold=_rounded(m, report.macro) == best[m])
                for m in metrics
            ),
        ]
        for label, (_, report) in zip(labels, reports, strict=True)
    ]
    sets = len(reports[0][1].datasets)
    return render([f"macro average of {sets} test sets", *map(shown_name, metrics)], rows)


def put_between_markers(document: str, name: str, block: str) -> str:
    """Replace what stands between `<!-- results:NAME -->` and `<!-- /results:NAME -->`.

    Raises:
        ConfigError: If the two markers are not there once each, in this order.
    """
    if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
        msg = f"marker must be made of letters, digits, '.', '_' and '-', got {name!r}"
        raise ConfigError(msg)
    start, end = f"<!-- results:{name} -->", f"<!-- /results:{name} -->"
    if document.count(start) != 1 or document.count(end) != 1:
        found = f"{document.count(start)} and {document.count(end)}"
        msg = f"the document must have {start} and {end} once each, got {found}"
        raise ConfigError(msg)
    before, _, rest = document.partition(start)
    _, found_end, after = rest.partition(end)
    if not found_end:
        msg = f"{start} must stand before {end}, got them the other way round"
        raise ConfigError(msg)
    return f"{before}{start}\n{block.strip()}\n{end}{after}"


def render(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table that is aligned as text too; the first column to the left, others right."""
    cells = [[_escaped(cell) for cell in row] for row in (header, *rows)]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "| " + " | ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) + " |"
        for row in cells
    ]
    rule = [
        "-" * widths[0],
        *("-" * (width - 1) + ":" for width in widths[1:]),
    ]
    return "\n".join([lines[0], "| " + " | ".join(rule) + " |", *lines[1:]])


def shown_name(metric: str) -> str:
    """A metric as a table calls it: nDCG@10, R@5, C@10, K (adaptive)."""
    kind, _, cutoff = metric.partition("@")
    name = _NAMES[kind]
    return f"{name} (adaptive)" if cutoff == "adaptive" else f"{name}@{cutoff}"


def shown_value(metric: str, value: float, *, sign: str = "", digits: int = 2) -> str:
    """A value as a table shows it: in percent, a list length as it is."""
    scaled = value if metric == "length@adaptive" else 100 * value
    return f"{scaled:{sign}.{digits}f}"


def shown_p(p: float) -> str:
    """A p value: three decimals, or a bound where these would be 0."""
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def _tested(
    reports: Sequence[tuple[str, Report]], metric: str, labels: Sequence[str], base: str | None
) -> dict[str, Comparison]:
    """Label of each report but the base → its comparison with the base."""
    if base is None:
        return {}
    if base not in labels or len(set(labels)) != len(labels):
        msg = f"base must be one of labels that differ, {', '.join(labels)}, got {base!r}"
        raise ConfigError(msg)
    against, first = reports[labels.index(base)]
    return {
        label: compare(first, report, metric=metric, names=(against, name))
        for label, (name, report) in zip(labels, reports, strict=True)
        if label != base
    }


def _difference(metric: str, line: Difference) -> str:
    p = line.p if line.holm_p is None else line.holm_p
    value = shown_value(metric, line.difference, sign="+")
    return f"{value} {_interval(metric, line.interval, sign='+')} p {shown_p(p)}"


def _test_note(comparison: Comparison) -> str:
    return (
        f"Differences with {comparison.confidence:.0%} bootstrap intervals; p of a paired "
        f"sign-flip test, {comparison.permutations:,} permutations, seed {comparison.seed}, "
        f"corrected over {len(comparison.datasets)} data sets (Holm); the macro average is one "
        "test of its own."
    )


def _met(dataset: DatasetReport) -> str:
    """Relevant tools that training asked for / that its corpus has / all of them."""
    if dataset.in_training is None:
        return "not known"
    names = ("relevant_labelled", "relevant_in_training", "relevant")
    return " / ".join(f"{dataset.in_training[name]:,}" for name in names)


def _check_published(
    reports: Sequence[tuple[str, Report]], labels: Sequence[str], metrics: Sequence[str]
) -> None:
    if not reports or len(labels) != len(reports):
        msg = f"labels must be one for each report, got {len(labels)} for {len(reports)}"
        raise ConfigError(msg)
    for name, report in reports:
        check_protocol(name, report)
        for metric in metrics:
            if metric not in report.metrics:
                msg = f"metric must be one of {name}: {', '.join(report.metrics)}; got {metric!r}"
                raise ConfigError(msg)
    check_comparable(reports)


def _cells(summary: Summary, metrics: Sequence[str]) -> list[str]:
    return [_cell(summary, metric, intervals=True) for metric in metrics]


def _cell(summary: Summary, metric: str, intervals: bool, *, bold: bool = False) -> str:
    value = shown_value(metric, summary.means[metric])
    shown = f"**{value}**" if bold else value
    return f"{shown} {_interval(metric, summary.intervals[metric])}" if intervals else shown


def _interval(metric: str, ends: tuple[float, float], *, sign: str = "") -> str:
    digits = 2 if metric == "length@adaptive" or sign else 1
    low, high = (shown_value(metric, end, sign=sign, digits=digits) for end in ends)
    return f"[{low}, {high}]"


def _rounded(metric: str, summary: Summary) -> float:
    return float(shown_value(metric, summary.means[metric]))


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")
