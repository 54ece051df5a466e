"""`toolheads table`: the results table of a document, rendered from reports."""

from __future__ import annotations

import argparse
from pathlib import Path

from toolheads.durable import write_whole
from toolheads.errors import ConfigError, DataError
from toolheads.evaluation.report_file import read_report
from toolheads.evaluation.table import put_between_markers, results_table, summary_table


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "table",
        help="render published results from reports",
        description=(
            "Render a table for each metric, a column for each report. A report that does not "
            "follow the protocol (a limit, another split, other cutoffs, other data) is refused."
        ),
    )
    parser.add_argument("reports", type=Path, nargs="+", metavar="REPORT")
    parser.add_argument(
        "--metric", action="append", metavar="NAME", help="repeatable (default: ndcg@10)"
    )
    parser.add_argument(
        "--label", action="append", metavar="TEXT", help="one for each report, in order"
    )
    parser.add_argument(
        "--summary", action="store_true", help="macro averages alone: a line for each report"
    )
    parser.add_argument(
        "--base",
        metavar="TEXT",
        help="label of the report that the others are held against, with intervals and paired "
        "tests (Holm)",
    )
    parser.add_argument("--no-intervals", action="store_true", help="values alone")
    parser.add_argument("--format", default="md", choices=("md",), help="Markdown")
    parser.add_argument("--into", type=Path, metavar="FILE", help="document with the markers")
    parser.add_argument(
        "--marker", metavar="NAME", help="put it between <!-- results:NAME --> and its end"
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if (args.into is None) != (args.marker is None):
        msg = f"into and marker must be given together, got {args.into} and {args.marker}"
        raise ConfigError(msg)
    reports = [(str(path), read_report(path)) for path in args.reports]
    labels = args.label or [report.scorer.label for _, report in reports]
    metrics = args.metric or ["ndcg@10"]
    intervals = not args.no_intervals
    if args.summary and args.base is not None:
        msg = f"base must be left out with --summary, got {args.base!r}"
        raise ConfigError(msg)
    if args.summary:
        block = summary_table(reports, metrics, labels=labels, intervals=intervals)
    else:
        block = "\n\n".join(
            results_table(reports, metric, labels=labels, intervals=intervals, base=args.base)
            for metric in metrics
        )
    if args.into is None:
        print(block)
        return 0
    document = _document(args.into)
    text = put_between_markers(document, args.marker, block)
    if text != document:
        write_whole(args.into, text.encode())
    return 0


def _document(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as e:
        msg = f"{path} must be UTF-8, got byte {e.object[e.start]:#04x} at {e.start}"
        raise DataError(msg) from e
