"""The folder of one space and dtype: reads it, writes it, finds what is damaged in it."""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from toolheads.durable import TEMPORARY, write_whole
from toolheads.errors import ConfigError, IndexStoreError
from toolheads.indexes.snapshot import Part, Segment, Snapshot
from toolheads.indexes.store.lock import write_lock
from toolheads.indexes.store.manifest import NAME, DamageError, Entry, Manifest
from toolheads.indexes.store.segment_file import (
    SUFFIX,
    holds_what_was_written,
    read_segment,
    write_segment,
)

_logger = logging.getLogger(__name__)

_LOCK_TIMEOUT_S = 60.0
_READ_AGAIN = 10
"""How often a manifest is read anew whose segments another process has just merged."""

_FULL = (errno.ENOSPC, errno.EDQUOT)

_Stamp = tuple[int, int, int] | None


class Folder:
    """Segment files and their manifest. All but `damaged` is for one thread at a time.

    Args:
        path: The folder; made when something is written.
        space: See `toolheads.indexes.keys.space_of`.
        width: d.
        dtype: What rows are stored in.
    """

    def __init__(self, path: Path, *, space: str, width: int, dtype: str) -> None:
        self.path = path
        self.faults: list[str] = []
        self._empty = Manifest(space, width, dtype)
        self._entries: dict[str, Entry] = {}
        self._segments: dict[str, Segment] = {}
        self._bad: set[str] = set()
        self._checked: set[str] = set()
        self._checking = threading.Lock()
        self._stamp: _Stamp = None

    @property
    def is_stale(self) -> bool:
        """Whether the manifest on the disk is another than the one last read or written."""
        return self._stamp_now() != self._stamp

    @property
    def lists_damage(self) -> bool:
        """Whether the manifest on the disk still names segments that were dropped."""
        return bool(self._bad)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for writing, and turn errors of the disk into one clear line.

        Raises:
            IndexStoreError: If it cannot be held or written.
        """
        with store_errors(self.path, "write to"):
            self.path.mkdir(parents=True, exist_ok=True)
            with write_lock(self.path / "lock", timeout_s=_LOCK_TIMEOUT_S):
                yield

    def read(self) -> Snapshot:
        """What the folder holds now. What is damaged is left out and reported.

        Raises:
            IndexStoreError: If it cannot be read.
            ConfigError: If the space has rows of another width.
        """
        with store_errors(self.path, "read"):
            stamp, manifest, parts, faults = self._read_once()
            for _ in range(_READ_AGAIN):
                if not faults or self._stamp_now() == stamp:
                    break
                stamp, manifest, parts, faults = self._read_once()
        self._stamp = stamp
        for file, fault in faults.items():
            self._bad.add(file)
            self._report(fault)
        self._entries = {entry.file: entry for entry in manifest.entries}
        self._segments = {part.segment.file: part.segment for part in parts}
        return Snapshot(parts, self._empty.width)

    def add(self, segment: Segment) -> Segment:
        """Write a segment; it counts once a manifest lists it.

        Returns:
            The same, its rows mapped.
        """
        return self.adopt(write_segment(self.path, segment))

    def adopt(self, entry: Entry) -> Segment:
        """Take in a segment file that was written here; it counts once a manifest lists it.

        Returns:
            The segment, its rows mapped.

        Raises:
            DamageError: If the file is not what the entry says.
        """
        self._entries[entry.file] = entry
        self._checked.add(entry.file)
        written = self._read_segment(entry)
        self._segments[entry.file] = written
        return written

    def write(self, snapshot: Snapshot) -> None:
        """Make a snapshot what the folder holds; lasts when it returns.

        Its segments must have been read from here or added here.
        """
        entries = tuple(
            replace(self._entries[part.segment.file], dead=tuple(sorted(part.dead)))
            for part in snapshot.parts
        )
        write_whole(self.path / NAME, replace(self._empty, entries=entries).to_bytes())
        self._stamp = self._stamp_now()
        self._entries = {entry.file: entry for entry in entries}
        self._segments = {part.segment.file: part.segment for part in snapshot.parts}
        self._bad.clear()
        self._checked &= self._entries.keys()
        self._delete_leftovers()

    def forget(self, segment: Segment) -> None:
        """Take back an added segment that no manifest lists."""
        self._entries.pop(segment.file, None)
        self._segments.pop(segment.file, None)
        with suppress(OSError):
            (self.path / segment.file).unlink(missing_ok=True)

    def has_checked(self, parts: Iterable[Part]) -> bool:
        """Whether these segments were read and compared with what was written."""
        return all(part.segment.file in self._checked for part in parts)

    def damaged(self, parts: Iterable[Part], *, again: bool = False) -> dict[str, str]:
        """Segment files that do not hold the rows that were written. From any thread.

        Args:
            parts: Which segments to look at.
            again: Read also those that were read before.

        Returns:
            File → what is wrong with it.
        """
        found = {}
        for segment in (part.segment for part in parts):
            if segment.file in self._checked and not again:
                continue
            with self._checking:
                if segment.file in self._checked and not again:
                    continue
                entry = self._entries.get(segment.file)
                fault = self._fault(segment, entry) if entry else None
                if fault is not None:
                    found[segment.file] = fault
                elif entry:  # else: merged away while an older snapshot is being searched
                    self._checked.add(segment.file)
        return found

    def drop(self, faults: dict[str, str]) -> None:
        """Leave damaged segments out from now on, and report them."""
        for file, fault in faults.items():
            if file not in self._bad:
                self._bad.add(file)
                self._report(fault)

    def _fault(self, segment: Segment, entry: Entry) -> str | None:
        path = self.path / entry.file
        with suppress(FileNotFoundError):  # merged by another process; what is mapped stays
            size = path.stat().st_size
            if size != entry.size_bytes:  # to read past the end of a mapped file kills the process
                return f"{path} must have {entry.size_bytes} bytes, got {size}"
        if not holds_what_was_written(segment, entry):
            return f"{path} must hold the rows that were written, got others"
        return None

    def _read_once(self) -> tuple[_Stamp, Manifest, list[Part], dict[str, str]]:
        stamp = self._stamp_now()
        manifest = self._read_manifest()
        return stamp, manifest, *self._open(manifest)

    def _open(self, manifest: Manifest) -> tuple[list[Part], dict[str, str]]:
        parts, faults = [], {}
        for entry in manifest.entries:
            if entry.file in self._bad:
                continue
            try:
                segment = self._segments.get(entry.file) or self._read_segment(entry)
                parts.append(Part(segment, frozenset(entry.dead)))
            except DamageError as e:
                faults[entry.file] = str(e)
        return parts, faults

    def _read_segment(self, entry: Entry) -> Segment:
        return read_segment(self.path, entry, width=self._empty.width, dtype=self._empty.dtype)

    def _read_manifest(self) -> Manifest:
        path = self.path / NAME
        try:
            manifest = Manifest.from_bytes(path.read_bytes())
        except FileNotFoundError:
            return self._empty
        except DamageError as e:
            self._report(f"{path} {e}")
            return self._empty
        if manifest.width != self._empty.width:
            msg = (
                f"width must be {manifest.width}, as the rows of space {self._empty.space} are, "
                f"got {self._empty.width}"
            )
            raise ConfigError(msg)
        if replace(manifest, entries=()) != self._empty:
            self._report(f"{path} must be of space {self._empty.space}, got {manifest.space}")
            return self._empty
        return manifest

    def _stamp_now(self) -> _Stamp:
        try:
            stat = (self.path / NAME).stat()
        except FileNotFoundError:
            return None
        return stat.st_mtime_ns, stat.st_ino, stat.st_size

    def _delete_leftovers(self) -> None:
        """Delete what no manifest lists: merged or damaged segments, and traces of a kill."""
        for path in (*self.path.glob(f"*{SUFFIX}"), *self.path.glob(f"{TEMPORARY}*")):
            if path.name not in self._entries:
                with suppress(OSError):
                    path.unlink()

    def _report(self, fault: str) -> None:
        self.faults.append(fault)
        _logger.warning("%s; its rows are left out until they are added again", fault)


@contextmanager
def store_errors(place: Path, action: str) -> Iterator[None]:
    """Turn an error of the operating system into one clear line about the index.

    Raises:
        IndexStoreError: In place of an OSError.
    """
    try:
        yield
    except IndexStoreError:
        raise
    except OSError as e:
        reason = e.strerror or str(e)
        if e.errno in _FULL:
            msg = f"index folder {place} must have room, got {reason!r}; nothing was changed"
        else:
            msg = f"cannot {action} index folder {place}: {reason}"
        raise IndexStoreError(msg) from e
