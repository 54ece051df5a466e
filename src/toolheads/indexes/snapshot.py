"""All rows of one moment, never changed: what a search looks at while others are added.

Rows lie in segments, which are never changed either. A row that was removed is marked dead in the
snapshots that come after.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from toolheads.arrays import Bools, Floats, Ids
from toolheads.indexes.precision import StoredRows
from toolheads.indexes.scan import (
    approximate,
    best_first,
    candidates,
    exact_scores,
    groups,
    rows_of_a_block,
    slack_of,
)


@dataclass(frozen=True, eq=False)
class Segment:
    """Rows that were added together.

    Attributes:
        keys: n keys.
        rows: n rows as they are stored.
        longest: Length of the longest row.
        file: Name of its file; empty in memory.
    """

    keys: tuple[str, ...]
    rows: StoredRows
    longest: float
    file: str = ""

    @cached_property
    def places(self) -> dict[str, int]:
        """Key → row."""
        return {key: row for row, key in enumerate(self.keys)}


@dataclass(frozen=True, eq=False)
class Part:
    """A segment, and which of its rows are dead."""

    segment: Segment
    dead: frozenset[int] = frozenset()

    @property
    def alive(self) -> int:
        """How many rows are not dead."""
        return len(self.segment.keys) - len(self.dead)

    def without(self, keys: Collection[str]) -> Part:
        """The same with more rows dead."""
        places = self.segment.places
        dead = {places[key] for key in keys if key in places} - self.dead
        return Part(self.segment, self.dead | dead) if dead else self


class Snapshot:
    """Rows of one moment under one numbering, from 0, dead ones included.

    Args:
        parts: Segments in the order of the numbering; no key is alive in two of them.
        width: d.
    """

    def __init__(self, parts: Iterable[Part], width: int) -> None:
        self.parts, self.width = tuple(parts), width
        sizes = [len(part.segment.keys) for part in self.parts]
        self._ends: Ids = np.cumsum(sizes, dtype=np.int64)
        self._starts: Ids = self._ends - sizes
        self._alive_rows = sum(part.alive for part in self.parts)

    def __len__(self) -> int:
        return self._alive_rows

    def __contains__(self, key: str) -> bool:
        return self.find(key) is not None

    @property
    def longest(self) -> float:
        """Length of the longest row; 0 when there is none."""
        return max((part.segment.longest for part in self.parts), default=0.0)

    def keys(self) -> frozenset[str]:
        """Keys of all rows that are not dead."""
        return frozenset(self._keys())

    def find(self, key: str) -> int | None:
        """Number of the row of a key; None if there is none."""
        start = 0
        for part in self.parts:
            row = part.segment.places.get(key)
            if row is not None and row not in part.dead:
                return start + row
            start += len(part.segment.keys)
        return None

    def keys_of(self, rows: Ids) -> list[str]:
        """Keys of (n,) row numbers."""
        if len(self.parts) == 1:
            own = self.parts[0].segment.keys
            return [own[row] for row in rows.tolist()]
        numbers = np.searchsorted(self._ends, rows, side="right")
        places = rows - self._starts[numbers]
        keys = [part.segment.keys for part in self.parts]
        return [keys[n][row] for n, row in zip(numbers.tolist(), places.tolist(), strict=True)]

    def floats(self, rows: Ids) -> Floats:
        """(n, d) float32 of (n,) row numbers."""
        if len(self.parts) == 1:
            return self.parts[0].segment.rows.floats(rows)
        out = np.empty((len(rows), self.width), np.float32)
        numbers = np.searchsorted(self._ends, rows, side="right")
        for number in np.unique(numbers):
            segment = self.parts[number].segment
            places = np.flatnonzero(numbers == number)
            out[places] = segment.rows.floats(rows[places] - self._starts[number])
        return out

    def gather(self, keys: Sequence[str]) -> Floats:
        """(n, d) float32 rows of n keys.

        Raises:
            KeyError: If a key is not there.
        """
        if len(self.parts) == 1 and not self.parts[0].dead:
            places = self.parts[0].segment.places
            return self.floats(np.array([places[key] for key in keys], np.int64))
        found = [self.find(key) for key in keys]
        rows = [row for row in found if row is not None]
        if len(rows) < len(found):
            raise KeyError(keys[found.index(None)])
        return self.floats(np.array(rows, np.int64))

    def changed(self, added: Segment | None, removed: Collection[str]) -> Snapshot:
        """The snapshot after rows are removed and then a segment is added."""
        parts = [part.without(removed) for part in self.parts] if removed else list(self.parts)
        parts = [part for part in parts if part.alive]
        return Snapshot([*parts, Part(added)] if added else parts, self.width)

    def slack(self, query: Floats) -> float:
        """See `toolheads.indexes.scan.slack_of`."""
        return slack_of(self.width, self.longest, query)

    def score(self, query: Floats, rows: Ids, k: int) -> tuple[list[str], Floats]:
        """The k best of some rows for one (d,) query."""
        at_once = rows_of_a_block(self.width)
        blocks = [rows[start : start + at_once] for start in range(0, len(rows), at_once)]
        scores = [exact_scores(query, self.floats(block)) for block in blocks]
        joined = np.concatenate([np.empty(0, np.float32), *scores])
        return best_first(self.keys_of(rows), joined, k)

    def search(self, queries: Floats, k: int) -> list[tuple[list[str], Floats]]:
        """See `toolheads.ports.VectorIndex.search`."""
        k = min(k, len(self))
        if not k:
            return [([], np.empty(0, np.float32)) for _ in queries]
        stored, alive = [part.segment.rows for part in self.parts], self._alive
        found = []
        for group in groups(len(queries), int(self._ends[-1])):
            products = approximate(queries[group], stored)  # (b, n)
            for query, of_query in zip(queries[group], products, strict=True):
                near = candidates(of_query, k, self.slack(query), alive)
                found.append(self.score(query, near, k))
        return found

    @cached_property
    def _alive(self) -> Bools | None:
        """(n,) which rows are not dead; None where all are."""
        if not any(part.dead for part in self.parts):
            return None
        alive = np.ones(int(self._ends[-1]), np.bool_)
        start = 0
        for part in self.parts:
            alive[[start + row for row in part.dead]] = False
            start += len(part.segment.keys)
        return alive

    def _keys(self) -> Iterator[str]:
        for part in self.parts:
            if part.dead:
                yield from (k for i, k in enumerate(part.segment.keys) if i not in part.dead)
            else:
                yield from part.segment.keys
