"""The best tools of queries, found tile by tile: never more scores at once than fit a tile.

A product finds candidates, with its worst rounding error as slack, and these are scored again, one
by one in float64. What comes out is a function of one query and one tool: it does not depend on the
size of the tiles, on what multiplied, or on how many queries were asked at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Floats, Ids

Doubles = npt.NDArray[np.float64]

TILE_ENTRIES = 1 << 24
"""Scores that are held at once; 64 MB in float32."""

_MOST_QUERIES = 256
"""Of one tile: more would make tiles of few tools."""

_EPS = float(np.finfo(np.float32).eps)


class Scored(Protocol):
    """q queries against n tools."""

    def __len__(self) -> int:
        """How many queries: q."""
        ...

    @property
    def tools(self) -> int:
        """How many tools: n."""
        ...

    @property
    def has_more(self) -> bool:
        """Whether `begin` makes (b, n) numbers, which then count among those of a tile."""
        ...

    def vectors(self, rows: slice) -> int:
        """How many vectors the queries of some rows are: they and their clauses."""
        ...

    def begin(self, rows: slice) -> None:
        """Told which queries are asked for next, before their tiles."""
        ...

    def approximate(self, rows: slice, tile: slice) -> Floats:
        """(b, t) float32 scores of the queries for some tools, within `slack` of the exact ones."""
        ...

    def slack(self, row: int) -> float:
        """What a tool that is in truth no worse than another may lie below it."""
        ...

    def exact(self, row: int, candidates: Ids) -> Doubles:
        """(c,) scores of one query for some tools; each depends on its tool alone."""
        ...


def best(
    scored: Scored, k: int, *, above: Sequence[float] | None = None, tile_entries: int | None = None
) -> Iterator[tuple[Ids, Doubles]]:
    """Find the best tools for each query.

    Args:
        scored: Queries and tools.
        k: How many, >= 1.
        above: For each query a score; tools that score more are given besides the k best.
        tile_entries: Scores that are held at once; None is `TILE_ENTRIES`.

    Yields:
        For each query rows of tools and their scores in float64, best first, ties by row.
    """
    entries = tile_entries or TILE_ENTRIES
    n = scored.tools
    for rows in _blocks(scored, entries):
        scored.begin(rows)
        step = max(1, entries // max(1, scored.vectors(rows)))
        kept = [_Kept(min(k, n), scored.slack(row)) for row in range(rows.start, rows.stop)]
        if above is not None:
            for one, score in zip(kept, above[rows], strict=True):
                one.keep_above(score)
        for start in range(0, n, step):
            tile = slice(start, min(start + step, n))
            found = scored.approximate(rows, tile)
            for one, scores in zip(kept, found, strict=True):
                one.take(start, scores)
        for row, one in zip(range(rows.start, rows.stop), kept, strict=True):
            candidates = one.candidates()
            exact = scored.exact(row, candidates)
            order = np.argsort(-exact, kind="stable")
            count = k
            if above is not None:
                count = max(k, int(np.count_nonzero(exact > above[row])))
            yield candidates[order[:count]], exact[order[:count]]


class MeanScored:
    """The mean of several scores of the same queries for the same tools. See `Scored`."""

    def __init__(self, members: Sequence[Scored]) -> None:
        """Take at least one."""
        self._members = list(members)

    def __len__(self) -> int:
        return len(self._members[0])

    @property
    def tools(self) -> int:
        """See `Scored`."""
        return self._members[0].tools

    @property
    def has_more(self) -> bool:
        """See `Scored`."""
        return any(member.has_more for member in self._members)

    def vectors(self, rows: slice) -> int:
        """See `Scored`."""
        most: int = max(member.vectors(rows) for member in self._members)
        return most + int(rows.stop) - int(rows.start)

    def begin(self, rows: slice) -> None:
        """See `Scored`."""
        for member in self._members:
            member.begin(rows)

    def approximate(self, rows: slice, tile: slice) -> Floats:
        """See `Scored`."""
        total = self._members[0].approximate(rows, tile)
        for member in self._members[1:]:
            total += member.approximate(rows, tile)
        total /= np.float32(len(self._members))
        return total

    def slack(self, row: int) -> float:
        """See `Scored`."""
        slacks = [member.slack(row) for member in self._members]
        # Sums and the division round on their own; scores are of the size of a length or two.
        return sum(slacks) / len(slacks) + 8 * len(slacks) * _EPS

    def exact(self, row: int, candidates: Ids) -> Doubles:
        """See `Scored`."""
        total = self._members[0].exact(row, candidates)
        for member in self._members[1:]:
            total = total + member.exact(row, candidates)
        mean: Doubles = total / len(self._members)
        return mean


def _blocks(scored: Scored, entries: int) -> Iterator[slice]:
    """Runs of queries that are asked together."""
    most = _MOST_QUERIES
    if scored.has_more:
        most = max(1, min(most, entries // max(1, scored.tools)))
    start = 0
    for row in range(1, len(scored) + 1):
        ahead = slice(start, min(row + 1, len(scored)))
        if row == len(scored) or scored.vectors(ahead) > most:
            yield slice(start, row)
            start = row


class _Kept:
    """The candidates of one query among the tiles so far: the k best, and what may be as good."""

    def __init__(self, k: int, slack: float) -> None:
        self._k, self._slack = k, slack
        self._rows: list[Ids] = []
        self._scores: list[Floats] = []
        self._count = 0
        self._largest = 0.0
        self._floor, self._ceiling = -np.inf, np.inf
        """Scores below the floor are none of the k best; none above the ceiling is left out."""

    def keep_above(self, score: float) -> None:
        """Keep all tools that may score more."""
        self._ceiling = score

    def take(self, start: int, scores: Floats) -> None:
        """Add (t,) scores of the tools from `start` on."""
        high, low = scores.max(initial=0.0), scores.min(initial=0.0)
        self._largest = max(self._largest, float(high), -float(low))
        places = np.flatnonzero(scores >= min(self._floor, self._ceiling - self._reach))
        self._rows.append(places + start)
        self._scores.append(scores[places])
        self._count += len(places)
        if self._count > max(4 * self._k, 1024):
            self._prune()

    def candidates(self) -> Ids:
        """Rows, rising, that hold the k best."""
        self._prune()
        return self._rows[0]

    @property
    def _reach(self) -> float:
        # Sums with what is added round as well.
        return self._slack + 2 * _EPS * self._largest

    def _prune(self) -> None:
        rows = np.concatenate([np.empty(0, np.int64), *self._rows])
        scores = np.concatenate([np.empty(0, np.float32), *self._scores])
        if len(scores) > self._k:
            last = len(scores) - self._k
            self._floor = float(np.partition(scores, last)[last]) - self._reach
            is_kept = scores >= min(self._floor, self._ceiling - self._reach)
            rows, scores = rows[is_kept], scores[is_kept]
        self._rows, self._scores, self._count = [rows], [scores], len(rows)
