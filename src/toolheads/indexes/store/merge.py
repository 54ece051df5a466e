"""When segments are merged, and how: many small ones, and those whose rows are mostly dead."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolheads.indexes.precision import StoredRows
from toolheads.indexes.snapshot import Part, Segment

MOST_SEGMENTS = 32
"""A search pays some microseconds for each segment."""

_SMALL_ROWS = 8192
_LEAST_DEAD = 1024


def to_merge(parts: Sequence[Part]) -> list[Part]:
    """Parts to be merged into one; none when it is not worth it yet."""
    dead = sum(len(part.dead) for part in parts)
    alive = sum(part.alive for part in parts)
    many = len(parts) > MOST_SEGMENTS
    if not many and dead <= max(_LEAST_DEAD, alive):
        return []
    chosen = [
        part
        for part in parts
        if len(part.dead) > part.alive or (many and len(part.segment.keys) < _SMALL_ROWS)
    ]
    return chosen if len(parts) - len(chosen) < MOST_SEGMENTS else list(parts)


def merged(parts: Sequence[Part]) -> Segment:
    """The rows of parts that are not dead as one segment, as they are stored."""
    kept = [
        np.array([row for row in range(len(part.segment.keys)) if row not in part.dead], np.int64)
        for part in parts
    ]
    pairs = list(zip(parts, kept, strict=True))
    keys = [part.segment.keys[row] for part, rows in pairs for row in rows.tolist()]
    values = np.concatenate([part.segment.rows.values[rows] for part, rows in pairs])
    scales = [part.segment.rows.scales for part in parts]
    joined = None
    if all(s is not None for s in scales):
        joined = np.concatenate(
            [s[rows] for s, rows in zip(scales, kept, strict=True) if s is not None]
        )
    longest = max(part.segment.longest for part in parts)
    return Segment(tuple(keys), StoredRows(values, joined), longest)
