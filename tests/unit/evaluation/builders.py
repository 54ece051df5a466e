"""Small data sets, scorers and reports for the tests of this folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import strategies as st

from toolheads.data import Dataset
from toolheads.domain import Hit, Query, Tool
from toolheads.evaluation.metrics import default_metrics
from toolheads.evaluation.report import DatasetReport, Report, ScorerRecord, make_report
from toolheads.evaluation.settings import EvaluationSettings

TOOL_IDS = tuple("abcdefghijkl")

QRELS = st.dictionaries(st.sampled_from(TOOL_IDS), st.integers(-1, 3), max_size=8)
"""Judgements of one query; grades 0 and below are judged and not relevant."""

RANKED = st.permutations(TOOL_IDS).flatmap(
    lambda order: st.integers(0, len(order)).map(lambda n: order[:n])
)
"""A ranked list, empty and short ones included."""


class TableScorer:
    """Gives the hits of a table: query_id → (tool_id, score), best first."""

    name = "table"

    def __init__(self, table: Mapping[str, Sequence[tuple[str, float]]]) -> None:
        self._table = table
        self._tools: dict[str, Tool] = {}
        self.batches: list[int] = []

    def index(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.id: tool for tool in tools}

    def rank(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        self.batches.append(len(queries))
        unknown = Tool("unknown", "unknown")
        return [
            [Hit(self._tools.get(t, unknown), s) for t, s in self._table.get(q.id, ())][:k]
            for q in queries
        ]


def dataset(
    relevance: Mapping[str, Mapping[str, int]], *, name: str = "set", split: str = "test"
) -> Dataset:
    """A data set over the tools `TOOL_IDS`."""
    return Dataset(
        name=name,
        tools=tuple(Tool(tool_id, tool_id) for tool_id in TOOL_IDS),
        queries=tuple(
            Query(q, f"text {q}", relevance=r, split=split) for q, r in relevance.items()
        ),
        digest={"tools.jsonl": "aa" * 32, "queries.jsonl": "bb" * 32},
    )


def report(
    values: Mapping[str, Sequence[float]],
    *,
    name: str = "bm25",
    settings: EvaluationSettings | None = None,
    digest: str = "ab" * 32,
) -> Report:
    """A report in which every metric of a query has one value: data set → values."""
    settings = settings or EvaluationSettings(resamples=50)
    datasets = [
        DatasetReport(
            name=dataset,
            digest={"queries.jsonl": digest, "tools.jsonl": "cd" * 32},
            tools=1234,
            without_relevant=0,
            query_ids=tuple(f"q{i}" for i in range(len(given))),
            values={m: np.array(given, dtype=np.float64) for m in settings.all_metrics},
        )
        for dataset, given in values.items()
    ]
    return make_report(ScorerRecord(name), settings, datasets)


METRICS = default_metrics((1, 3, 5, 20))
