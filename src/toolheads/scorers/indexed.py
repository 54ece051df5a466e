"""A corpus whose rows lie in a vector index: the best tools without scoring them all.

The index and the shared words find candidates, which are scored again exactly, as
`scorers.exact` does. With an exact index what is found is proven to be the best: no tool that was
not scored can reach the last one that is returned, since its products are at most those at the end
of the index's lists, and what is added to them is known for every tool. This is the threshold
algorithm of Fagin et al. (2003), Optimal Aggregation Algorithms for Middleware, section 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolheads.arrays import Bools, Floats, Ids
from toolheads.errors import IndexStoreError
from toolheads.ports import VectorIndex
from toolheads.scorers.exact import (
    Doubles,
    QueryProjections,
    exact_parts,
    product_slack,
    weighed,
)
from toolheads.scorers.rank_fusion import best_first

_GATHERED_AT_ONCE = 4096
"""Rows that are taken from the index in one call."""

_FEW = 256
"""So many tools are scored without asking the index which of them are near."""

_DEEPER = 4
"""How many times as many rows the index is asked for when the last ones prove nothing."""


@dataclass(frozen=True)
class IndexedRows:
    """Which row of an index belongs to which tool of a corpus. Never changes."""

    keys: tuple[str, ...]
    """(u,) keys of rows, each once."""
    place_of: Mapping[str, int]
    """Key → its place in `keys`."""
    row_of: Ids
    """(n,) for each tool the place of its key; -1 for a tool without a row."""
    order: Ids
    """(n - missing,) the tools that have a row, by the place of their key, then by row."""
    bounds: Ids
    """(u + 1,) the tools of the key at place i are order[bounds[i]:bounds[i + 1]]."""
    longest: float
    """A bound of the length of any row."""
    mean: Floats | None = None
    """(d,) the mean row, which stands for those that are missing; None for zeros."""

    @classmethod
    def of(
        cls, keys: Sequence[str | None], longest: float, mean: Floats | None = None
    ) -> IndexedRows:
        """From the key of each of n tools, None where its row is not there yet."""
        places: dict[str, int] = {}
        row_of = np.fromiter(
            (-1 if key is None else places.setdefault(key, len(places)) for key in keys),
            np.int64,
            len(keys),
        )
        order = np.argsort(row_of, kind="stable")
        order = order[row_of[order] >= 0]
        bounds = np.searchsorted(row_of[order], np.arange(len(places) + 1))
        return cls(tuple(places), places, row_of, order, bounds, longest, mean)

    def __len__(self) -> int:
        return len(self.row_of)

    @property
    def missing(self) -> Ids:
        """Tools without a row, rising."""
        return np.flatnonzero(self.row_of < 0)

    def tools_of(self, keys: Iterable[str]) -> Ids:
        """The tools of these keys; a key of no tool is passed over."""
        places = np.array([self.place_of[key] for key in keys if key in self.place_of], np.int64)
        first, counts = self.bounds[places], self.bounds[places + 1] - self.bounds[places]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        tools: Ids = self.order[np.repeat(first, counts) + within]
        return tools


class IndexedSearch:
    """One search over a corpus: candidates from an index, scores that are exact.

    Args:
        index: Holds the rows; may hold others too.
        rows: Which of them belong to the corpus.
        queries: The projections of some queries.
        row: Which of these is searched for.
        added: (n,) what is added to the dense score of each tool; None for nothing.
        allowed: (n,) which tools may be found; None for all.
    """

    def __init__(
        self,
        index: VectorIndex,
        rows: IndexedRows,
        queries: QueryProjections,
        row: int,
        *,
        added: Doubles | None = None,
        allowed: Bools | None = None,
    ) -> None:
        self._index, self._rows = index, rows
        self._queries, self._row = queries, row
        self._added = np.zeros(len(rows)) if added is None else added
        may = np.ones(len(rows), np.bool_) if allowed is None else allowed
        self._open: Bools = may.copy()
        """Tools that may be found and are not scored yet."""
        self._scores: Doubles = np.full(len(rows), -np.inf)
        self._found = int(may.sum())

    def top(self, k: int, *, depth: int = 100) -> tuple[Ids, Doubles]:
        """The k best tools.

        Args:
            k: How many, >= 1.
            depth: How many rows the index is asked for at first.

        Returns:
            (min(k, allowed),) rows of tools and float64 scores, best first, ties by row.
        """
        k = min(k, self._found)
        if k == 0:
            return np.empty(0, np.int64), np.empty(0)
        self._score_missing()
        depth = max(depth, k)
        if int(self._open.sum()) <= max(depth, _FEW):
            self.score(np.flatnonzero(self._open))
        else:
            self.score(self._best_added(depth))
        while self._open.any():
            bound = self._score_found(depth)
            unscored = np.flatnonzero(self._open)
            done = best_first(self._scores, np.flatnonzero(self._scores > -np.inf), k)[1]
            is_full = len(done) == k
            if is_full and not self._index.is_exact:
                break
            if is_full:
                # The sum rounds on its own; a tool that ties with the last one counts.
                reach = self._added[unscored] + bound
                least = done[-1] - 1e-12 * max(1.0, abs(done[-1]), abs(bound))
                unscored = unscored[reach >= least]
                if len(unscored) <= depth:
                    self.score(unscored)
                    break
            if depth >= len(self._index):
                self.score(unscored)
                break
            depth *= _DEEPER
        return best_first(self._scores, np.flatnonzero(self._scores > -np.inf), k)

    def score(self, tools: Ids) -> Doubles:
        """(c,) float64 exact scores of some tools."""
        new = tools[self._scores[tools] == -np.inf]
        self._open[new] = False
        for start in range(0, len(new), _GATHERED_AT_ONCE):
            part = new[start : start + _GATHERED_AT_ONCE]
            own, inverse = np.unique(self._rows.row_of[part], return_inverse=True)
            keys = [self._rows.keys[i] for i in own.tolist()]
            parts = exact_parts(self._queries, self._row, self._gather(keys))
            dense = weighed(self._queries, *parts)
            self._scores[part] = dense[inverse] + self._added[part]
        return self._scores[tools]

    def _gather(self, keys: list[str]) -> Floats:
        try:
            return self._index.gather(keys)
        except KeyError as e:
            msg = f"the index must hold the rows of all tools, got none for key {e!s:.80}"
            raise IndexStoreError(msg) from e

    def _score_missing(self) -> None:
        """A tool without a row counts as the mean of the others."""
        missing = self._rows.missing
        if not len(missing):
            return
        mean = self._rows.mean
        dense = np.zeros(1)
        if mean is not None:
            dense = weighed(self._queries, *exact_parts(self._queries, self._row, mean[None]))
        wanted = missing[self._open[missing]]
        self._scores[wanted] = dense[0] + self._added[wanted]
        self._open[missing] = False

    def _best_added(self, count: int) -> Ids:
        """Tools that may be found for what is added to them alone, at most `count`."""
        candidates = np.flatnonzero(self._open & (self._added > 0))
        return best_first(self._added, candidates, count)[0]

    def _score_found(self, depth: int) -> float:
        """Score what the index finds; a bound of the dense score of all it does not find."""
        whole, clauses = self._queries.of(self._row)
        lists = self._index.search(np.concatenate([whole[None], clauses]), depth)
        found: list[Ids] = []
        ends: list[float] = []
        slack = product_slack(len(whole), self._rows.longest)
        for keys, products in lists:
            found.append(self._rows.tools_of(keys))
            # A list that holds every row leaves nothing out.
            ends.append(float(products[-1]) + slack if len(keys) == depth else -np.inf)
        tools = np.unique(np.concatenate(found))
        self.score(tools[self._open[tools]])
        weight = self._queries.clause_weight
        clause = max(ends[1:], default=ends[0])
        bound = self._queries.whole_weight * ends[0] if self._queries.whole_weight else 0.0
        return bound + (weight * clause if weight else 0.0)
