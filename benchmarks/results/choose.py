"""Narrows a report to some data sets, or to some queries of one, for a table of its own.

python -m benchmarks.results.choose REPORT OUT --sets NAME,… [--only NAME=FIELD:VALUE --data DIR]

`--only seal_tools=part:test_out_domain` keeps the queries of seal_tools whose line in
DIR/seal_tools/queries.jsonl has that value in that field.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from toolheads.errors import ConfigError
from toolheads.evaluation.report import DatasetReport, make_report
from toolheads.evaluation.report_file import read_report, write_report


def main() -> int:
    """Read, narrow, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sets", required=True)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--data", type=Path)
    args = parser.parse_args()
    report = read_report(args.report)
    there = {one.name: one for one in report.datasets}
    wanted = args.sets.split(",")
    missing = [name for name in wanted if name not in there]
    if missing:
        msg = f"--sets must name data sets of {args.report}, got {missing[0]!r}"
        raise ConfigError(msg)
    chosen = {name: there[name] for name in wanted}
    for rule in args.only:
        name, condition = rule.split("=")
        field, value = condition.split(":")
        chosen[name] = _narrowed(
            chosen[name], ids_with(args.data / name / "queries.jsonl", field, value)
        )
    write_report(args.out, make_report(report.scorer, report.settings, list(chosen.values())))
    return 0


def ids_with(path: Path, field: str, value: str) -> set[str]:
    """The ids of the lines of a file of queries that have this value in a field."""
    lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return {line["id"] for line in lines if line.get(field) == value}


def _narrowed(one: DatasetReport, ids: set[str]) -> DatasetReport:
    rows = np.array([row for row, query in enumerate(one.query_ids) if query in ids])
    return replace(
        one,
        query_ids=tuple(one.query_ids[row] for row in rows),
        values={metric: values[rows] for metric, values in one.values.items()},
    )


if __name__ == "__main__":
    sys.exit(main())
