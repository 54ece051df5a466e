"""Shards: rows on their way from workers to the index, in a folder that all of them see.

    <16 hex>.rows    rows in float32 and their keys, see `toolheads.indexes.store.segment_file`
    <16 hex>.json    what must be in it; written last

A shard that has both files outlives a kill of the job. A worker that is killed between them, or
after them, leaves a shard that nobody asks for, or a second one with the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from shutil import rmtree

import numpy as np

from toolheads.arrays import Floats, Ids
from toolheads.cache.keys import KeyIndex, Keys
from toolheads.durable import write_whole
from toolheads.errors import IndexStoreError
from toolheads.indexes.precision import to_stored
from toolheads.indexes.snapshot import Segment
from toolheads.indexes.store.folder import store_errors
from toolheads.indexes.store.manifest import DamageError, Entry
from toolheads.indexes.store.segment_file import (
    holds_what_was_written,
    read_segment,
    write_segment,
)


def write_shard(folder: Path, keys: Sequence[str], rows: Floats) -> str:
    """Write rows, (n, e) float32, under n keys; complete on the disk when it returns.

    Returns:
        What `Shards.add` takes.

    Raises:
        IndexStoreError: If it cannot be written.
    """
    with store_errors(folder, "write to"):
        folder.mkdir(parents=True, exist_ok=True)
        entry = write_segment(folder, Segment(tuple(keys), to_stored(rows, "float32"), 0.0))
        about = json.dumps(asdict(entry))
        write_whole((folder / entry.file).with_suffix(".json"), about.encode())
    return about


class Shards:
    """The shards of a job, read in any order. Holds a key for each row, and no row.

    Args:
        folder: Where they are.
        width: e, entries of a row.
    """

    def __init__(self, folder: Path, *, width: int) -> None:
        self._folder, self._width = folder, width
        self._entries: list[Entry] = []
        self._keys: list[Keys] = []

    def __len__(self) -> int:
        return sum(len(keys) for keys in self._keys)

    def add(self, about: str) -> None:
        """Count a shard in.

        Raises:
            IndexStoreError: If it is not what was written.
        """
        with store_errors(self._folder, "read"):
            try:
                self._count(Entry(**json.loads(about) | {"dead": ()}), is_old=False)
            except DamageError as e:
                raise IndexStoreError(str(e)) from e

    def take_up(self) -> None:
        """Count in what an earlier run left, as far as it is whole.

        Raises:
            IndexStoreError: If the folder cannot be read.
        """
        with store_errors(self._folder, "read"):
            for path in sorted(self._folder.glob("[!.]*.json")):
                try:
                    entry = Entry(**json.loads(path.read_bytes()) | {"dead": ()})
                    self._count(entry, is_old=True)
                except (DamageError, ValueError, TypeError):
                    continue  # its rows are made again

    def have(self, keys: Keys) -> Ids:
        """(n,) numbers of the rows of (n, 32) keys, -1 where there is none."""
        listed = np.concatenate([np.empty((0, 32), np.uint8), *self._keys])
        return KeyIndex(listed, np.arange(len(listed), dtype=np.int64)).find(keys)

    def batches(self, rows: Ids, size: int) -> Iterator[tuple[list[str], Floats]]:
        """Keys, and (n, e) float32 rows, of row numbers in their order, so many at once.

        Raises:
            IndexStoreError: If a shard is not what was written any more.
        """
        starts = np.cumsum([0, *map(len, self._keys)])
        for start in range(0, len(rows), size):
            of_batch = rows[start : start + size]
            shards = np.searchsorted(starts, of_batch, side="right") - 1
            out = np.empty((len(of_batch), self._width), np.float32)
            keys = [""] * len(of_batch)
            for shard in np.unique(shards).tolist():
                places = np.flatnonzero(shards == shard)
                segment = self._read(self._entries[shard])
                at = of_batch[places] - starts[shard]
                out[places] = segment.rows.values[at]
                for place, row in zip(places.tolist(), at.tolist(), strict=True):
                    keys[place] = segment.keys[row]
            yield keys, out

    def remove(self) -> None:
        """Delete the folder, and what is of no use in it."""
        rmtree(self._folder, ignore_errors=True)

    def _read(self, entry: Entry) -> Segment:
        with store_errors(self._folder, "read"):
            try:
                return read_segment(self._folder, entry, width=self._width, dtype="float32")
            except DamageError as e:
                raise IndexStoreError(str(e)) from e

    def _count(self, entry: Entry, *, is_old: bool) -> None:
        segment = read_segment(self._folder, entry, width=self._width, dtype="float32")
        if is_old and not holds_what_was_written(segment, entry):
            msg = f"{entry.file} must hold the rows that were written, got others"
            raise DamageError(msg)
        raw = bytes.fromhex("".join(segment.keys))
        self._entries.append(entry)
        self._keys.append(np.frombuffer(raw, np.uint8).reshape(-1, 32))
