"""`toolheads train teach`: write a teacher's scores of the best tools of each training query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from toolheads.arrays import Ids
from toolheads.domain import Query, Tool
from toolheads.errors import ConfigError
from toolheads.scorers.best import best
from toolheads_train.data.scores_file import Key
from toolheads_train.data.selection import Selected, Selection
from toolheads_train.labelling.teachers import Ensemble, Teacher

CHUNK = 256
"""Queries that are scored at once."""


def teach(
    selection: Selection, teacher: Teacher, nearest: Ensemble, *, top: int
) -> Iterator[tuple[str, dict[Key, dict[str, float]]]]:
    """Score the tools of training queries.

    Args:
        selection: Whose training queries.
        teacher: Scores.
        nearest: Finds what is scored: its best tools, and the right ones besides.
        top: Tools of each query, >= 2.

    Yields:
        (data set, scores of its queries in their order), one data set at a time.

    Raises:
        ConfigError: If top breaks its rule.
    """
    if top < 2:
        msg = f"top must be >= 2, got {top}; one score teaches nothing"
        raise ConfigError(msg)
    for one in selection.datasets:
        if one.train:
            teacher.index(one.dataset.tools)
            nearest.index(one.dataset.tools)
            yield one.dataset.name, _of_dataset(one, teacher, nearest, top)


def _of_dataset(
    one: Selected, teacher: Teacher, nearest: Ensemble, top: int
) -> dict[Key, dict[str, float]]:
    tools, scores = one.dataset.tools, {}
    row_of = rows_of(tools)
    for queries in chunks(one.train):
        texts = [query.text for query in queries]
        candidates = [
            _candidates(rows, [row_of[tool_id] for tool_id in query.relevant], top)
            for (rows, _), query in zip(best(nearest.asked(texts), top), queries, strict=True)
        ]
        found = teacher.scores(texts, candidates)
        for query, rows, values in zip(queries, candidates, found, strict=True):
            scores[one.dataset.name, query.id] = {
                tools[row].id: float(value)
                for row, value in zip(rows.tolist(), values.tolist(), strict=True)
            }
    return scores


def _candidates(best_rows: Ids, right: Sequence[int], top: int) -> Ids:
    """Rows of `top` tools: the right ones, all of them, then the best of the others."""
    others = [row for row in best_rows.tolist() if row not in right]
    return np.array([*right, *others[: max(top - len(right), 0)]], np.int64)


def chunks(queries: Sequence[Query]) -> Iterator[Sequence[Query]]:
    """Queries in parts that are scored at once."""
    for start in range(0, len(queries), CHUNK):
        yield queries[start : start + CHUNK]


def rows_of(tools: Sequence[Tool]) -> dict[str, int]:
    """Tool id → row."""
    return {tool.id: row for row, tool in enumerate(tools)}
