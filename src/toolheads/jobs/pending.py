"""Rows on their way into a folder: a growing file of rows, and a journal that says what is in it.

    reindex.part      rows, and nothing else until the end
    reindex.journal   a line of JSON for each batch: its keys, and the digest of all rows so far

Rows are on the disk before the journal names them, so what the journal names is there after a
kill. At the end scales and keys are written behind the rows, which makes the file a segment of
`toolheads.indexes.store`. Rows are held for one batch at a time, which a thread writes while the
next one is made.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from toolheads.arrays import Floats, pieces
from toolheads.indexes.precision import StoredRows, to_stored
from toolheads.indexes.scan import lengths
from toolheads.indexes.store.manifest import Entry
from toolheads.indexes.store.segment_file import SUFFIX

PART, JOURNAL = "reindex.part", "reindex.journal"
_ALIGNMENT = 64


class PendingRows:
    """The rows that a job has made so far. Takes up what an earlier run left.

    Args:
        folder: That of the space and dtype.
        width: d.
        dtype: What rows are stored in.

    Attributes:
        keys: Of all rows.

    Raises:
        OSError: If the files cannot be read or written.
    """

    def __init__(self, folder: Path, *, width: int, dtype: str) -> None:
        self._folder, self._width, self._dtype = folder, width, dtype
        self._digest = hashlib.sha256()
        self._longest = 0.0
        self._row_bytes = 0
        self.keys: set[str] = set()
        journal = folder / JOURNAL
        kept = 0
        if (folder / PART).is_file():
            with (folder / PART).open("rb") as rows:
                for batch, end in _batches(journal):
                    if not self._take_up(rows, batch):
                        break
                    kept = end
        self._rows = (folder / PART).open("ab")
        self._rows.truncate(self._row_bytes)
        self._journal = journal.open("ab")
        self._journal.truncate(kept)
        self._writer = ThreadPoolExecutor(1, "toolheads-write")
        self._writing: Future[None] | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, keys: Sequence[str], rows: Floats) -> None:
        """Keep rows; they outlive a kill once the next `add`, `finished` or `close` returns.

        Args:
            keys: n keys, none of which is there.
            rows: (n, d) float32; not to be written to any more.

        Raises:
            OSError: If these, or rows before them, could not be written.
            ShapeError: If rows before them are beyond the dtype.
        """
        self._wait()
        self._writing = self._writer.submit(self._write, list(keys), rows)
        self.keys.update(keys)

    def _write(self, keys: list[str], rows: Floats) -> None:
        stored = to_stored(rows, self._dtype)
        raw = np.ascontiguousarray(stored.values).reshape(-1).view(np.uint8).data
        _append(self._rows, raw)
        longest = _longest(stored)
        # One digest for the batch and for the file: hashing takes as long as writing.
        self._digest.update(raw)
        batch = {
            "keys": keys,
            "rows_sha256": self._digest.hexdigest(),
            "bytes": len(raw),
            "longest": longest.hex(),
            "scales": "" if stored.scales is None else stored.scales.tobytes().hex(),
        }
        _append(self._journal, json.dumps(batch).encode() + b"\n")
        self._count(raw, longest)

    def _wait(self) -> None:
        """Wait until all rows are on the disk, and raise what went wrong."""
        if self._writing is not None:
            self._writing.result()
            self._writing = None

    def finished(self) -> Entry:
        """Make a segment of all rows; it counts once a manifest lists it."""
        self._wait()
        tail = hashlib.sha256()
        padding = -self._row_bytes % _ALIGNMENT
        size = self._row_bytes + padding
        self._rows.write(b"\0" * padding)
        for kind in ("scales", "keys"):
            for batch, _ in _batches(self._folder / JOURNAL):
                part = _tail(batch, kind)
                tail.update(part)
                self._rows.write(part)
                size += len(part)
        _flush(self._rows)
        digest = self._digest.hexdigest()
        name = f"{digest[:16]}-{tail.hexdigest()[:16]}{SUFFIX}"
        (self._folder / PART).replace(self._folder / name)
        return Entry(
            file=name,
            rows=len(self.keys),
            longest=self._longest.hex(),
            size_bytes=size,
            rows_sha256=digest,
            tail_sha256=tail.hexdigest(),
        )

    def close(self) -> None:
        """Close the files; a later run takes them up."""
        self._writer.shutdown()  # what went wrong in it was told before, or matters no more
        self._rows.close()
        self._journal.close()

    def remove(self) -> None:
        """Delete what is left of the files."""
        self.close()
        for name in (PART, JOURNAL):
            with suppress(FileNotFoundError):
                (self._folder / name).unlink()

    def _take_up(self, rows: BinaryIO, batch: dict[str, Any]) -> bool:
        """Count a batch of an earlier run; False if its rows are not what was written."""
        try:
            keys, size = batch["keys"], batch["bytes"]
            raw = rows.read(size)
            digest = self._digest.copy()
            digest.update(raw)
            if len(raw) != size or digest.hexdigest() != batch["rows_sha256"]:
                return False
            longest = float.fromhex(batch["longest"])
        except (KeyError, TypeError, ValueError):
            return False
        self._digest = digest
        self._count(raw, longest)
        self.keys.update(keys)
        return True

    def _count(self, raw: bytes | memoryview, longest: float) -> None:
        self._row_bytes += len(raw)
        self._longest = max(self._longest, longest)


def _batches(journal: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Each batch that the journal names whole, and where its line ends."""
    if not journal.is_file():
        return
    end = 0
    with journal.open("rb") as file:
        for line in file:
            end += len(line)
            try:
                batch = json.loads(line)
            except ValueError:
                return
            if not line.endswith(b"\n") or not isinstance(batch, dict):
                return
            yield batch, end


def _tail(batch: dict[str, Any], kind: str) -> bytes:
    if kind == "scales":
        return bytes.fromhex(batch["scales"])
    return "".join(f"{key}\n" for key in batch["keys"]).encode()


def _longest(stored: StoredRows) -> float:
    parts = (stored.floats(piece) for piece in pieces(*stored.values.shape))
    return max((float(lengths(part).max()) for part in parts), default=0.0)


def _append(file: BinaryIO, raw: bytes | memoryview) -> None:
    file.write(raw)
    _flush(file)


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
