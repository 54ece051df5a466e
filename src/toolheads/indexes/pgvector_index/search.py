"""Finds the best rows for one query, and asks again where it did not get enough."""

from __future__ import annotations

from typing import Any

import numpy as np

from toolheads.arrays import Floats
from toolheads.indexes.pgvector_index.table import Table, set_local
from toolheads.indexes.scan import best_first, exact_scores, slack_of

_MARGIN = 16
"""Rows asked for beyond k, for rounding and ties."""

_Rows = list[tuple[str, Any, float, float]]


def best_rows(connection: Any, table: Table, query: Floats, k: int) -> tuple[list[str], Floats]:
    """The k best rows for one (d,) query; of an HNSW index those it finds.

    Each statement sees the rows of one moment, and the answer is that of one statement.
    """
    hits = k + _MARGIN
    found = _fetch(connection, table, query, hits)
    if table.has_hnsw and len(found) < k:  # of fewer rows than k, or the graph did not reach more
        with connection.transaction():
            set_local(connection, "enable_indexscan", "off")
            found = _fetch(connection, table, query, hits)
    while not table.has_hnsw and _may_lack_some(found, query, k, hits):
        hits *= 4
        found = _fetch(connection, table, query, hits)
    if not found:
        return [], np.empty(0, np.float32)
    rows = np.stack([to_floats(row) for _, row, _, _ in found])
    return best_first([key for key, *_ in found], exact_scores(query, rows), k)


def to_floats(row: Any) -> Floats:
    """(d,) float32 of a value that pgvector gave back, as an array or as a class of its own."""
    array = row if isinstance(row, np.ndarray) else row.to_numpy()
    return array.astype(np.float32)


def _fetch(connection: Any, table: Table, query: Floats, hits: int) -> _Rows:
    statement = table.write(
        "SELECT key, row, -({indexed} <#> %(query)b::{indexed_kind}), "
        "(SELECT max(length) FROM {table}) FROM {table} "
        "ORDER BY {indexed} <#> %(query)b::{indexed_kind} LIMIT %(hits)s"
    )
    cursor = connection.cursor(binary=True)
    found: _Rows = cursor.execute(statement, {"query": query, "hits": hits}).fetchall()
    return found


def _may_lack_some(found: _Rows, query: Floats, k: int, hits: int) -> bool:
    """Whether a row that was not fetched may be among the k best, rounding and ties included."""
    if len(found) < hits:
        return False
    slack = slack_of(len(query), found[0][3], query)
    return not found[-1][2] < found[k - 1][2] - slack
