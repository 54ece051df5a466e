"""The tools for one query in one state: by vectors or by words, named ones always among them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from toolheads.arrays import Bools, Ids
from toolheads.cutoff import EDGE, CutoffSettings
from toolheads.ports import VectorIndex
from toolheads.retrieval.state import Floor, State
from toolheads.scorers.exact import Doubles, QueryProjections
from toolheads.scorers.rank_fusion import best_first

_NONE: Ids = np.empty(0, np.int64)


@dataclass(frozen=True)
class Found:
    """Rows of the tools that were found, best first, ties by row."""

    rows: Ids
    scores: Doubles
    named: Ids
    """Rows of those that the query names, in the same order."""
    nothing_matches: bool
    score_of: Callable[[Ids], Doubles]
    """Scores of other tools for the same query."""


def found_by_vectors(
    state: State,
    index: VectorIndex,
    text: str,
    queries: QueryProjections,
    k: int | None,
    *,
    cutoff: CutoffSettings,
    floor: Floor | None,
    depth: int,
    sources: Collection[str] | None,
) -> Found:
    """Find tools by their vectors, and words where the scorer mixes them in.

    Args:
        state: Has a corpus.
        index: Holds its rows.
        text: The query.
        queries: Its projections.
        k: How many; None lets the cut-off decide. Its threshold counts either way.
        cutoff: See `k`.
        floor: What the best hit must score for there to be any; None for no such rule.
        depth: How many rows the index is asked for at first.
        sources: Servers that may be searched; None for all.

    Raises:
        IndexStoreError: If the index fails, or lacks a row.
    """
    assert state.corpus is not None, "a state without a corpus is searched by words"
    allowed = state.allowed(sources)
    search = state.corpus.search(index, text, queries, allowed=allowed)
    rows, scores = search.top(cutoff.max_k if k is None else k, depth=depth)
    if floor is not None and _is_below(floor, scores, allowed):
        count = 0
    elif k is None:
        count = cutoff.count(scores)
    elif cutoff.threshold is None:
        count = len(rows)
    else:
        count = int(np.count_nonzero(scores >= cutoff.threshold - EDGE))
    named = named_rows(state, text, sources)
    return _with_named(rows[:count], scores[:count], named, k, search.score)


def _is_below(floor: Floor, scores: Doubles, allowed: Bools | None) -> bool:
    """Whether the best of the tools that may be found is too bad, where there are enough of them.

    The best of a few is worse than the best of many, so that a floor says nothing about it.
    """
    is_enough = allowed is None or int(np.count_nonzero(allowed)) >= floor.least_tools
    return is_enough and (not len(scores) or bool(scores[0] < floor.score - EDGE))


def found_by_words(
    state: State, text: str, k: int, *, most: int | None, sources: Collection[str] | None
) -> Found:
    """Find tools by the words that they share with the query; none if none does.

    Args:
        state: Any.
        text: The query.
        k: How many.
        most: k as the caller gave it; None if not.
        sources: Servers that may be searched; None for all.
    """
    scores = state.words.folded.scores([text])[0].astype(np.float64)
    sharing = scores > 0
    if sources is not None and (allowed := state.allowed(sources)) is not None:
        sharing &= allowed
    rows, best = best_first(scores, np.flatnonzero(sharing), k)
    named = named_rows(state, text, sources)
    return _with_named(rows, best, named, most, lambda others: scores[others])


def named_rows(state: State, text: str, sources: Collection[str] | None) -> Ids:
    """Rows of the tools that a query names and that may be found, rising."""
    ids = state.names.in_text(text)
    if not ids:
        return _NONE
    rows = np.array(sorted(state.snapshot.row_of[tool_id] for tool_id in ids), np.int64)
    allowed = state.allowed(sources) if len(rows) else None
    return rows if allowed is None else rows[allowed[rows]]


def _with_named(
    rows: Ids, scores: Doubles, named: Ids, k: int | None, score_of: Callable[[Ids], Doubles]
) -> Found:
    if not len(named):
        return Found(rows, scores, named, not len(rows), score_of)
    left_out = np.setdiff1d(named, rows)
    if len(left_out):
        if k is not None:  # named tools take the last places
            free = max(0, k - len(named))
            others = np.flatnonzero(~np.isin(rows, named))
            kept = np.ones(len(rows), np.bool_)
            kept[others[free:]] = False
            rows, scores = rows[kept], scores[kept]
        rows = np.concatenate([rows, left_out])
        scores = np.concatenate([scores, score_of(left_out)])
        order = np.lexsort((rows, -scores))
        rows, scores = rows[order], scores[order]
    return Found(rows, scores, rows[np.isin(rows, named)], False, score_of)
