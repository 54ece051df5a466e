"""What the thresholds that come with packaged heads give on test queries.

    python -m benchmarks.thresholds.check DATA --cache DIR [--what floors] [--only NAME …]

For each data set with test queries, `floors`: how many of them are told that nothing matches though
a right tool is there, and how many requests of other data sets, most of them about other things.
`decisions`: false binds, coverage and right binds, as in docs/results.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from toolheads.bootstrap import make_encoder, resolve_settings
from toolheads.data import Dataset, read_datasets
from toolheads.decide import CalibrationSettings, packaged_thresholds
from toolheads.decide.calibration import episodes_of, subject_of
from toolheads.decide.calibration.run import drawn
from toolheads.decide.calibration.thresholds import trade_of
from toolheads.domain import Query
from toolheads.errors import CalibrationError
from toolheads.facade import load_scorer
from toolheads.scorers.clm import CLMScorer

_FOREIGN = 100
"""Requests of other data sets for each one."""


def row_of(
    dataset: Dataset, foreign: Sequence[Query], scorer: CLMScorer, args: argparse.Namespace
) -> list[float] | None:
    """Shares in percent; None where no thresholds are for such a catalogue."""
    kinds = packaged_thresholds(subject_of(scorer))
    if kinds is None:
        sys.exit("the packaged heads must come with thresholds, got none")
    try:
        calibration = kinds.of(dataset.tools)
    except CalibrationError as e:
        print(f"{dataset.name}: {e}", file=sys.stderr)
        return None
    if args.what == "decisions":
        settings = calibration.settings(args.false_binds)
        looked = CalibrationSettings(split="test", limit=args.limit)
        trade = trade_of(episodes_of(scorer, dataset, looked, unit=settings.score_unit), settings)
        return [100 * share for share in (trade.false_binds, trade.coverage, trade.accuracy)]
    scorer.index(dataset.tools)
    queries = drawn(dataset.split("test"), dataset.name, args.limit, 0)
    best = [
        np.array([hits[0].score for hits in scorer.rank(some, 1)])
        for some in ([query for query in queries if query.relevant], foreign)
    ]
    floors = [calibration.match_floor(alpha).score for alpha in args.floors]
    return [100 * float((scores < floor).mean()) for floor in floors for scores in best]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--heads", default="minilm")
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--false-binds", type=float, default=0.05)
    parser.add_argument("--floors", type=float, nargs="+", default=[0.01, 0.02])
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--what", choices=("floors", "decisions"), default="floors")
    args = parser.parse_args()
    datasets = [d for d in read_datasets(args.data) if d.split("test")]
    scorer = load_scorer(args.heads, make_encoder(resolve_settings()), cache=args.cache)
    head = ["false binds", "coverage", "right"]
    if args.what == "floors":
        whose = ("tool there", "foreign")
        head = [f"{alpha:.0%}: {one}" for alpha in args.floors for one in whose]
    print("|", " | ".join(["data set", "tools", *head]), "|")
    print("| --- |", " | ".join(["---:"] * (len(head) + 1)), "|", flush=True)
    rows = []
    for dataset in datasets:
        if args.only and dataset.name not in args.only:
            continue
        others = [
            query
            for other in datasets
            if other.name != dataset.name and not other.name.startswith(dataset.name.split("_")[0])
            for query in drawn(other.split("test"), other.name, 20, 0)
        ]
        foreign = drawn(others, dataset.name, _FOREIGN, 0)
        row = row_of(dataset, foreign, scorer, args)
        if row is not None:
            rows.append(row)
            figures = " | ".join(f"{share:.1f}" for share in row)
            print(f"| {dataset.name} | {len(dataset.tools):,} | {figures} |", flush=True)
    mean = " | ".join(f"{share:.1f}" for share in np.mean(rows, axis=0))
    print(f"| **mean** | | {mean} |")


if __name__ == "__main__":
    main()
