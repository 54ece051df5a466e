"""Ranks the queries of a data set with a scorer and measures the lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from toolheads.arrays import Ids
from toolheads.data import Dataset
from toolheads.domain import Hit, Query
from toolheads.errors import ConfigError, ShapeError
from toolheads.evaluation.ranked import NO_ROW, Relevant, adaptive_metrics, ranked_metrics
from toolheads.evaluation.report import DatasetReport
from toolheads.evaluation.settings import EvaluationSettings
from toolheads.ports import Scorer


def evaluate(
    scorer: Scorer,
    dataset: Dataset,
    settings: EvaluationSettings | None = None,
    *,
    batch_size: int = 256,
    on_ranked: Callable[[Sequence[Query], Sequence[Sequence[Hit]]], None] | None = None,
) -> DatasetReport:
    """Rank every query of a split over all tools of its data set.

    A query without any relevant tool is left out and counted: on a ranking it would add the same
    0 to every system.

    Args:
        scorer: Takes over the data set's tools.
        dataset: Tools and judged queries.
        settings: See `EvaluationSettings`; None takes the protocol's.
        batch_size: Queries of one `rank` call, >= 1; no number depends on it.
        on_ranked: Called after each batch with its queries and their hits: progress, run files.

    Returns:
        Values of each query, in file order.

    Raises:
        ConfigError: If the split has no query with a relevant tool.
        ShapeError: If the scorer breaks its contract: too many or too few lists, a score that is
            not finite or rises, a tool that is unknown or comes twice.
    """
    settings = settings or EvaluationSettings()
    if batch_size < 1:
        msg = f"batch_size must be >= 1, got {batch_size}"
        raise ConfigError(msg)
    in_split = [query for query in dataset.queries if query.split == settings.split]
    judged = [query for query in in_split if query.relevant]
    if not judged:
        splits = ", ".join(sorted({query.split for query in dataset.queries})) or "none"
        msg = (
            f"data set {dataset.name} must have queries with relevant tools in split "
            f"{settings.split!r}, got {len(in_split)} queries there; its splits: {splits}"
        )
        raise ConfigError(msg)
    queries = _drawn(judged, dataset.name, settings)
    row_of = {tool.id: row for row, tool in enumerate(dataset.tools)}
    depth = min(settings.k, len(row_of))
    rows = np.full((len(queries), depth), NO_ROW, dtype=np.int64)
    lengths = np.zeros(len(queries), dtype=np.int64)
    scorer.index(dataset.tools)
    for start in range(0, len(queries), batch_size):
        batch = queries[start : start + batch_size]
        ranked = scorer.rank(batch, settings.k)
        if len(ranked) != len(batch):
            msg = f"scorer {scorer.name} must give {len(batch)} lists, got {len(ranked)}"
            raise ShapeError(msg)
        for at, (query, hits) in enumerate(zip(batch, ranked, strict=True), start=start):
            _check_hits(hits, depth, owner=f"scorer {scorer.name}, query {query.id!r}")
            rows[at, : len(hits)] = _rows(hits, row_of, owner=f"scorer {scorer.name}")
            if settings.cutoff is not None:
                lengths[at] = settings.cutoff.count([hit.score for hit in hits])
        if on_ranked is not None:
            on_ranked(batch, ranked)
    relevant = Relevant.from_qrels([query.relevance for query in queries], row_of)
    values = ranked_metrics(rows, relevant, settings.metrics)
    if settings.cutoff is not None:
        values |= adaptive_metrics(rows, lengths, relevant)
    return DatasetReport(
        name=dataset.name,
        digest=dict(dataset.digest),
        tools=len(dataset.tools),
        without_relevant=len(in_split) - len(judged),
        query_ids=tuple(query.id for query in queries),
        values=values,
    )


def _drawn(queries: list[Query], name: str, settings: EvaluationSettings) -> list[Query]:
    """All queries, or `limit` of them, in file order; the draw depends on seed and name only."""
    if settings.limit is None or settings.limit >= len(queries):
        return queries
    rng = np.random.default_rng([settings.seed, *name.encode()])
    kept = rng.choice(len(queries), size=settings.limit, replace=False)
    return [queries[at] for at in sorted(kept)]


def _check_hits(hits: Sequence[Hit], depth: int, *, owner: str) -> None:
    scores = [hit.score for hit in hits]
    if len(hits) > depth:
        msg = f"{owner}: a list must have at most {depth} hits, got {len(hits)}"
        raise ShapeError(msg)
    if not all(map(math.isfinite, scores)):
        msg = (
            f"{owner}: scores must be finite, got {next(s for s in scores if not math.isfinite(s))}"
        )
        raise ShapeError(msg)
    if any(later > earlier for earlier, later in pairwise(scores)):
        msg = f"{owner}: scores must fall from hit to hit, got a rise"
        raise ShapeError(msg)
    if len({hit.tool_id for hit in hits}) != len(hits):
        msg = f"{owner}: a list must name each tool once, got one twice"
        raise ShapeError(msg)


def _rows(hits: Sequence[Hit], row_of: dict[str, int], *, owner: str) -> Ids:
    try:
        return np.array([row_of[hit.tool_id] for hit in hits], dtype=np.int64)
    except KeyError as e:
        msg = f"{owner} must rank tools of the data set, got {e.args[0]!r}"
        raise ShapeError(msg) from e
