"""Files of a usage log: `usage-YYYY-MM-DD.jsonl`, one for each day in UTC, one event a line.

A line that is damaged costs that line. How much damage is too much, the reader decides.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

from toolheads.data.jsonl import LineError, parse_object, read_lines, to_line
from toolheads.errors import ConfigError, DataError, Fault
from toolheads.usage.events import Call, Event, EventError, Search, from_record, to_record

_NAME = re.compile(r"usage-\d{4}-\d{2}-\d{2}\.jsonl")

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
        keep_texts: Whether the texts of requests are written. Without them a log can be counted
            but not learnt from.
    """

    def __init__(self, folder: str | os.PathLike[str], *, keep_texts: bool = False) -> None:
        self._folder, self._keep_texts = Path(folder), keep_texts
        self._folder.mkdir(parents=True, exist_ok=True)

    def write(self, event: Event) -> None:
        """Append one event.

        Raises:
            ConfigError: If it breaks a rule of the format; nothing is written.
            OSError: If the file cannot be written.
        """
        record = to_record(event)
        if not self._keep_texts and record.pop("text", None) and "digest" not in record:
            msg = "a search must have a digest where texts are not kept, got none"
            raise ConfigError(msg)
        try:
            line = to_line(record) + b"\n"
        except LineError as e:
            msg = f"an event must be valid JSON, got: {e}"
            raise ConfigError(msg) from e
        day = event.time.astimezone(UTC).date().isoformat()
        path = self._folder / f"usage-{day}.jsonl"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, _PRIVATE)
        try:
            size = os.fstat(descriptor).st_size
            is_cut = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            os.write(descriptor, b"\n" + line if is_cut else line)
        finally:
            os.close(descriptor)


def read_usage(folder: str | os.PathLike[str]) -> UsageLog:
    """Read all files of a log.

    Args:
        folder: Holds `usage-YYYY-MM-DD.jsonl` files; others are passed over.

    Raises:
        DataError: If there is no such file, or one cannot be read at all.
    """
    root = Path(folder)
    paths = sorted(p for p in root.glob("usage-*.jsonl") if _NAME.fullmatch(p.name))
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
