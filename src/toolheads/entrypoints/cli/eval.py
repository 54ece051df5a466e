"""`toolheads eval`: rank the test queries of data sets with a scorer and write a report."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from toolheads.cutoff import CutoffSettings
from toolheads.data import Dataset, read_datasets
from toolheads.data.records import SPLITS
from toolheads.data.shared import shared_tools_of
from toolheads.domain import Hit, Query
from toolheads.entrypoints.cli.options import add_data_option
from toolheads.entrypoints.cli.printing import counted
from toolheads.entrypoints.cli.progress import ProgressBar
from toolheads.entrypoints.cli.scorers import (
    WITH_HYBRID,
    NamedScorer,
    add_scorer_options,
    named_scorer,
)
from toolheads.errors import ConfigError
from toolheads.evaluation.evaluate import evaluate
from toolheads.evaluation.metrics import DEFAULT_CUTOFFS, default_metrics
from toolheads.evaluation.report import DatasetReport, make_report
from toolheads.evaluation.report_file import write_report
from toolheads.evaluation.settings import EvaluationSettings
from toolheads.evaluation.table import HEADLINE, report_table
from toolheads.evaluation.trec import write_qrels, write_run


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("eval", help="measure a scorer", description=__doc__)
    add_data_option(parser)
    parser.add_argument("--json", type=Path, metavar="OUT", help="where the report goes")
    parser.add_argument("--split", default="test", choices=SPLITS, help="default: test")
    parser.add_argument("--limit", type=int, metavar="N", help="queries of each data set")
    parser.add_argument("--seed", type=int, default=0, help="of the limit and the intervals")
    parser.add_argument(
        "-k", "--k", type=int, default=100, help="hits of each query (default: 100)"
    )
    parser.add_argument(
        "--cutoffs",
        type=_numbers,
        default=DEFAULT_CUTOFFS,
        metavar="K,K,…",
        help=f"rank depths of the metrics (default: {','.join(map(str, DEFAULT_CUTOFFS))})",
    )
    parser.add_argument(
        "--metrics", type=_names, metavar="NAME,…", help="such as ndcg@10,recall@5; not --cutoffs"
    )
    parser.add_argument("--batch", type=int, default=256, metavar="N", help="queries of a call")
    parser.add_argument(
        "--runs-out", type=Path, metavar="DIR", help="folder for a TREC run and qrels of each set"
    )
    group = parser.add_argument_group("adaptive K (default: that of the heads)")
    group.add_argument("--margin", type=float, metavar="X", help="largest difference to the best")
    group.add_argument("--max-k", type=int, metavar="N", help="most hits")
    group.add_argument("--min-k", type=int, metavar="N", help="fewest hits")
    group.add_argument("--threshold", type=float, metavar="X", help="least score of a hit")
    add_scorer_options(parser, kinds=WITH_HYBRID)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    started = time.monotonic()
    metrics = args.metrics or default_metrics(args.cutoffs)
    settings = EvaluationSettings(
        split=args.split,
        limit=args.limit,
        seed=args.seed,
        k=args.k,
        metrics=metrics,
        skip_bad=args.skip_bad,
    )
    datasets = _with_split(read_datasets(args.data, skip_bad=args.skip_bad), args.split)
    with ExitStack() as stack:
        bar = None if args.scorer == "bm25" else stack.enter_context(ProgressBar())
        named = named_scorer(args, progress=bar)
        if named.encoder is not None:
            stack.callback(named.encoder.close)
        settings = replace(settings, cutoff=_cutoff(args, named))
        reports = [
            _evaluated(named, dataset, settings, args.batch, args.runs_out) for dataset in datasets
        ]
    report = make_report(named.record, settings, reports)
    if args.json is not None:
        write_report(args.json, report)
    _tell(f"{counted(len(datasets), 'data set')} in {time.monotonic() - started:.1f} s")
    print(report_table(report, args.metrics or ()))
    return 0


def _with_split(datasets: Sequence[Dataset], split: str) -> list[Dataset]:
    """The data sets that can be evaluated; a catalogue without such queries is left out."""
    kept = [d for d in datasets if any(query.relevant for query in d.split(split))]
    left_out = [d.name for d in datasets if d not in kept]
    if not kept:
        msg = f"data must have a set with queries of split {split}, got none in {len(datasets)}"
        raise ConfigError(msg)
    if left_out:
        _tell(f"without queries of split {split}, left out: {', '.join(left_out)}")
    return kept


def _evaluated(
    named: NamedScorer,
    dataset: Dataset,
    settings: EvaluationSettings,
    batch_size: int,
    runs_out: Path | None,
) -> DatasetReport:
    started = time.monotonic()
    lists: dict[str, list[tuple[str, float]]] = {}
    judged: dict[str, dict[str, int]] = {}

    def keep(queries: Sequence[Query], ranked: Sequence[Sequence[Hit]]) -> None:
        for query, hits in zip(queries, ranked, strict=True):
            lists[query.id] = [(hit.tool_id, hit.score) for hit in hits]
            judged[query.id] = dict(query.relevance)

    report = evaluate(
        named.scorer,
        dataset,
        settings,
        batch_size=batch_size,
        on_ranked=keep if runs_out is not None else None,
    )
    if settings.split == "test":  # what heads tell is of the test queries
        report = replace(report, in_training=shared_tools_of(named.shared_tools, dataset))
    if runs_out is not None:
        runs_out.mkdir(parents=True, exist_ok=True)
        write_run(runs_out / f"{dataset.name}.run", lists, tag=named.record.label)
        write_qrels(runs_out / f"{dataset.name}.qrels", judged)
    shown = next((m for m in HEADLINE if m in settings.metrics), settings.metrics[0])
    skipped = f" ({report.without_relevant} more want no tool)" if report.without_relevant else ""
    _tell(
        f"{dataset.name}: {len(report.query_ids)} queries{skipped}, {report.tools} tools, "
        f"{shown} {report.mean(shown):.4f}, {time.monotonic() - started:.1f} s"
    )
    return report


def _cutoff(args: argparse.Namespace, named: NamedScorer) -> CutoffSettings | None:
    names = ("margin", "max_k", "min_k", "threshold")
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if named.cutoff is None:
        if given:
            name, scorer = next(iter(given)), named.record.name
            msg = f"{name} must be left out for scorer {scorer}: its scores are no cosines"
            raise ConfigError(msg)
        return None
    return replace(named.cutoff, **given)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as e:
        msg = f"must be whole numbers with commas between them, got {text!r}"
        raise argparse.ArgumentTypeError(msg) from e


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))
