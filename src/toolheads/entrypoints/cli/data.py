"""`toolheads data`: get data sets, and look at them before anything is spent on them."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from toolheads.data.datasets import Dataset, dataset_folders, read_dataset
from toolheads.data.records import SPLITS
from toolheads.entrypoints.cli.data_pull import register_pull
from toolheads.errors import DataError, Fault
from toolheads.sample import dataset_path

_SHOWN = DataError.shown


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands of this group."""
    group = subparsers.add_parser("data", help="get and check data sets", description=__doc__)
    commands = group.add_subparsers(metavar="COMMAND", required=True)
    check = commands.add_parser(
        "check",
        help="read data sets and list what is wrong with them",
        description=(
            "Read a data set, or every data set of a folder, and say what is in it and what is "
            "wrong with it. Exit code 1 if a data set has faults; with --skip-bad only if it "
            "cannot be used even without the lines at fault."
        ),
    )
    check.add_argument("path", type=dataset_path, help="a data set, or a folder of data sets")
    check.add_argument(
        "--skip-bad", action="store_true", help="count a data set with bad lines as usable"
    )
    check.add_argument("--json", action="store_true", help="print the answer as JSON")
    check.set_defaults(run=_check)
    register_pull(commands)


def _check(args: argparse.Namespace) -> int:
    rows = [_row(folder, skip_bad=args.skip_bad) for folder in dataset_folders(args.path)]
    if args.json:
        print(json.dumps(rows, indent=1))
    else:
        _print_table(rows)
    return 0 if all(row["usable"] for row in rows) else 1


def _row(folder: Path, *, skip_bad: bool) -> dict[str, Any]:
    """One data set as the table and the JSON show it."""
    faults: list[Fault] = []
    try:
        dataset: Dataset | None = read_dataset(folder)
    except DataError as e:
        faults += e.faults
        try:
            left_out: list[Fault] = []
            dataset = read_dataset(folder, skip_bad=True, on_faults=left_out.extend)
            faults = left_out if skip_bad else faults  # what skipping would leave out in all
        except DataError:
            dataset = None  # a file cannot be used at all
    queries = dataset.queries if dataset else ()
    tools = dataset.tools if dataset else ()
    in_split = Counter(query.split for query in queries)
    return {
        "dataset": folder.resolve().name,
        "tools": len(tools),
        "servers": len({tool.server for tool in tools} - {None}),
        "queries": {split: in_split[split] for split in SPLITS},
        "faults": [{"file": f.path, "line": f.line, "reason": f.reason} for f in faults],
        "usable": dataset is not None and (skip_bad or not faults),
        "digest": dataset.digest if dataset else {},
    }


def _print_table(rows: list[dict[str, Any]]) -> None:
    head = ("data set", "tools", "servers", *SPLITS, "faults")
    table = [
        (
            row["dataset"],
            *(str(row[name]) for name in ("tools", "servers")),
            *(str(row["queries"][split]) for split in SPLITS),
            str(len(row["faults"])),
        )
        for row in rows
    ]
    total = ("all", *(str(sum(int(line[i]) for line in table)) for i in range(1, len(head))))
    lines = [head, *table, *([total] if len(table) > 1 else [])]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for name, *numbers in lines:
        cells = [n.rjust(w) for n, w in zip(numbers, widths[1:], strict=True)]
        print("  ".join([name.ljust(widths[0]), *cells]))
    for row in rows:
        for fault in row["faults"][:_SHOWN]:
            print(Fault(fault["file"], fault["line"], fault["reason"]))
        if len(row["faults"]) > _SHOWN:
            print(f"and {len(row['faults']) - _SHOWN} more in {row['dataset']}")
