"""All shards as one matrix of rows, without reading them. Knows no keys and no files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Floats, Ids, from_half, pieces
from toolheads.cache.precision import Stored, numpy_dtype, to_floats
from toolheads.errors import ShapeError


class StoredMatrix:
    """Rows of many arrays under one numbering; a row is read when it is asked for.

    Args:
        blocks: (first row, (n, d) stored values) of each array, in row order. Numbers between
            two blocks that no block has are rows that were lost; asking for one is an error.
        width: d.
        dtype: What the values are stored in.
    """

    def __init__(self, blocks: Sequence[tuple[int, Stored]], *, width: int, dtype: str) -> None:
        self._blocks, self._width, self.dtype = list(blocks), width, dtype
        self._starts = np.array([start for start, _ in blocks], np.int64)
        self._ends = np.array([start + len(rows) for start, rows in blocks], np.int64)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d); n is one more than the last row's number."""
        return int(self._ends[-1]) if len(self._ends) else 0, self._width

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: npt.ArrayLike) -> Floats:
        """(n, d) float32 of (n,) row numbers, or (d,) of one."""
        wanted = np.asarray(rows, np.int64)
        found = self.read(np.atleast_1d(wanted))
        return found[0] if wanted.ndim == 0 else found

    def read(self, rows: Ids, *, out: Floats | None = None) -> Floats:
        """Read rows, to an array at hand where there is one.

        Args:
            rows: (n,) row numbers.
            out: (n, d) float32; None makes it.

        Returns:
            `out`.

        Raises:
            ShapeError: If there is no such row, or it was lost.
        """
        out = np.empty((len(rows), self._width), np.float32) if out is None else out
        run = self._run(rows)
        for piece in pieces(len(rows), self._width):
            # What is copied on the way is still in the processor's cache when it is converted.
            stored = self.stored(rows[piece]) if run is None else run[piece]
            if self.dtype == "float16":
                from_half(stored, out=out[piece])
            else:
                out[piece] = to_floats(stored, self.dtype)
        return out

    def _run(self, rows: Ids) -> Stored | None:
        """Rows that follow each other in one array, where they lie; None if they do not.

        A corpus is read in the order in which it was stored most of the time.
        """
        if not len(rows) or not (np.diff(rows) == 1).all():
            return None
        block = int(np.searchsorted(self._ends, rows[0], side="right"))
        if block == len(self._ends) or rows[-1] >= self._ends[block]:
            return None
        start, values = self._blocks[block]
        first = int(rows[0]) - start
        return values[first : first + len(rows)] if first >= 0 else None

    def stored(self, rows: Ids) -> Stored:
        """(n, d) of (n,) row numbers, as they are stored; bfloat16 comes as uint16.

        Raises:
            ShapeError: If there is no such row, or it was lost.
        """
        block = np.searchsorted(self._ends, rows, side="right")  # (n,)
        known = block < len(self._ends)
        known[known] = self._starts[block[known]] <= rows[known]
        if not known.all():
            bad = np.flatnonzero(~known)
            msg = f"rows must be in the cache, got {bad.size} that are not, first {rows[bad[0]]}"
            raise ShapeError(msg)
        out = np.empty((len(rows), self._width), numpy_dtype(self.dtype))
        for number in np.flatnonzero(np.bincount(block)).tolist():
            start, values = self._blocks[number]
            places = np.flatnonzero(block == number)
            out[places] = values.take(rows[places] - start, axis=0)
        return out

    def blocks(self) -> Iterator[tuple[int, Stored]]:
        """(first row, (n, d) read-only stored values) of each array, to stream all of it."""
        yield from self._blocks
