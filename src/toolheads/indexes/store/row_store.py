"""Rows under keys, in memory or in a folder: one snapshot at a time, swapped whole."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from toolheads.arrays import Floats
from toolheads.errors import IndexStoreError
from toolheads.indexes.checks import (
    check_at_least,
    check_choice,
    check_space,
    checked_keys,
    checked_rows,
    closed_error,
)
from toolheads.indexes.precision import DTYPES, to_stored
from toolheads.indexes.scan import lengths
from toolheads.indexes.snapshot import Part, Segment, Snapshot
from toolheads.indexes.store.folder import Folder
from toolheads.indexes.store.merge import merged, to_merge

_logger = logging.getLogger(__name__)


class RowStore:
    """Holds the rows of one space. Reads are from any thread and take no lock.

    Args:
        folder: Where the rows of all spaces are; None keeps them in memory.
        space: See `toolheads.indexes.keys.space_of`.
        width: d.
        dtype: `float32`, `float16` or `int8`.

    Attributes:
        path: The folder of this space and dtype; None in memory.

    Raises:
        ConfigError: If a setting breaks its rule, or the space has rows of another width.
        IndexStoreError: If the folder cannot be read.
    """

    def __init__(self, folder: Path | None, *, space: str, width: int, dtype: str) -> None:
        self.space, self.width = check_space(space), check_at_least(1, width, "width")
        self.dtype = check_choice(dtype, DTYPES, "dtype")
        self.path = Path(folder) / space / dtype if folder is not None else None
        self._folder = (
            Folder(self.path, space=space, width=self.width, dtype=dtype) if self.path else None
        )
        self._writing = threading.RLock()
        self._now: Snapshot | None = self._folder.read() if self._folder else Snapshot([], width)

    @property
    def snapshot(self) -> Snapshot:
        """All rows as they are now."""
        if self._now is None:
            raise closed_error("index")
        return self._now

    @property
    def faults(self) -> tuple[str, ...]:
        """What was found damaged since the index was opened, and left out; one line for each."""
        return tuple(self._folder.faults) if self._folder else ()

    @property
    def is_checked(self) -> bool:
        """Whether all rows were read and checked in this process, or made in it."""
        return self._folder is None or self._folder.has_checked(self.snapshot.parts)

    def checked(self) -> Snapshot:
        """All rows, after those that were not yet read in this process are read and checked.

        Raises:
            IndexStoreError: If some are damaged. They are left out from then on.
        """
        snapshot = self.snapshot
        if self._folder and self._drop(snapshot.parts):
            msg = (
                f"index folder {self.path} must hold what was written, got "
                f"{self._folder.faults[-1]}; add the rows that are missing again"
            )
            raise IndexStoreError(msg)
        return snapshot

    def verify(self) -> tuple[str, ...]:
        """Read every row and compare with what was written; leave out what is damaged.

        Returns:
            A line for each damaged segment.

        Raises:
            IndexStoreError: If a file cannot be read.
        """
        if self._folder is None:
            return ()
        known = len(self.faults)
        self._drop(self.snapshot.parts, again=True)
        return self.faults[known:]

    def refresh(self) -> Snapshot:
        """Take over what another process wrote.

        Raises:
            IndexStoreError: If the folder cannot be read.
        """
        if self._folder and self._folder.is_stale:
            with self._writing:
                self._swap(self._folder.read())
        return self.snapshot

    def apply(self, keys: Sequence[str], rows: Floats, removed: Collection[str] = ()) -> Snapshot:
        """Add rows whose keys are not there, and remove others. See `toolheads.ports.VectorIndex`.

        A key that is in both is kept.

        Returns:
            The rows after it.
        """
        listed, floats = checked_rows(keys, rows, width=self.width)
        gone = set(checked_keys(removed, "removed")).difference(listed)
        with self.held():
            if self._folder and self._folder.is_stale:
                self._swap(self._folder.read())
            before = self.snapshot
            fresh = [i for i, key in enumerate(listed) if key not in before]
            gone = {key for key in gone if key in before}
            if len(fresh) < len(listed):
                listed, floats = [listed[i] for i in fresh], floats[fresh]
            added = self._segment(listed, floats) if fresh else None
            if added or gone or (self._folder and self._folder.lists_damage):
                self._swap(self._stored(before, added, gone))
                self._merge()
            return self.snapshot

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the store for writing: no other thread or process changes it.

        Raises:
            IndexStoreError: If the folder cannot be held or written.
        """
        with self._writing:
            if self._folder is None:
                yield
            else:
                with self._folder.locked():
                    yield

    def close(self) -> None:
        """Let go of all rows. A search that is under way ends as it began."""
        self._now = None

    def _segment(self, keys: list[str], floats: Floats) -> Segment:
        """Rows as they are stored; takes over the array."""
        stored = to_stored(floats, self.dtype)
        longest = float(lengths(stored.floats(slice(None))).max(initial=0.0))
        return Segment(tuple(keys), stored, longest)

    def _stored(self, before: Snapshot, added: Segment | None, gone: Collection[str]) -> Snapshot:
        """The snapshot after a change, once it is on the disk."""
        if self._folder is None:
            return before.changed(added, gone)
        written = self._folder.add(added) if added else None
        try:
            after = before.changed(written, gone)
            self._folder.write(after)
        except BaseException:
            if written:
                self._folder.forget(written)
            raise
        return after

    def _merge(self) -> None:
        """Merge segments when there are many, or many dead rows. Searches go on meanwhile."""
        before = self.snapshot
        chosen = to_merge(before.parts)
        if not chosen:
            return
        try:
            if self._folder and self._drop(chosen):
                return
            gone = {key for part in chosen for key in _alive_keys(part)}
            one = merged(chosen) if gone else None
            self._swap(self._stored(before, one, gone))
        except OSError as e:  # what was asked for is done; this can wait
            _logger.warning("segments of index %s were not merged: %s", self.path, e)

    def _drop(self, parts: Collection[Part], *, again: bool = False) -> bool:
        """Leave out damaged ones among some segments; whether there were any."""
        if self._folder is None:
            return False
        faults = self._folder.damaged(parts, again=again)
        if faults:
            with self._writing:
                self._folder.drop(faults)
                kept = [part for part in self.snapshot.parts if part.segment.file not in faults]
                self._swap(Snapshot(kept, self.width))
        return bool(faults)

    def _swap(self, snapshot: Snapshot) -> None:
        if self._now is None:
            raise closed_error("index")
        self._now = snapshot


def _alive_keys(part: Part) -> list[str]:
    return [key for row, key in enumerate(part.segment.keys) if row not in part.dead]
