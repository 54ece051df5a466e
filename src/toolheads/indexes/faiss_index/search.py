"""Finds the best rows through a structure, and asks again where it did not find enough."""

from __future__ import annotations

import numpy as np

from toolheads.arrays import Floats, Ids
from toolheads.indexes.faiss_index.structure import Structure
from toolheads.indexes.scan import best_first
from toolheads.indexes.snapshot import Snapshot

_MARGIN = 16
"""Rows asked for beyond k: for rounding, ties, and rows that are gone."""

_MOST_REFINED = 4096
"""Rows that are found to be scored again, unless more hits are wanted."""

_ATTEMPTS = 4

_Found = tuple[list[str], Floats]


def search(
    rows: Snapshot,
    structure: Structure,
    beside: Snapshot,
    queries: Floats,
    k: int,
    *,
    threads: int,
) -> list[_Found]:
    """Find the best rows for queries.

    Args:
        rows: All rows.
        structure: Built over some of them, and over rows that are gone.
        beside: Those of `rows` that are not in the structure.
        queries: (q, d) float32.
        k: How many for each.
        threads: Threads of one search.

    Returns:
        For each query min(k, len(rows)) keys and products, best first, ties by key.
    """
    of_beside = beside.search(queries, k)
    of_structure = _in_structure(rows, structure, queries, k, len(rows) - len(beside), threads)
    return [
        best_first([*one[0], *two[0]], np.concatenate([one[1], two[1]]), k)
        for one, two in zip(of_structure, of_beside, strict=True)
    ]


def _in_structure(
    rows: Snapshot, structure: Structure, queries: Floats, k: int, alive: int, threads: int
) -> list[_Found]:
    """The best of the rows in the structure; of all rows for a query it serves badly."""
    wanted = min(k, alive)
    found: list[_Found | None] = [None] * len(queries)
    refined = min(wanted * structure.parameters.candidates, max(wanted, _MOST_REFINED))
    hits = min(len(structure), refined + _MARGIN)
    for attempt in range(_ATTEMPTS):
        left = [i for i, one in enumerate(found) if one is None]
        if not left:
            break
        scores, places = structure.search(queries[left], hits, effort=2**attempt, threads=threads)
        for i, of_query, of_places in zip(left, scores, places, strict=True):
            found[i] = _best(rows, structure, queries[i], of_query, of_places, wanted)
        hits = min(len(structure), 4 * hits)
    scanned = iter(rows.search(queries[[i for i, one in enumerate(found) if one is None]], k))
    return [next(scanned) if one is None else one for one in found]


def _best(
    rows: Snapshot, structure: Structure, query: Floats, scores: Floats, places: Ids, wanted: int
) -> _Found | None:
    """The best of what was found for one query; None if that may not be enough."""
    there: dict[int, float] = {}
    for score, place in zip(scores.tolist(), places.tolist(), strict=True):
        row = rows.find(structure.keys[place]) if place >= 0 else None
        if row is not None:
            there.setdefault(row, score)
    if len(there) < wanted:
        return None
    if structure.parameters.is_exact and wanted and len(places) < len(structure):
        # All that could be among the best must have been fetched, ties and rounding included.
        least = sorted(there.values(), reverse=True)[wanted - 1] - rows.slack(query)
        if not scores[-1] < least:
            return None
    chosen = list(there)
    if structure.parameters.takes_codes_at_their_word:
        chosen = chosen[:wanted]
    return rows.score(query, np.array(chosen, np.int64), wanted)
