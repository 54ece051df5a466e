"""Measures callbus's heads, ours and the frozen vectors on every test set, by the same code.

The lists of callbus come from its own numpy heads: its environment projected the vectors, and
here they are ranked and measured exactly as every other scorer's.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.ancestor.exchange import Pairs, write_json
from benchmarks.ancestor.recipe import folder_data

from toolheads.bootstrap import make_encoder
from toolheads.data import Dataset, read_datasets
from toolheads.domain import Hit, Query, Tool
from toolheads.embedder import Embedder
from toolheads.evaluation.comparison import compare
from toolheads.evaluation.evaluate import evaluate
from toolheads.evaluation.report import Report, ScorerRecord, make_report
from toolheads.evaluation.report_file import write_report
from toolheads.evaluation.settings import EvaluationSettings
from toolheads.heads import Head, load_heads
from toolheads.ports import Scorer
from toolheads.scorers.clm import CLMScorer
from toolheads.scorers.dense import DenseScorer
from toolheads.scorers.exact import ProjectedTools, QueryProjections

METRIC = "ndcg@10"


def main() -> None:
    """Write a report for each system, and a summary of NDCG@10."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", nargs="+", required=True, metavar="DIR")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--exchange", type=Path, required=True)
    parser.add_argument("--callbus", type=Path, required=True, help="result of its training")
    parser.add_argument(
        "--heads", nargs=2, action="append", metavar=("LABEL", "NAME|FILE"), default=[]
    )
    parser.add_argument("--reports", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    settings = EvaluationSettings()
    datasets = [
        one for one in read_datasets(args.data) if any(q.relevant for q in one.split("test"))
    ]
    data = folder_data(args.config, root=args.data, cache=str(args.cache))
    encoder = make_encoder(data.folders.encoder)
    try:
        embedder = Embedder(encoder, data.folders.texts, args.cache)
        fingerprint = embedder.fingerprint
        frozen = DenseScorer(embedder)
        reports = {
            "frozen": make_report(
                ScorerRecord("dense", fingerprint=fingerprint),
                settings,
                [_measured(frozen, one, settings) for one in datasets],
            )
        }
        sha256 = json.loads(args.callbus.read_text(encoding="utf-8"))["sha256"]
        reports["callbus"] = make_report(
            ScorerRecord("callbus", "callbus 0.3.1", sha256, fingerprint),
            settings,
            [
                _measured(_Projected(one, args.exchange / "callbus"), one, settings)
                for one in datasets
            ],
        )
        for label, name in args.heads:
            heads = load_heads(name)
            scorer = CLMScorer(heads, Embedder(encoder, heads.texts, args.cache))
            reports[label] = make_report(
                ScorerRecord("clm", heads.name, heads.sha256, heads.fingerprint),
                settings,
                [_measured(scorer, one, settings) for one in datasets],
            )
    finally:
        encoder.close()
    args.reports.mkdir(parents=True, exist_ok=True)
    for label, report in reports.items():
        write_report(args.reports / f"{label.replace(', ', '-').replace(' ', '-')}.json", report)
    write_json(args.out, _summary(reports))


class _Projected:
    """The scorer port over projections that callbus made of one data set."""

    name = "callbus"

    def __init__(self, dataset: Dataset, folder: Path) -> None:
        pairs = Pairs.load(folder / f"{dataset.name}.npz")
        judged = [query.id for query in dataset.split("test") if query.relevant]
        self._row_of = {query_id: row for row, query_id in enumerate(judged)}
        self._queries, self._vectors = pairs.queries, pairs.tools
        self._tools: Sequence[Tool] = ()

    def index(self, tools: Sequence[Tool]) -> None:
        self._tools = tools
        identity = Head.identity(self._vectors.shape[1])
        self._projected = ProjectedTools({"text": self._vectors}, {"text": 1.0}, identity)

    def rank(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        rows = self._queries[[self._row_of[query.id] for query in queries]]
        projections = QueryProjections(
            whole=rows,
            clauses=rows[:0],
            offsets=np.zeros(len(rows) + 1, np.int64),
            whole_weight=1.0,
            clause_weight=0.0,
        )
        return [
            [Hit(self._tools[row], float(s)) for row, s in zip(found, scores, strict=True)]
            for found, scores in self._projected.top(projections, k)
        ]


def _measured(scorer: Scorer, dataset: Dataset, settings: EvaluationSettings) -> Any:
    report = evaluate(scorer, dataset, settings)
    sys.stderr.write(f"{scorer.name} {dataset.name}: {report.mean(METRIC):.4f}\n")
    return report


def _summary(reports: dict[str, Report]) -> dict[str, Any]:
    """NDCG@10 of each set, the macro average with its interval, and paired tests."""
    first = next(iter(reports.values()))
    *others, last = reports
    pairs = [(label, last) for label in others] + [("callbus", label) for label in others[2:]]
    tests = {}
    for base, label in pairs:
        macro = compare(reports[base], reports[label], metric=METRIC).macro
        tests[f"{label} - {base}"] = {
            "difference": macro.difference,
            "interval": list(macro.interval),
            "p": macro.p,
        }
    return {
        "queries": {d.name: len(d.query_ids) for d in first.datasets},
        "sets": {
            label: {d.name: d.mean(METRIC) for d in report.datasets}
            for label, report in reports.items()
        },
        "macro": {label: report.macro.means[METRIC] for label, report in reports.items()},
        "macro_interval": {
            label: list(report.macro.intervals[METRIC]) for label, report in reports.items()
        },
        "tests": tests,
    }


if __name__ == "__main__":
    main()
