"""Exact search with numpy alone, in memory or over a mapped folder."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from toolheads.arrays import Floats
from toolheads.indexes.checks import checked_keys, checked_queries
from toolheads.indexes.store import RowStore


class NumpyIndex:
    """Scans all rows. See `toolheads.ports.VectorIndex`. Exact, safe to share between threads.

    Opening a folder maps its rows and reads only their keys; the first search reads the rows and
    compares them with the digests that they were written with. Rows in float16 and int8 are
    converted block by block. Several processes may share a folder: one writes at a time, the
    others see its rows after `refresh`. Products are numpy's, in as many threads as its BLAS likes:
    see `toolheads.indexes.limit_blas_threads`.

    Args:
        space: See `toolheads.indexes.keys.space_of`.
        width: d.
        folder: Where rows are kept; None keeps them in memory.
        dtype: What rows are stored in: `float32`, `float16`, or `int8` with a scale for each row.

    Raises:
        ConfigError: If a setting breaks its rule, or the space has rows of another width.
        IndexStoreError: If the folder cannot be read.
    """

    def __init__(
        self,
        *,
        space: str,
        width: int,
        folder: str | Path | None = None,
        dtype: str = "float32",
    ) -> None:
        place = Path(folder) if folder is not None else None
        self._store = RowStore(place, space=space, width=width, dtype=dtype)

    @property
    def width(self) -> int:
        """See `toolheads.ports.VectorIndex`."""
        return self._store.width

    @property
    def is_exact(self) -> bool:
        """Always."""
        return True

    @property
    def is_at_hand(self) -> bool:
        """Once the rows have been read and checked."""
        return self._store.is_checked

    @property
    def faults(self) -> tuple[str, ...]:
        """What was found damaged since the index was opened, and left out; one line for each."""
        return self._store.faults

    def __len__(self) -> int:
        return len(self._store.snapshot)

    def keys(self) -> frozenset[str]:
        """See `toolheads.ports.VectorIndex`."""
        return self._store.snapshot.keys()

    def apply(self, keys: Sequence[str], rows: Floats, removed: Collection[str] = ()) -> None:
        """See `toolheads.ports.VectorIndex`. A key in both is kept."""
        self._store.apply(keys, rows, removed)

    def search(self, queries: Floats, k: int) -> list[tuple[list[str], Floats]]:
        """See `toolheads.ports.VectorIndex`."""
        floats, count = checked_queries(queries, k, width=self.width)
        return self._store.checked().search(floats, count)

    def gather(self, keys: Sequence[str]) -> Floats:
        """See `toolheads.ports.VectorIndex`."""
        rows = self._store.checked()
        try:
            return rows.gather(keys)
        except (KeyError, TypeError):  # checked before, they would cost more than to be found
            checked_keys(keys, "keys")
            raise

    def refresh(self) -> None:
        """Take over what another process wrote.

        Raises:
            IndexStoreError: If the folder cannot be read.
        """
        self._store.refresh()

    def verify(self) -> tuple[str, ...]:
        """Read every row and compare it with what was written; leave out what is damaged.

        Returns:
            A line for each damaged segment.

        Raises:
            IndexStoreError: If a file cannot be read.
        """
        return self._store.verify()

    def close(self) -> None:
        """See `toolheads.ports.VectorIndex`."""
        self._store.close()
