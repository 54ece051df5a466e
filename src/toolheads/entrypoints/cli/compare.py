"""`toolheads compare`: hold one report against another, data set by data set."""

from __future__ import annotations

import argparse
from pathlib import Path

from toolheads.evaluation.comparison import PERMUTATIONS, compare
from toolheads.evaluation.report_file import read_report
from toolheads.evaluation.table import comparison_table


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "compare",
        help="compare two reports",
        description=(
            "Show both values and their difference (B minus A) for each data set and for the mean "
            "over data sets. With --paired also the bootstrap interval of the difference and the "
            "p of a paired sign-flip permutation test, corrected over data sets (Holm)."
        ),
    )
    parser.add_argument("a", type=Path, metavar="A.json", help="the base")
    parser.add_argument("b", type=Path, metavar="B.json", help="what is held against it")
    parser.add_argument("--paired", action="store_true", help="intervals and tests by query")
    parser.add_argument("--metric", default="ndcg@10", help="default: ndcg@10")
    parser.add_argument("--permutations", type=int, default=PERMUTATIONS, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    a, b = read_report(args.a), read_report(args.b)
    comparison = compare(
        a,
        b,
        metric=args.metric,
        names=(str(args.a), str(args.b)),
        permutations=args.permutations,
        seed=args.seed,
    )
    print(f"A: {a.scorer.label} ({args.a})\nB: {b.scorer.label} ({args.b})\n")
    print(comparison_table(comparison, ("A", "B"), paired=args.paired))
    if args.paired:
        print(
            f"\npaired sign-flip test, {comparison.permutations:,} permutations, "
            f"seed {comparison.seed}; Holm over {len(comparison.datasets)} data sets"
        )
    return 0
