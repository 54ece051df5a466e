"""Rows of a corpus that are too many for memory: in a file without a name, mapped."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterable

import numpy as np

from toolheads.arrays import Floats

HELD_BYTES = 1 << 30
"""Rows that take more are kept in a file."""


def collected(count: int, width: int, parts: Iterable[Floats]) -> Floats:
    """(n, e) float32, all rows of parts that come one by one.

    Args:
        count: n.
        width: e.
        parts: (m, e) float32 each, n rows together.

    Returns:
        In memory up to `HELD_BYTES`, else mapped from a file in the folder for temporary files,
        which is gone with the array.
    """
    rows: Floats
    if 4 * count * width > HELD_BYTES:
        with tempfile.TemporaryFile(prefix="toolheads-rows") as file:
            rows = np.memmap(file, np.float32, "w+", shape=(count, width))
    else:
        rows = np.empty((count, width), np.float32)
    start = 0
    for part in parts:
        rows[start : start + len(part)] = part
        start += len(part)
        let_go(rows)
    return rows


def let_go(rows: Floats) -> None:
    """Give the memory of rows that are mapped back to the system; they are read again if needed."""
    base = rows
    while isinstance(base, np.ndarray):
        base = base.base  # type: ignore[assignment]
    # Not there on every system, and only a matter of memory.
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)
