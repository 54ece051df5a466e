"""Lines of a JSONL file, each judged on its own. Knows bytes and JSON, no tool and no query.

A line ends at a line feed and nowhere else: U+2028, U+0085 and their like are legal inside a JSON
string and stay there. A carriage return before the line feed is white space to JSON.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from toolheads.durable import write_whole
from toolheads.errors import DataError, Fault

MOST_LINE_BYTES = 16 * 2**20
"""A longer line is a fault. It is skipped in pieces, so that it never fills the memory."""

MOST_LEVELS = 100
"""Deeper nesting is a fault: real schemas stay below 20, and each reader recurses on it."""

_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = (b"\xff\xfe", b"\xfe\xff")
_PIECE = 1 << 20
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class LineError(ValueError):
    """What is wrong with one line; becomes a `Fault` once file and line number are known."""


def read_lines(
    path: Path,
    *,
    most_bytes: int = MOST_LINE_BYTES,
    start: int = 0,
    end: int | None = None,
    with_blank: bool = False,
) -> Iterator[tuple[int, bytes]]:
    """Give the lines of a file that are not blank, without their end.

    A byte-order mark at the start of the file, as editors on Windows leave it, is dropped.

    Args:
        path: The file.
        most_bytes: A line longer than this is given as its first `most_bytes` + 1 bytes, for
            `parse_object` to refuse; the rest of it is read past.
        start: Lines that begin before this byte are left out, and not counted.
        end: And those that begin at this byte or after it; None reads to the end.
        with_blank: Gives blank lines as well, as no bytes.

    Yields:
        (line number from 1, bytes of the line).

    Raises:
        DataError: If the file is missing, a folder, unreadable, or UTF-16.
    """
    try:
        with path.open("rb") as file:
            number = 0
            if start:
                file.seek(start - 1)
                _read_past(file)
            while end is None or file.tell() < end:
                line = file.readline(most_bytes + 1)
                if not line:
                    break
                number += 1
                if len(line) > most_bytes and not line.endswith(b"\n"):
                    _read_past(file)
                if number == 1 and not start:
                    if line.startswith(_WIDE_BOMS):
                        raise whole_file_error(path, "the file must be UTF-8, got UTF-16")
                    line = line.removeprefix(_BOM)
                if line.strip():
                    yield number, line.rstrip(b"\r\n")
                elif with_blank:
                    yield number, b""
    except FileNotFoundError as e:
        raise whole_file_error(path, "the file does not exist") from e
    except IsADirectoryError as e:
        raise whole_file_error(path, "the file must be a file, got a folder") from e
    except OSError as e:
        raise whole_file_error(path, f"the file cannot be read: {e.strerror or e}") from e


def parse_object(line: bytes, *, most_bytes: int = MOST_LINE_BYTES) -> dict[str, Any]:
    """Parse one line as strict JSON.

    Raises:
        LineError: If it is too long, not UTF-8, not JSON (NaN and numbers beyond a float
            included), nested too deep, holds a lone surrogate, or is not an object.
    """
    if len(line) > most_bytes:
        msg = f"a line must have at most {most_bytes:,} bytes, got more"
        raise LineError(msg)
    try:
        text = line.decode()
    except UnicodeDecodeError as e:
        msg = f"invalid UTF-8 at byte {e.start} of the line: {line[e.start : e.start + 4].hex(' ')}"
        raise LineError(msg) from e
    if text.startswith("\ufeff"):
        msg = "a byte-order mark may stand at the start of the file only"
        raise LineError(msg)
    try:
        value = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as e:
        msg = f"invalid JSON: {e.msg} at column {e.colno}"
        raise LineError(msg) from e
    except RecursionError as e:
        raise LineError(_too_deep()) from e
    except ValueError as e:  # a constant or float refused below, or an integer of 4,300 digits
        msg = f"invalid JSON: {e}"
        raise LineError(msg) from e
    if not isinstance(value, dict):
        msg = f"a line must be a JSON object, got {shown(value)}"
        raise LineError(msg)
    if line.count(b"{") + line.count(b"[") > MOST_LEVELS and _levels(value) > MOST_LEVELS:
        raise LineError(_too_deep())
    if _ESCAPED_SURROGATE.search(line) and (place := _surrogate_place(value)):
        msg = f"{place} must hold no lone surrogate"
        raise LineError(msg)
    return value


def write_lines(path: str | os.PathLike[str], lines: Iterable[bytes]) -> None:
    """Write a file of lines whole or not at all.

    Args:
        path: The file; its folder is made if need be. A link is followed, not replaced.
        lines: The lines without their ends.
    """
    write_whole(path, b"".join(line + b"\n" for line in lines))


def to_line(record: Mapping[str, Any]) -> bytes:
    """Write one object as a line that `parse_object` reads back as the same value.

    Raises:
        LineError: If a value is no JSON value, is NaN or infinite, or holds a lone surrogate.
    """
    try:
        text = json.dumps(record, ensure_ascii=False, allow_nan=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as e:
        msg = f"not a JSON value: {e}"
        raise LineError(msg) from e
    try:
        return text.encode()
    except UnicodeEncodeError as e:
        place = _surrogate_place(dict(record)) or "the line"
        msg = f"{place} must hold no lone surrogate"
        raise LineError(msg) from e


def shown(value: Any) -> str:
    """A JSON value as an error shows it: one line, short, with its type if it needs one."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def whole_file_error(path: Path, reason: str) -> DataError:
    """The error of a file that is wrong as a whole."""
    return DataError(f"{path} cannot be used", [Fault(str(path), 0, reason)])


def _read_past(file: BinaryIO) -> None:
    while (piece := file.readline(_PIECE)) and not piece.endswith(b"\n"):
        pass


def _no_constant(name: str) -> float:
    msg = f"{name} is no JSON number"
    raise ValueError(msg)


def _finite(literal: str) -> float:
    number = float(literal)
    if math.isinf(number):
        msg = f"{literal[:40]} is beyond the range of a float"
        raise ValueError(msg)
    return number


def _too_deep() -> str:
    return f"a line must nest at most {MOST_LEVELS} levels deep, got more"


def _levels(value: Any) -> int:
    """Depth of nesting; a loop over levels, since recursion is what it protects from."""
    level, depth = [value], 0
    while level:
        depth += 1
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    return depth


def _surrogate_place(record: Mapping[str, Any]) -> str:
    """The top-level field that holds a lone surrogate, somewhere in it; empty if none does."""
    for name, value in record.items():
        if _SURROGATE.search(name):
            return "a field's name"
        stack = [value]
        while stack:
            inner = stack.pop()
            if isinstance(inner, Mapping):
                stack += [*inner, *inner.values()]
            elif isinstance(inner, list | tuple):
                stack += inner
            elif isinstance(inner, str) and _SURROGATE.search(inner):
                return name if name.isidentifier() else shown(name)
    return ""


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    msg = f"got {type(value).__name__}"
    raise TypeError(msg)
