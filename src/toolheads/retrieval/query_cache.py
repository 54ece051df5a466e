"""Projections of queries that were asked before, bounded in entries and in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from toolheads.scorers.exact import QueryProjections

Key = tuple[str, str]
"""(scope, text)."""

_OVERHEAD_BYTES = 1000
"""Of the objects around the arrays of one entry, roughly."""


@dataclass(frozen=True)
class CacheSize:
    """How much a cache holds."""

    entries: int
    size_bytes: int


class QueryCache:
    """The queries used last, for each scope apart: what one caller asked tells no other.

    Safe to share between threads; its lock is held for moments.

    Args:
        entries: Most queries.
        size_bytes: Most bytes of their texts and vectors.
    """

    def __init__(self, *, entries: int, size_bytes: int) -> None:
        self._most, self._most_bytes = entries, size_bytes
        self._mutex = threading.Lock()
        self._entries: OrderedDict[Key, tuple[QueryProjections, int]] = OrderedDict()
        self._bytes = 0

    @property
    def size(self) -> CacheSize:
        """How much it holds."""
        return CacheSize(len(self._entries), self._bytes)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def find(self, key: Key) -> QueryProjections | None:
        """What is kept of a query; None if nothing is."""
        with self._mutex:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def keep(self, key: Key, queries: QueryProjections) -> None:
        """Keep the projections of one query, unless they are no vectors or fill all alone."""
        arrays = (queries.whole, queries.clauses)
        if not all(np.isfinite(array).all() for array in arrays):
            return
        texts = sum(len(part.encode("utf-8", "surrogatepass")) for part in key)
        size = _OVERHEAD_BYTES + texts + sum(array.nbytes for array in arrays)
        if size > self._most_bytes or not self._most:
            return
        with self._mutex:
            old = self._entries.pop(key, None)
            self._bytes += size - (old[1] if old else 0)
            self._entries[key] = queries, size
            while len(self._entries) > self._most or self._bytes > self._most_bytes:
                _, (_, gone) = self._entries.popitem(last=False)
                self._bytes -= gone

    def clear(self) -> None:
        """Forget all: other weights made them."""
        with self._mutex:
            self._entries.clear()
            self._bytes = 0
