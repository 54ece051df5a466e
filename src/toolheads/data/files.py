"""Tools and queries as JSONL files: read with every fault named, written whole or not at all."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from toolheads.data.jsonl import (
    LineError,
    parse_object,
    read_lines,
    shown,
    to_line,
    whole_file_error,
    write_lines,
)
from toolheads.data.records import RecordError, from_query, from_tool, to_query, to_tool
from toolheads.domain import Query, Tool
from toolheads.errors import DataError, Fault

_log = logging.getLogger(__name__)

OnFaults = Callable[[Sequence[Fault]], None]
"""Told the faults of lines that were left out."""


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=_HasId)


def read_tools(
    path: str | os.PathLike[str], *, skip_bad: bool = False, on_faults: OnFaults | None = None
) -> list[Tool]:
    """Read a tools file.

    Args:
        path: JSONL, one tool a line.
        skip_bad: Carry on without the lines that have faults. A line whose id was there before
            is the one that is left out.
        on_faults: Called with the faults of the lines that `skip_bad` left out, if any. Without
            it, how many lines there were is logged as a warning.

    Raises:
        DataError: If a line has a fault and `skip_bad` is off, or if no line can be used.
    """
    scan = scan_file(path, to_tool)
    settle([scan], skip_bad=skip_bad, on_faults=on_faults)
    return scan.items


def read_queries(
    path: str | os.PathLike[str], *, skip_bad: bool = False, on_faults: OnFaults | None = None
) -> list[Query]:
    """Read a queries file; arguments and errors as `read_tools`.

    Whether the relevant tools exist is checked by `read_dataset`, which knows the tools.
    """
    scan = scan_file(path, to_query)
    settle([scan], skip_bad=skip_bad, on_faults=on_faults)
    return scan.items


def write_tools(path: str | os.PathLike[str], tools: Iterable[Tool]) -> None:
    """Write a tools file that `read_tools` reads back equal, whole or not at all.

    Raises:
        DataError: If there is no tool, an id occurs twice, or a tool could not be read back;
            the file that was there stays as it is.
    """
    _write(path, tools, from_tool, to_tool, "tool")


def write_queries(path: str | os.PathLike[str], queries: Iterable[Query]) -> None:
    """Write a queries file that `read_queries` reads back equal; errors as `write_tools`."""
    _write(path, queries, from_query, to_query, "query")


@dataclass
class Scan(Generic[T]):
    """What one file holds, before it is decided what its faults mean."""

    path: Path
    items: list[T] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    """Line number of each item."""
    keys: list[bytes] = field(default_factory=list)
    """`line_key` of the line of each item."""
    faults: list[Fault] = field(default_factory=list)
    n_lines: int = 0
    """Lines that are not blank."""

    def refuse(self, line: int, reason: str) -> None:
        """Note a fault of one line."""
        self.faults.append(Fault(str(self.path), line, reason))


def scan_file(
    path: str | os.PathLike[str],
    parse: Callable[[Mapping[str, Any]], T],
    *,
    allow_empty: bool = False,
    known: Mapping[bytes, T] | None = None,
) -> Scan[T]:
    """Read every line of a file and keep what is good apart from what is not.

    Args:
        path: The file.
        parse: Reads one record.
        allow_empty: Whether a file without a line is no error.
        known: `line_key` of a line → what it was read as before: it need not be read again.

    Raises:
        DataError: If the file as a whole cannot be used: missing, a folder, UTF-16, or empty
            unless that is allowed.
    """
    scan: Scan[T] = Scan(Path(path))
    first_line: dict[str, int] = {}
    for number, line in read_lines(scan.path):
        scan.n_lines += 1
        key = line_key(line)
        try:
            item = known[key] if known and key in known else parse(parse_object(line))
        except RecordError as e:
            for reason in e.reasons:
                scan.refuse(number, reason)
        except LineError as e:
            scan.refuse(number, str(e))
        else:
            if (first := first_line.setdefault(item.id, number)) == number:
                scan.items.append(item)
                scan.lines.append(number)
                scan.keys.append(key)
            else:
                scan.refuse(number, f"duplicate id {shown(item.id)}, first on line {first}")
    if not scan.n_lines and not allow_empty:
        raise whole_file_error(scan.path, "the file must have at least one line, got none")
    return scan


def line_key(line: bytes) -> bytes:
    """20 bytes that stand for a line: the same line, the same item."""
    return hashlib.blake2b(line, digest_size=20).digest()


def settle(
    scans: Sequence[Scan[Any]], *, skip_bad: bool, on_faults: OnFaults | None = None
) -> None:
    """Decide what the faults of files that belong together mean.

    Raises:
        DataError: If there are faults and `skip_bad` is off, or a file has no good line left.
    """
    faults = [fault for scan in scans for fault in scan.faults]
    if not faults:
        return
    if not skip_bad:
        where = " and ".join(str(scan.path) for scan in scans if scan.faults)
        msg = (
            f"{where} must have no fault, got {_counted(faults)}; mend these lines or "
            "skip them (skip_bad, --skip-bad)"
        )
        raise DataError(msg, faults)
    for scan in scans:
        if scan.faults and not scan.items:
            msg = f"{scan.path} must have a line without faults, got {_counted(scan.faults)}"
            raise DataError(msg, scan.faults)
    if on_faults:
        on_faults(faults)
        return
    for scan in scans:
        if scan.faults:
            bad, first = len({fault.line for fault in scan.faults}), scan.faults[0]
            _log.warning("left out %d of %d lines of %s", bad, scan.n_lines, scan.path)
            _log.warning("the first: %s", first)


def _counted(faults: Sequence[Fault]) -> str:
    lines = len({(fault.path, fault.line) for fault in faults})
    return f"{len(faults)} fault{'s'[: len(faults) > 1]} in {lines} line{'s'[: lines > 1]}"


def _write(
    path: str | os.PathLike[str],
    items: Iterable[T],
    to_record: Callable[[T], Mapping[str, Any]],
    parse: Callable[[Mapping[str, Any]], T],
    noun: str,
) -> None:
    lines: list[bytes] = []
    faults: list[Fault] = []
    seen: dict[str, int] = {}
    for number, item in enumerate(items, 1):
        try:
            line = to_line(to_record(item))
            parse(parse_object(line))  # what could not be read back must not be written
        except LineError as e:
            faults.append(Fault(str(path), number, f"{noun} {shown(item.id)}: {e}"))
            continue
        if (first := seen.setdefault(item.id, number)) != number:
            reason = f"duplicate id {shown(item.id)}, first on line {first}"
            faults.append(Fault(str(path), number, reason))
        lines.append(line)
    if faults:
        msg = f"{path} was not written: each {noun} must be readable, got {_counted(faults)}"
        raise DataError(msg, faults)
    if not lines:
        msg = f"{path} was not written: there must be at least one {noun}, got none"
        raise DataError(msg)
    write_lines(path, lines)
