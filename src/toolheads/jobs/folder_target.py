"""A folder of numpy or faiss: new rows are written beside, and one manifest puts them in place.

The manifest is replaced whole, so that a process that reads the folder has the rows before or
after. Rows that stay are not written again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from toolheads.arrays import Floats
from toolheads.indexes import open_index
from toolheads.indexes.checks import check_at_least, check_space
from toolheads.indexes.faiss_index import FaissIndex
from toolheads.indexes.snapshot import Part, Snapshot
from toolheads.indexes.store.folder import Folder, store_errors
from toolheads.indexes.store.lock import write_lock
from toolheads.jobs.pending import PendingRows
from toolheads.jobs.target import Swapped, Target
from toolheads.ports import VectorIndex

_LOCK = "reindex.lock"


class FolderWriting:
    """See `toolheads.jobs.target.Writing`.

    Args:
        target: Which index.
        space: See `toolheads.indexes.keys.space_of`.
        width: d.

    Raises:
        IndexStoreError: If the folder cannot be used, or another job is at work in it.
    """

    def __init__(self, target: Target, *, space: str, width: int) -> None:
        assert target.folder is not None
        self._target, self._space = target, check_space(space)
        self._width = check_at_least(1, width, "width")
        # Refuses bad settings and a missing library now, and not after hours.
        self._open_index(in_memory=True).close()
        self._path = Path(target.folder) / space / target.dtype
        self._folder = Folder(self._path, space=space, width=width, dtype=target.dtype)
        self._held = ExitStack()
        with store_errors(self._path, "write to"):
            self._path.mkdir(parents=True, exist_ok=True)
            self._held.enter_context(write_lock(self._path / _LOCK, timeout_s=0))
            self._before = self._read_whole()
            self._pending = PendingRows(self._path, width=width, dtype=target.dtype)
        self.resumed = len(self._pending)

    def is_there(self, key: str) -> bool:
        """See `toolheads.jobs.target.Writing`."""
        return key in self._pending.keys or key in self._before

    def add(self, keys: Sequence[str], rows: Floats) -> None:
        """See `toolheads.jobs.target.Writing`."""
        with store_errors(self._path, "write to"):
            self._pending.add(keys, rows)

    def finish(self, is_wanted: Callable[[str], bool]) -> Swapped:
        """See `toolheads.jobs.target.Writing`."""
        with self._folder.locked():
            swapped = self._swap(is_wanted)
            self._pending.remove()
        if self._target.kind != "numpy":
            index = self._open_index(in_memory=False)
            assert isinstance(index, FaissIndex)
            try:  # builds the structure that is missing; rows are found without it meanwhile
                index.apply([], np.empty((0, self._width), np.float32))
                swapped = replace(swapped, structure=index.about or None)
            finally:
                index.close()
        return swapped

    def close(self) -> None:
        """See `toolheads.jobs.target.Writing`."""
        self._pending.close()
        self._held.close()

    def _read_whole(self) -> Snapshot:
        """The rows that are there, without those that are damaged: these are made again."""
        read = self._folder.read()
        faults = self._folder.damaged(read.parts)
        self._folder.drop(faults)
        return Snapshot([p for p in read.parts if p.segment.file not in faults], self._width)

    def _swap(self, is_wanted: Callable[[str], bool]) -> Swapped:
        before = self._folder.read()
        there = before.keys()
        gone = {key for key in there if not is_wanted(key)}
        # What another process wrote meanwhile stays as it is.
        fresh = [key for key in self._pending.keys if is_wanted(key) and key not in before]
        if not fresh and not gone and not self._folder.lists_damage:
            return Swapped(0, 0, 0)
        parts = [part.without(gone) for part in before.parts]
        parts = [part for part in parts if part.alive]
        size = 0
        if fresh:
            entry = self._pending.finished()
            size = entry.size_bytes
            unwanted = self._pending.keys.difference(fresh)
            parts.append(Part(self._folder.adopt(entry)).without(unwanted))
        self._folder.write(Snapshot(parts, self._width))
        return Swapped(len(fresh), len(gone), size)

    def _open_index(self, *, in_memory: bool) -> VectorIndex:
        target = self._target
        return open_index(
            target.kind,
            space=self._space,
            width=self._width,
            folder=None if in_memory else target.folder,
            dtype=target.dtype,
            **target.settings,
        )


def open_writing(target: Target, *, space: str, width: int) -> FolderWriting:
    """See `toolheads.jobs.target.open_target`."""
    return FolderWriting(target, space=space, width=width)
