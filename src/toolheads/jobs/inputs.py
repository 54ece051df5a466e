"""Tools out of JSONL and Parquet files, one at a time: a bad line costs that line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def read_inputs(files: Iterable[Path]) -> Iterator[Line]:
    """Read the lines of files, one after the other; never a whole file.

    Raises:
        DataError: If a file as a whole cannot be read.
        MissingExtraError: If a Parquet file is given and pyarrow is not installed.
    """
    for path in files:
        yield from _parquet_lines(path) if path.suffix == _PARQUET else _json_lines(path)


def _checked(path: Path) -> Path:
    if not path.exists():
        raise whole_file_error(path, "the file does not exist")
    if path.suffix not in (_JSONL, _PARQUET):
        msg = f"a file of tools must end in {_JSONL} or {_PARQUET}, got {path.suffix or 'no end'}"
        raise whole_file_error(path, msg)
    return path


def _json_lines(path: Path) -> Iterator[Line]:
    for number, line in read_lines(path):
        try:
            yield Line(path, number, to_tool(parse_object(line)))
        except LineError as e:
            shown = line[: 4 * _MOST_SHOWN].decode("utf-8", "backslashreplace")[:_MOST_SHOWN]
            yield Line(path, number, None, str(e), shown)


def _parquet_lines(path: Path) -> Iterator[Line]:
    user = f"reading {path.name}"
    parquet = import_extra("pyarrow.parquet", user=user, extra="parquet")
    errors = import_extra("pyarrow", user=user, extra="parquet").ArrowException
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_PARQUET_ROWS):
                for record in batch.to_pylist():
                    number += 1
                    yield _parquet_line(path, number, record)
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
