"""The outline of all lines: which are tools, which ids came before, which rows are wanted.

Holds some 80 bytes for each line, and knows neither texts nor vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from toolheads.arrays import Ids
from toolheads.cache.keys import KeyIndex, Keys, first_of_equal
from toolheads.jobs.distributed.reading import piece_and_number
from toolheads.jobs.inputs import Piece

_NO_KEYS = np.empty((0, 32), np.uint8)


class Outline:
    """Collects the tables of `OutlineColumns`, which come in any order, and settles them.

    Args:
        pieces: How many there are.

    Attributes:
        seen: Lines so far.
        lines: (pieces,) lines of each piece, blank ones included.
        bad: (b,) positions of lines that are no tool, or whose id was there before, rising.
        tools: (t,) positions of the other lines, rising.
        keys: (t, 32) their keys.
        first: (r,) which of them are the first of their key, rising.
        missing: (t,) whether a vector was not in the cache.
    """

    def __init__(self, pieces: int) -> None:
        self.seen = 0
        self.lines = np.zeros(pieces, np.int64)
        self._bad: list[Ids] = [np.empty(0, np.int64)]
        self._positions: list[Ids] = [np.empty(0, np.int64)]
        self._ids: list[Keys] = [_NO_KEYS]
        self._keys: list[Keys] = [_NO_KEYS]
        self._missing: list[Any] = [np.empty(0, np.bool_)]

    def add(self, table: Any) -> None:
        """Take in a table of lines."""
        positions = table["position"].to_numpy()
        is_count = table["lines"].is_valid().to_numpy()
        pieces, _ = piece_and_number(positions[is_count])
        self.lines[pieces] = table["lines"].drop_null().to_numpy()
        is_tool = table["id"].is_valid().to_numpy()
        self.seen += int((~is_count).sum())
        self._bad.append(positions[~is_tool & ~is_count])
        self._positions.append(positions[is_tool])
        for name, digests in (("id", self._ids), ("key", self._keys)):
            raw = b"".join(table[name].drop_null().to_pylist())
            digests.append(np.frombuffer(raw, np.uint8).reshape(-1, 32))
        self._missing.append(table["is_missing"].drop_null().to_numpy())

    def settle(self) -> None:
        """Put the lines in order: of an id the first line counts, as of a key."""
        positions = np.concatenate(self._positions)
        order = np.argsort(positions)
        positions = positions[order]
        ids, keys = (np.concatenate(d)[order] for d in (self._ids, self._keys))
        self._positions, self._ids, self._keys = [], [], []
        kept = first_of_equal(ids)
        is_again = np.ones(len(positions), np.bool_)
        is_again[kept] = False
        self.bad = np.sort(np.concatenate([*self._bad, positions[is_again]]))
        self.tools, self.keys = positions[kept], keys[kept]
        self.missing = np.concatenate(self._missing)[order][kept]
        self.first = first_of_equal(self.keys)

    def of_keys(self, keys: Keys) -> Ids:
        """(m,) which tools have one of (k, 32) keys."""
        found = KeyIndex(keys, np.arange(len(keys), dtype=np.int64)).find(self.keys)
        return np.flatnonzero(found >= 0)

    def drop(self, tools: Ids) -> None:
        """Leave tools out; their lines count as bad from now on."""
        self.bad = np.sort(np.concatenate([self.bad, self.tools[tools]]))
        self.tools, self.keys = np.delete(self.tools, tools), np.delete(self.keys, tools, axis=0)
        self.missing = np.delete(self.missing, tools)
        self.first = first_of_equal(self.keys)

    def lines_before(self, pieces: Sequence[Piece]) -> list[int]:
        """Lines that stand before each piece in its file."""
        before: list[int] = []
        lines = 0
        for piece, count in zip(pieces, self.lines.tolist(), strict=True):
            lines = lines if piece.start else 0
            before.append(lines)
            lines += count
        return before
