"""`toolheads calibrate`: fit the thresholds of decisions and lists to a scorer and a catalogue."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from toolheads.data import Dataset, read_datasets
from toolheads.data.records import SPLITS
from toolheads.decide import (
    Calibration,
    CalibrationSettings,
    calibrate,
    check_calibration,
    save_calibration,
)
from toolheads.decide.calibration import ListFigures, Trade
from toolheads.entrypoints.cli.options import add_data_option
from toolheads.entrypoints.cli.progress import ProgressBar
from toolheads.entrypoints.cli.scorers import add_scorer_options, named_scorer
from toolheads.errors import ConfigError

_DEFAULTS = CalibrationSettings()


def register(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "calibrate", help="fit the thresholds of `toolheads decide`", description=__doc__
    )
    add_data_option(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="where it goes")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    parser.add_argument(
        "--split",
        default=_DEFAULTS.split,
        choices=SPLITS,
        help=f"split whose queries it is fitted to (default: {_DEFAULTS.split})",
    )
    parser.add_argument(
        "--check", choices=SPLITS, help="another split whose queries it is measured on"
    )
    parser.add_argument(
        "--limit",
        type=int,
        default=_DEFAULTS.limit,
        metavar="N",
        help=f"queries of each data set (default: {_DEFAULTS.limit})",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the limit and the halves")
    parser.add_argument(
        "--targets",
        type=_shares,
        default=_DEFAULTS.targets,
        metavar="SHARE,…",
        help="shares of false binds to fit thresholds for (default: 0.01,0.05,0.1)",
    )
    parser.add_argument(
        "--alphas",
        type=_shares,
        default=_DEFAULTS.alphas,
        metavar="SHARE,…",
        help="shares of missed tools to fit cut-offs of lists for (default: 0.05,0.1)",
    )
    parser.add_argument(
        "--floors",
        type=_shares,
        default=_DEFAULTS.floors,
        metavar="SHARE,…",
        help="shares of requests with a right tool that may be told that nothing matches, to fit "
        "floors for (default: 0.01,0.02)",
    )
    parser.add_argument(
        "--hide-at",
        type=float,
        default=_DEFAULTS.hide_at,
        metavar="X",
        help="similarity to a right tool from which on a tool is hidden with it "
        f"(default: {_DEFAULTS.hide_at:g})",
    )
    parser.add_argument(
        "--top-k", type=int, default=_DEFAULTS.top_k, help="tools an answer names (default: 3)"
    )
    add_scorer_options(parser)
    parser.set_defaults(run=_calibrate)


def _calibrate(args: argparse.Namespace) -> int:
    settings = CalibrationSettings(
        split=args.split,
        limit=args.limit,
        seed=args.seed,
        targets=args.targets,
        alphas=args.alphas,
        floors=args.floors,
        hide_at=args.hide_at,
        top_k=args.top_k,
    )
    if args.check == args.split:
        msg = f"check must be another split than the one of the fit, got {args.check}"
        raise ConfigError(msg)
    if args.out.exists() and not args.force:
        msg = f"{args.out} must not be there yet, got a file; add --force to replace it"
        raise ConfigError(msg)
    datasets = read_datasets(args.data, skip_bad=args.skip_bad)
    with ExitStack() as stack:
        bar = None if args.scorer == "bm25" else stack.enter_context(ProgressBar())
        named = named_scorer(args, progress=bar)
        if named.encoder is not None:
            stack.callback(named.encoder.close)
        calibration = calibrate(named.scorer, datasets, settings)
        checked = list(_checked(args, calibration, named.scorer, datasets, settings))
    save_calibration(args.out, calibration)
    for line in _table(calibration):
        print(line)
    for line in checked:
        print(line)
    left_out = [t for t in settings.targets if t not in calibration.targets]
    left_out += [a for a in settings.alphas if a not in {one.alpha for one in calibration.lists}]
    left_out += [a for a in settings.floors if a not in {one.alpha for one in calibration.floors}]
    if left_out:
        shares = ", ".join(f"{share:g}" for share in left_out)
        print(f"no bound of {shares}: the queries are too few or too hard", file=sys.stderr)
    return 0


def _table(calibration: Calibration) -> Iterator[str]:
    queries = calibration.data["queries"]
    yield f"fitted on {queries} queries, AUROC of absence {100 * calibration.auroc:.1f}"
    for one in calibration.thresholds:
        s = one.settings
        yield (
            f"false binds <= {one.target:g}: floor {s.similarity_floor:.4f}, "
            f"margin {s.margin:.4f}, duplicates from {s.duplicate_threshold:.4f}, "
            f"unit {s.score_unit:g}; {_said(one.trade)}"
        )
    for cut in calibration.lists:
        fixed = "none" if cut.fixed_k is None else str(cut.fixed_k)
        yield (
            f"missed <= {cut.alpha:g}: margin {cut.margin:.4f}, at most {cut.max_k}; "
            f"{_listed(cut.figures)}, fixed k {fixed}"
        )
    for floor in calibration.floors:
        shares = _unmatched(floor.missed, floor.noticed)
        yield f"told nothing by mistake <= {floor.alpha:g}: from {floor.score:.4f}; {shares}"


def _checked(
    args: argparse.Namespace,
    calibration: Calibration,
    scorer: Any,
    datasets: Sequence[Dataset],
    settings: CalibrationSettings,
) -> Iterator[str]:
    if args.check is None:
        return
    on_check = dataclasses.replace(settings, split=args.check)
    for check in check_calibration(calibration, scorer, datasets, on_check):
        yield f"{check.dataset}, {args.check}: AUROC of absence {100 * check.auroc:.1f}"
        for one, trade in zip(calibration.thresholds, check.trades, strict=True):
            yield f"  false binds <= {one.target:g}: {_said(trade)}"
        for cut, figures in zip(calibration.lists, check.lists, strict=False):
            yield f"  missed <= {cut.alpha:g}: {_listed(figures)}"
        for floor, shares in zip(calibration.floors, check.unmatched, strict=True):
            yield f"  told nothing by mistake <= {floor.alpha:g}: {_unmatched(*shares)}"


def _said(trade: Trade) -> str:
    return (
        f"false binds {trade.false_binds:.3f} of {trade.absent}, coverage {trade.coverage:.3f} "
        f"of {trade.present}, right {trade.accuracy:.3f}"
    )


def _listed(figures: ListFigures) -> str:
    return (
        f"missed {figures.missed:.3f} on {figures.queries}, mean length {figures.mean_length:.1f}"
    )


def _unmatched(missed: float, noticed: float | None) -> str:
    without = "" if noticed is None else f", {noticed:.3f} of those without"
    return f"{missed:.3f} of those with a right tool{without}"


def _shares(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as e:
        msg = f"must be numbers with commas between them, got {text!r}"
        raise argparse.ArgumentTypeError(msg) from e
