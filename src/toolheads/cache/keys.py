"""Texts to keys, and keys to rows. Knows no files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Ids

Keys = npt.NDArray[np.uint8]
"""(n, 32) uint8: the sha256 of each text."""


def text_keys(texts: Sequence[str]) -> Keys:
    """(n, 32) uint8: the sha256 of each text in UTF-8.

    A lone surrogate, which UTF-8 has no form for, is written the way Python's `surrogatepass`
    writes it: it has a key of its own, and the encoder is the one to refuse it.
    """
    sha256 = hashlib.sha256
    digests = b"".join([sha256(t.encode("utf-8", "surrogatepass")).digest() for t in texts])
    return np.frombuffer(digests, np.uint8).reshape(len(texts), 32)


class KeyIndex:
    """Finds the row of a key among a fixed set of keys, by bisection of the sorted keys.

    For 330,000 keys as fast as a dict of byte strings, in a quarter of its memory.

    Args:
        keys: (n, 32) uint8. Of equal keys the first is found.
        rows: (n,) int64. What to return for each.
    """

    def __init__(self, keys: Keys, rows: Ids) -> None:
        strings = _strings(keys)
        order = np.argsort(strings, kind="stable")
        self._strings, self._rows = strings[order], rows[order]

    def find(self, keys: Keys) -> Ids:
        """(n,) int64 rows of (n, 32) uint8 keys, -1 for a key that is not there."""
        if not len(self._strings):
            return np.full(len(keys), -1, np.int64)
        wanted = _strings(keys)
        place = np.searchsorted(self._strings, wanted)
        place[place == len(self._strings)] = 0
        return np.where(self._strings[place] == wanted, self._rows[place], -1)


def first_of_equal(keys: Keys) -> Ids:
    """Row numbers, rising, of (n, 32) uint8 keys without those that came before."""
    _, first = np.unique(_strings(keys), return_index=True)
    return np.sort(first)


def _strings(keys: Keys) -> npt.NDArray[Any]:
    """The keys as byte strings: all of one length, so numpy's padding makes none equal."""
    return np.ascontiguousarray(keys).view("S32").reshape(len(keys))
