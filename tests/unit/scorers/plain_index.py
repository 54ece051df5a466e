"""Vector indexes in a dict: an exact one, and one that misses every other row."""

from __future__ import annotations

import numpy as np


class PlainIndex:
    """Keeps the contract of `toolheads.ports.VectorIndex` in memory.

    Attributes:
        written: Keys in the order they were added, repeats included.
        depths: The k of each search.
    """

    is_exact = is_at_hand = True

    def __init__(self, width):
        self.width = width
        self.rows = {}
        self.written = []
        self.depths = []

    def __len__(self):
        return len(self.rows)

    def keys(self):
        return frozenset(self.rows)

    def apply(self, keys, rows, removed=()):
        for key in set(removed) - set(keys):
            self.rows.pop(key, None)
        for key, row in zip(keys, rows, strict=True):
            self.written.append(key)
            self.rows[key] = row.copy()

    def search(self, queries, k):
        self.depths.append(k)
        return [self._found(query, k) for query in queries]

    def gather(self, keys):
        return np.array([self.rows[key] for key in keys]).reshape(-1, self.width)

    def close(self):
        pass

    def _found(self, query, k):
        products = {key: np.float32(row @ query) for key, row in self.seen().items()}
        best = sorted(products, key=lambda key: (-products[key], key))[:k]
        return best, np.array([products[key] for key in best], np.float32)

    def seen(self):
        return self.rows


class HalfBlindIndex(PlainIndex):
    """Approximate: finds every other row only."""

    is_exact = False

    def seen(self):
        return {key: self.rows[key] for key in sorted(self.rows)[::2]}
