"""Files of a usage log: `usage-YYYY-MM-DD.jsonl`, one for each day in UTC, one event a line.

A line that is damaged costs that line. How much damage is too much, the reader decides.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date
from pathlib import Path

from toolheads.data.jsonl import LineError, parse_object, read_lines, to_line
from toolheads.errors import ConfigError, DataError, Fault
from toolheads.usage.events import (
    TEXTS,
    Call,
    Event,
    EventError,
    Search,
    from_record,
    to_record,
)

_NAME = re.compile(r"usage-\d{4}-\d{2}-\d{2}\.jsonl")

_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND

_TRIES = 3
"""How often lines are written anew because their file was removed under them."""

_PRIVATE = 0o600
"""Of new files: what people asked for is for the account that serves them."""


@dataclass(frozen=True)
class UsageLog:
    """All good events of a log in the order of their times, and the lines that are damaged."""

    searches: tuple[Search, ...]
    calls: tuple[Call, ...]
    faults: tuple[Fault, ...]
    """One for each damaged line."""
    lines: int
    """Lines that are not blank."""
    files: int
    digest: str
    """sha256 over names and contents of the files, hex."""

    @property
    def bad_share(self) -> float:
        """Damaged lines over all lines, in [0, 1]."""
        return len(self.faults) / self.lines if self.lines else 0.0

    @property
    def has_texts(self) -> bool:
        """Whether a search has kept its text."""
        return any(search.text is not None for search in self.searches)

    def check(self, max_bad_share: float) -> None:
        """Refuse a log that is more damaged than a share.

        Raises:
            DataError: If it is; with all faults.
        """
        if self.bad_share > max_bad_share:
            msg = (
                f"a usage log must have at most {max_bad_share:.1%} damaged lines, got "
                f"{len(self.faults)} of {self.lines}"
            )
            raise DataError(msg, self.faults)


class UsageWriter:
    """Appends events, each to the file of its day.

    A line is appended by one system call, so that several threads and processes can write to one
    folder; a line that a kill cut short is ended before the next one begins.

    Args:
        folder: Made if need be.
        keep_texts: Whether the texts of requests and arguments are written. Without them a log
            can be counted but not learnt from.
        make_folder: Whether to make the folder now, so that one that cannot be made is found out;
            else it is made by the first event.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        keep_texts: bool = False,
        make_folder: bool = True,
    ) -> None:
        self._folder, self._keep_texts = Path(folder), keep_texts
        if make_folder:
            self._make_folder()

    def write(self, event: Event) -> None:
        """Append one event.

        Raises:
            ConfigError: If it breaks a rule of the format; nothing is written.
            OSError: If the file cannot be written.
        """
        self.append(self.file_of(event), [self.line(event)])

    def file_of(self, event: Event) -> str:
        """The name of the file that an event goes to."""
        return f"usage-{event.time.astimezone(UTC).date().isoformat()}.jsonl"

    def line(self, event: Event) -> bytes:
        """An event as it is written, with its line break.

        Raises:
            ConfigError: If it breaks a rule of the format.
        """
        record = to_record(event)
        if not self._keep_texts:
            left_out = [name for name in TEXTS if record.pop(name, None)]
            if "text" in left_out and "digest" not in record:
                msg = "a search must have a digest where texts are not kept, got none"
                raise ConfigError(msg)
        try:
            return to_line(record) + b"\n"
        except LineError as e:
            msg = f"an event must be valid JSON, got: {e}"
            raise ConfigError(msg) from e

    def append(self, name: str, lines: Sequence[bytes]) -> int:
        """Append lines to a file, each by a system call of its own.

        Args:
            name: Of the file.
            lines: As `line` gives them.

        Returns:
            How many were written: fewer than all, the first ones, if it then failed.

        Raises:
            OSError: If the first of them cannot be written.
        """
        written = 0
        for _ in range(_TRIES):
            written, is_there = self._append(self._folder / name, lines)
            if is_there:
                break
        return written

    def _append(self, path: Path, lines: Sequence[bytes]) -> tuple[int, bool]:
        """How many were written, and whether the file was still there after that."""
        try:
            descriptor = os.open(path, _APPEND, _PRIVATE)
        except FileNotFoundError:  # someone removed the folder
            self._make_folder()
            descriptor = os.open(path, _APPEND, _PRIVATE)
        written = 0
        try:
            size = os.fstat(descriptor).st_size
            is_cut = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            for line in lines:
                _write_whole(descriptor, b"\n" + line if is_cut else line, path)
                written, is_cut = written + 1, False
        except OSError:
            if not written:
                raise
        finally:
            is_there = os.fstat(descriptor).st_nlink > 0
            os.close(descriptor)
        return written, is_there

    def _make_folder(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _write_whole(descriptor: int, line: bytes, path: Path) -> None:
    if os.write(descriptor, line) < len(line):  # the disk is full; half a line is a fault
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def usage_files(folder: str | os.PathLike[str]) -> list[Path]:
    """The files of a log, by day."""
    return sorted(p for p in Path(folder).glob("usage-*.jsonl") if _NAME.fullmatch(p.name))


def day_of(path: Path) -> date:
    """The day of a file of a log; the last of all for a name that is no day."""
    try:
        return date.fromisoformat(path.stem.removeprefix("usage-"))
    except ValueError:
        return date.max


def read_usage(folder: str | os.PathLike[str]) -> UsageLog:
    """Read all files of a log.

    Args:
        folder: Holds `usage-YYYY-MM-DD.jsonl` files; others are passed over.

    Raises:
        DataError: If there is no such file, or one cannot be read at all.
    """
    root = Path(folder)
    paths = usage_files(root)
    if not paths:
        got = "none" if root.is_dir() else "no such folder"
        msg = f"a usage log must be a folder with usage-YYYY-MM-DD.jsonl files, got {got}: {root}"
        raise DataError(msg)
    scan = _Scan()
    digest = hashlib.sha256()
    for path in paths:
        scan.read(path)
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    # Stable: events of one moment stay in the order they were written.
    return UsageLog(
        searches=tuple(sorted(scan.searches, key=lambda search: search.time)),
        calls=tuple(sorted(scan.calls, key=lambda call: call.time)),
        faults=tuple(scan.faults),
        lines=scan.lines,
        files=len(paths),
        digest=digest.hexdigest(),
    )


class _Scan:
    """What has been read so far."""

    def __init__(self) -> None:
        self.searches: list[Search] = []
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self.lines = 0
        self._ids: set[str] = set()

    def read(self, path: Path) -> None:
        for number, line in read_lines(path):
            self.lines += 1
            try:
                self._take(from_record(parse_object(line)))
            except (LineError, EventError) as e:
                self.faults.append(Fault(str(path), number, str(e)))

    def _take(self, event: Event) -> None:
        if isinstance(event, Call):
            self.calls.append(event)
            return
        if event.search_id in self._ids:
            raise EventError([f"search_id must be unique, got {event.search_id!r} again"])
        self._ids.add(event.search_id)
        self.searches.append(event)
