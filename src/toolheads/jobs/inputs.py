"""Tools out of JSONL and Parquet files, one at a time: a bad line costs that line."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolheads.data.datasets import TOOLS_FILE
from toolheads.data.jsonl import LineError, parse_object, read_lines, whole_file_error
from toolheads.data.records import to_tool
from toolheads.domain import Tool
from toolheads.errors import DataError, import_extra

_JSONL, _PARQUET = ".jsonl", ".parquet"

_PARQUET_ROWS = 1024
"""Rows that are read from a Parquet file at once."""

_SCHEMAS = ("input_schema", "inputSchema")

_MOST_SHOWN = 2000
"""Characters of a bad line that are kept."""


@dataclass(frozen=True)
class Line:
    """One line of an input: a tool, or what is wrong with it."""

    path: Path
    number: int
    """Line of a JSONL file, row of a Parquet file; from 1."""
    tool: Tool | None
    reason: str = ""
    shown: str = ""
    """The start of a line that is no tool."""


@dataclass(frozen=True)
class Piece:
    """A part of a file of tools that can be read on its own."""

    path: Path
    start: int = 0
    end: int | None = None
    """Lines that begin at these bytes of a JSONL file, row groups of a Parquet file."""


class PieceLines:
    """The lines of a piece, numbered from its first one.

    Args:
        piece: Which one.
        wanted: Numbers of lines to read; the others are counted and not parsed. None reads all.

    Attributes:
        count: Lines of the piece, blank ones included, once all are read.

    Raises:
        DataError: If the file cannot be read; as all that follows, when the lines are read.
        MissingExtraError: If it is a Parquet file and pyarrow is not installed.
    """

    def __init__(self, piece: Piece, wanted: Collection[int] | None = None) -> None:
        self._piece = piece
        self._wanted = None if wanted is None else frozenset(wanted)
        self.count = 0

    def __iter__(self) -> Iterator[Line]:
        read = _parquet_lines if self._piece.path.suffix == _PARQUET else _json_lines
        for number, line in read(self._piece, self._wanted):
            self.count = number
            if line is not None:
                yield line


def input_files(inputs: Sequence[Path]) -> list[Path]:
    """The files that inputs stand for, in order.

    A folder stands for its `tools.jsonl` if it has one, as a data set or a catalogue does, else
    for all `.jsonl` and `.parquet` files in it, by name.

    Raises:
        DataError: If an input is missing, or of a kind that cannot be read, or a folder has none.
    """
    files: list[Path] = []
    for place in inputs:
        if not place.is_dir():
            files.append(_checked(place))
        elif (place / TOOLS_FILE).is_file():
            files.append(place / TOOLS_FILE)
        else:
            shards = [p for p in place.iterdir() if p.suffix in (_JSONL, _PARQUET) and p.is_file()]
            if not shards:
                msg = f"the folder must hold {TOOLS_FILE}, or shards (.jsonl, .parquet), got none"
                raise whole_file_error(place, msg)
            files += sorted(shards)
    if not files:
        msg = "tools must be given as at least one file or folder, got none"
        raise DataError(msg)
    return files


def pieces_of(files: Iterable[Path], size_bytes: int) -> list[Piece]:
    """Cut files into pieces, in their order: what workers read apart is together what files hold.

    Args:
        files: As `input_files` gives them.
        size_bytes: Of a piece of a JSONL file. A Parquet file is cut into its row groups.

    Raises:
        DataError: If a file cannot be read.
        MissingExtraError: If a Parquet file is given and pyarrow is not installed.
    """
    pieces: list[Piece] = []
    for path in files:
        if path.suffix == _PARQUET:
            with _parquet_file(path) as file:
                pieces += [Piece(path, group, group + 1) for group in range(file.num_row_groups)]
            continue
        try:
            size = path.stat().st_size
        except OSError as e:
            raise whole_file_error(path, f"the file cannot be read: {e.strerror}") from e
        pieces += [Piece(path, at, at + size_bytes) for at in range(0, size, size_bytes)]
    return pieces


def read_inputs(files: Iterable[Path]) -> Iterator[Line]:
    """Read the lines of files, one after the other; never a whole file.

    Raises:
        DataError: If a file as a whole cannot be read.
        MissingExtraError: If a Parquet file is given and pyarrow is not installed.
    """
    for path in files:
        yield from PieceLines(Piece(path))


def _checked(path: Path) -> Path:
    if not path.exists():
        raise whole_file_error(path, "the file does not exist")
    if path.suffix not in (_JSONL, _PARQUET):
        msg = f"a file of tools must end in {_JSONL} or {_PARQUET}, got {path.suffix or 'no end'}"
        raise whole_file_error(path, msg)
    return path


def _json_lines(piece: Piece, wanted: frozenset[int] | None) -> Iterator[tuple[int, Line | None]]:
    path = piece.path
    for number, line in read_lines(path, start=piece.start, end=piece.end, with_blank=True):
        if not line or (wanted is not None and number not in wanted):
            yield number, None
            continue
        try:
            yield number, Line(path, number, to_tool(parse_object(line)))
        except LineError as e:
            shown = line[: 4 * _MOST_SHOWN].decode("utf-8", "backslashreplace")[:_MOST_SHOWN]
            yield number, Line(path, number, None, str(e), shown)


def _parquet_lines(
    piece: Piece, wanted: frozenset[int] | None
) -> Iterator[tuple[int, Line | None]]:
    before = 0
    with _parquet_file(piece.path) as file:
        end = file.num_row_groups if piece.end is None else piece.end
        groups = list(range(piece.start, end))
        for batch in file.iter_batches(batch_size=_PARQUET_ROWS, row_groups=groups):
            numbers = range(before + 1, before + 1 + batch.num_rows)
            before += batch.num_rows
            chosen = [n for n in numbers if wanted is None or n in wanted]
            rows = batch if wanted is None else batch.take([n - numbers[0] for n in chosen])
            for number, record in zip(chosen, rows.to_pylist(), strict=True):
                yield number, _parquet_line(piece.path, number, record)
            yield before, None


@contextmanager
def _parquet_file(path: Path) -> Iterator[Any]:
    user = f"reading {path.name}"
    parquet = import_extra("pyarrow.parquet", user=user, extra="parquet")
    errors = import_extra("pyarrow", user=user, extra="parquet").ArrowException
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (errors, OSError) as e:
        reason = " ".join(str(e).split())[:200]
        raise whole_file_error(path, f"the file must be readable as Parquet, got: {reason}") from e


def _parquet_line(path: Path, number: int, record: Mapping[str, Any]) -> Line:
    try:
        # Through JSON, so that a record of either kind of file obeys the same rules.
        text = json.dumps(_plain(record), ensure_ascii=False, default=str)
        return Line(path, number, to_tool(parse_object(text.encode("utf-8", "surrogatepass"))))
    except (LineError, RecursionError) as e:
        return Line(path, number, None, str(e), repr(record)[:_MOST_SHOWN])


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    """A row as a JSON line would have it: absent for null, a schema that is text parsed."""
    fields = {name: value for name, value in record.items() if value is not None}
    for name in _SCHEMAS:
        schema = fields.get(name)
        if isinstance(schema, str):
            fields[name] = parse_object(schema.encode("utf-8", "surrogatepass"))
        elif schema is not None:
            fields[name] = _without_nulls(schema)
    return fields


def _without_nulls(value: Any) -> Any:
    """A struct without the fields that only other rows of its column have."""
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value
