"""The metrics of many ranked lists at once, from row numbers.

Training calls this once an epoch and `evaluate` once a data set, so that the number in a log and
the number in a report come from the same lines. Equal to the definitions in
`toolheads.evaluation.metrics` (tested on random lists).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Bools, Ids
from toolheads.errors import DataError, ShapeError
from toolheads.evaluation.metrics import Metric, Values, check_ranked

NO_ROW = -1
"""Fills the end of a list that is shorter than the others; never relevant."""


@dataclass(frozen=True)
class Relevant:
    """Judgements of q queries in one flat list; query i has entries offsets[i]:offsets[i + 1].

    Attributes:
        offsets: (q + 1,) int64, from 0, never falling.
        rows: (m,) int64. Row of each judged tool in the corpus, each once per query.
        grades: (m,) int64. Its relevance; > 0 is relevant.
    """

    offsets: Ids
    rows: Ids
    grades: Ids

    def __post_init__(self) -> None:
        ends = (self.offsets[0], self.offsets[-1]) if self.offsets.size else (None, None)
        if ends != (0, self.rows.size) or (np.diff(self.offsets) < 0).any():
            msg = f"offsets must rise from 0 to {self.rows.size}, got {ends[0]} to {ends[1]}"
            raise ShapeError(msg)
        if self.grades.shape != self.rows.shape or self.grades.dtype.kind not in "iu":
            got = f"{self.grades.dtype} {self.grades.shape}"
            msg = f"grades must be integers of the shape of rows {self.rows.shape}, got {got}"
            raise ShapeError(msg)
        if self.rows.size and self.rows.min() < 0:
            msg = f"rows must be >= 0, got {self.rows.min()}"
            raise ShapeError(msg)
        order = np.lexsort((self.rows, self.query))
        same = (np.diff(self.rows[order]) == 0) & (np.diff(self.query[order]) == 0)
        if same.any():
            at = order[np.flatnonzero(same)[0]]
            msg = f"query {self.query[at]} must judge each tool once, got row {self.rows[at]} twice"
            raise ShapeError(msg)

    def __len__(self) -> int:
        return self.offsets.size - 1

    @property
    def query(self) -> Ids:
        """(m,) int64. Query of each judgement."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.offsets))

    @classmethod
    def from_qrels(cls, qrels: Sequence[Mapping[str, int]], row_of: Mapping[str, int]) -> Relevant:
        """Judgements by tool id, one mapping for each query.

        Args:
            qrels: Relevance of each judged tool.
            row_of: tool_id → row in the corpus.

        Raises:
            DataError: If a judged tool is not in the corpus.
        """
        try:
            rows = [row_of[tool_id] for judged in qrels for tool_id in judged]
        except KeyError as e:
            msg = f"a judged tool must be in the corpus, got {e.args[0]!r}"
            raise DataError(msg) from e
        sizes = [len(judged) for judged in qrels]
        grades = [grade for judged in qrels for grade in judged.values()]
        offsets = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
        return cls(offsets, np.array(rows, dtype=np.int64), np.array(grades, dtype=np.int64))


def ranked_metrics(
    rows: npt.NDArray[np.integer], relevant: Relevant, metrics: Sequence[str]
) -> dict[str, Values]:
    """Metrics of q ranked lists.

    Args:
        rows: (q, k) integers. Rows of the corpus, best first, each once; `NO_ROW` fills the end
            of a short list. k may be below a cutoff: the list is then short.
        relevant: Judgements of the same q queries.
        metrics: Names such as `ndcg@10`.

    Returns:
        Name → (q,) float64, in the order of `metrics`.

    Raises:
        ShapeError: If shapes disagree or a list names a row twice.
        ConfigError: If a name is no metric.
    """
    wanted = [Metric.parse(name) for name in metrics]
    if rows.ndim != 2 or rows.shape[0] != len(relevant) or rows.dtype.kind not in "iu":
        msg = f"rows must be integers of shape ({len(relevant)}, k), got {rows.dtype} {rows.shape}"
        raise ShapeError(msg)
    _check_unique(rows)
    depth = min(max((m.cutoff for m in wanted), default=0), rows.shape[1])
    gains = _gains(rows[:, :depth], relevant)  # (q, depth)
    found = gains > 0  # (q, depth)
    total = np.bincount(relevant.query[relevant.grades > 0], minlength=len(relevant))  # (q,)
    values = {}
    for metric in wanted:
        values[str(metric)] = _metric(metric, gains, found, total, relevant)
    return values


def adaptive_metrics(rows: Ids, lengths: Ids, relevant: Relevant) -> dict[str, Values]:
    """What q lists hold when each is cut at its own length.

    Args:
        rows: (q, k) int64. As for `ranked_metrics`.
        lengths: (q,) int64. Tools that are shown of each list, in [0, k].
        relevant: Judgements of the same q queries.

    Returns:
        `length@adaptive`, and recall, precision and completeness of what is shown; each (q,)
        float64. Precision divides by the shown length; of an empty list it is 0.
    """
    if lengths.shape != (len(relevant),) or (lengths < 0).any() or (lengths > rows.shape[1]).any():
        msg = (
            f"lengths must have shape ({len(relevant)},) and lie in [0, {rows.shape[1]}], "
            f"got {lengths.shape} from {lengths.min(initial=0)} to {lengths.max(initial=0)}"
        )
        raise ShapeError(msg)
    _check_unique(rows)
    shown = np.arange(rows.shape[1]) < lengths[:, None]  # (q, k)
    found = ((_gains(rows, relevant) > 0) & shown).sum(axis=1)  # (q,)
    total = np.bincount(relevant.query[relevant.grades > 0], minlength=len(relevant))
    return {
        "length@adaptive": lengths.astype(np.float64),
        "recall@adaptive": _divide(found, total),
        "precision@adaptive": _divide(found, lengths),
        "completeness@adaptive": ((found == total) & (total > 0)).astype(np.float64),
    }


