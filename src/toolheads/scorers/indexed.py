"""A corpus whose rows lie in a vector index: the best tools without scoring them all.

The index and the shared words find candidates, which are scored again exactly, as
`scorers.exact` does. With an exact index what is found is proven to be the best: no tool that was
not scored can reach the last one that is returned, since its products are at most those at the end
of the index's lists, and what is added to them is known for every tool. This is the threshold
algorithm of Fagin et al. (2003), Optimal Aggregation Algorithms for Middleware, section 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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

_NONE: Ids = np.empty(0, np.int64)

_MARGIN = 16
"""Rows beyond those wanted, so that ties and rounding seldom need a second look."""

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
    missing: Ids = field(default_factory=lambda: np.empty(0, np.int64))
    """Tools without a row, rising."""
    are_apart: bool = False
    """Whether every row is of one tool."""

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
        missing = np.flatnonzero(row_of < 0)
        are_apart = len(order) == len(places)
        return cls(tuple(places), places, row_of, order, bounds, longest, mean, missing, are_apart)

    def __len__(self) -> int:
        return len(self.row_of)

    def tools_of(self, keys: Iterable[str]) -> Ids:
        """The tools of these keys; a key of no tool is passed over."""
        place_of = self.place_of
        places = np.array([place_of[key] for key in keys if key in place_of], np.int64)
        if self.are_apart:
            return self.order[places]
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
        self._added = added
        self._open: Bools = np.ones(len(rows), np.bool_) if allowed is None else allowed.copy()
        """Tools that may be found and are not scored yet."""
        self._left = len(rows) if allowed is None else int(np.count_nonzero(allowed))
        """How many these are."""
        self._scores: Doubles = np.full(len(rows), -np.inf)
        self._scored: list[Ids] = []
        """Tools that are scored, in parts without a tool in two."""
        self._found = self._left

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
        depth = max(self._first_depth(k, depth), k)
        if self._left <= max(depth, _FEW):
            self.score(np.flatnonzero(self._open))
        elif self._added is not None:
            self.score(self._best_added(self._added, depth))
        while self._left:
            bound = self._score_found(depth)
            done = self._best(k)
            if len(done[0]) == k:
                near = self._within_reach(bound, float(done[1][-1]))
                if not len(near):
                    return done
                if len(near) <= depth:
                    self.score(near)
                    break
            if depth >= len(self._index):
                self.score(np.flatnonzero(self._open))
                break
            depth *= _DEEPER
        return self._best(k)

    def score(self, tools: Ids) -> Doubles:
        """(c,) float64 exact scores of some tools."""
        new = tools[self._scores[tools] == -np.inf]
        if not len(new):
            return self._scores[tools]
        self._count(new)
        for start in range(0, len(new), _GATHERED_AT_ONCE):
            part = new[start : start + _GATHERED_AT_ONCE]
            own, inverse = self._rows.row_of[part], None
            if not self._rows.are_apart:
                own, inverse = np.unique(own, return_inverse=True)
            keys = self._rows.keys
            rows = self._gather([keys[i] for i in own.tolist()])
            dense = weighed(self._queries, *exact_parts(self._queries, self._row, rows))
            if inverse is not None:
                dense = dense[inverse]
            self._scores[part] = dense if self._added is None else dense + self._added[part]
        return self._scores[tools]

    def _first_depth(self, k: int, depth: int) -> int:
        """A list of the very products that count proves itself a little beyond k."""
        _, clauses = self._queries.of(self._row)
        is_one = self._added is None and not (len(clauses) and self._queries.clause_weight)
        return min(depth, k + _MARGIN) if is_one and self._index.is_exact else depth

    def _count(self, tools: Ids) -> None:
        """These are about to be scored."""
        self._left -= int(np.count_nonzero(self._open[tools]))
        self._open[tools] = False
        self._scored.append(tools)

    def _best(self, k: int) -> tuple[Ids, Doubles]:
        """The k best of those that are scored."""
        return best_first(self._scores, np.concatenate([_NONE, *self._scored]), k)

    def _within_reach(self, bound: float, last: float) -> Ids:
        """Tools that are not scored and may be better than the last of the best.

        Args:
            bound: What their dense scores are at most.
            last: The score of the last.
        """
        if not self._index.is_exact:
            return _NONE
        # The sum rounds on its own; a tool that ties with the last one counts.
        least = last - 1e-12 * max(1.0, abs(last), abs(bound))
        if self._added is None:
            return np.flatnonzero(self._open) if bound >= least else _NONE
        return np.flatnonzero(self._open & (self._added + bound >= least))

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
        dense = 0.0
        if mean is not None:
            parts = exact_parts(self._queries, self._row, mean[None])
            dense = float(weighed(self._queries, *parts)[0])
        wanted = missing[self._open[missing]]
        self._count(wanted)
        self._scores[wanted] = dense if self._added is None else dense + self._added[wanted]

    def _best_added(self, added: Doubles, count: int) -> Ids:
        """Tools that may be found for what is added to them alone, at most `count`."""
        return best_first(added, np.flatnonzero(self._open & (added > 0)), count)[0]

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
        tools = found[0] if len(found) == 1 else np.unique(np.concatenate(found))
        self.score(tools[self._open[tools]])
        weight = self._queries.clause_weight
        clause = max(ends[1:], default=ends[0])
        bound = self._queries.whole_weight * ends[0] if self._queries.whole_weight else 0.0
        return bound + (weight * clause if weight else 0.0)