def per_query_metrics(
    run: Mapping[str, Sequence[str]],
    qrels: Mapping[str, Mapping[str, int]],
    metrics: Sequence[str],
) -> dict[str, Values]:
    """Metrics of a run, by ids.

    Args:
        run: query_id → tool ids, best first, each once. A judged query that is missing counts as
            one with an empty list (trec_eval's `-c`); a query without judgements is left out.
        qrels: query_id → relevance of each judged tool.
        metrics: Names such as `ndcg@10`.

    Returns:
        Name → (q,) float64, in the order of `qrels`.

    Raises:
        DataError: If a list names a tool twice.
    """
    lists = [list(run.get(query_id, ())) for query_id in qrels]
    for query_id, ranked in zip(qrels, lists, strict=True):
        check_ranked(ranked, query_id=query_id)
    row_of: dict[str, int] = {}
    for tool_ids in (*lists, *qrels.values()):
        for tool_id in tool_ids:
            row_of.setdefault(tool_id, len(row_of))
    relevant = Relevant.from_qrels(list(qrels.values()), row_of)
    return ranked_metrics(to_rows(lists, row_of), relevant, metrics)


def to_rows(lists: Sequence[Sequence[str]], row_of: Mapping[str, int]) -> Ids:
    """Ranked tool ids as an array of rows.

    Returns:
        (q, longest list) int64, short lists filled with `NO_ROW`.
    """
    rows = np.full((len(lists), max(map(len, lists), default=0)), NO_ROW, dtype=np.int64)
    for at, ranked in enumerate(lists):
        rows[at, : len(ranked)] = [row_of[tool_id] for tool_id in ranked]
    return rows


def _metric(metric: Metric, gains: Ids, found: Bools, total: Ids, relevant: Relevant) -> Values:
    """(q,) float64. One metric, from (q, depth) gains and hits and (q,) relevant tools in all."""
    k = metric.cutoff
    top = found[:, :k]  # (q, <= k)
    rank = np.arange(1, top.shape[1] + 1)
    count: Ids = top.sum(axis=1, dtype=np.int64)  # (q,)
    match metric.kind:
        case "ndcg":
            return _divide(gains[:, :k] @ (1 / np.log2(rank + 1)), _ideal_dcg(relevant, k))
        case "recall":
            return _divide(count, total)
        case "precision":
            return _divide(count, np.full_like(count, k))
        case "map":
            return _divide((top * top.cumsum(axis=1) / rank).sum(axis=1), total)
        case "mrr":
            first: Values = (top / rank).max(axis=1, initial=0.0)
            return first
        case _:
            complete: Values = ((count == total) & (total > 0)).astype(np.float64)
            return complete


def _gains(rows: npt.NDArray[np.integer], relevant: Relevant) -> Ids:
    """(q, k) int64. Relevance of each ranked tool; 0 for unjudged, padding and grades below 0."""
    if not relevant.rows.size or not rows.size:
        return np.zeros(rows.shape, dtype=np.int64)
    span = max(int(rows.max()), int(relevant.rows.max())) + 2  # rows from NO_ROW on
    keys = relevant.query * span + relevant.rows  # (m,) unique: row is checked to be
    order = np.argsort(keys)
    keys, grades = keys[order], np.maximum(relevant.grades[order], 0)
    asked = np.arange(len(relevant))[:, None] * span + rows  # (q, k)
    at = np.minimum(np.searchsorted(keys, asked), keys.size - 1)
    gains: Ids = np.where((keys[at] == asked) & (rows >= 0), grades[at], 0)
    return gains


def _ideal_dcg(relevant: Relevant, cutoff: int) -> Values:
    """(q,) float64. Gain of the best order, cut at `cutoff`."""
    query = relevant.query
    order = np.lexsort((-relevant.grades, query))  # within a query, best first
    rank = np.arange(query.size) - relevant.offsets[query]  # query is sorted already
    gain = np.maximum(relevant.grades[order], 0) / np.log2(rank + 2)
    weights: Values = gain * (rank < cutoff)
    return np.bincount(query, weights=weights, minlength=len(relevant)).astype(np.float64)


def _divide(part: npt.NDArray[np.number], whole: npt.NDArray[np.number]) -> Values:
    """(q,) float64. part / whole, 0 where the whole is 0."""
    share: Values = np.zeros(part.shape, dtype=np.float64)
    np.divide(part, whole, out=share, where=whole > 0)
    return share


def _check_unique(rows: npt.NDArray[np.integer]) -> None:
    ordered = np.sort(rows, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != NO_ROW)
    if twice.any():
        query, at = np.argwhere(twice)[0]
        msg = f"list {query} must name each row once, got row {ordered[query, at]} twice"
        raise ShapeError(msg)
    if rows.size and ordered[:, 0].min() < NO_ROW:
        msg = f"rows must be >= 0, or {NO_ROW} for the end of a list, got {ordered[:, 0].min()}"
        raise ShapeError(msg)
