"""Rows of a release's files: Parquet, JSON lines or one JSON list. Knows no tool and no query."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from toolheads.errors import DataError, import_extra

_BATCH = 1024
"""Rows of a Parquet file that are in memory at once."""
SUFFIXES = (".parquet", ".jsonl", ".json")


def files_below(folder: Path, where: str = "**/*") -> list[Path]:
    """Files of a kind that can be read, in order of their path.

    Raises:
        DataError: If there is none.
    """
    found = sorted(path for path in folder.glob(where) if path.suffix in SUFFIXES)
    if not found:
        msg = f"{folder} must hold files {where} ({', '.join(SUFFIXES)}), got none"
        raise DataError(msg)
    return found


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Give the rows of a file.

    Args:
        path: Its suffix says how it is read.
        columns: What each row must have.

    Raises:
        DataError: If it cannot be read or a row lacks one of the columns.
        MissingExtraError: If it is Parquet and pyarrow is not installed.
    """
    if path.suffix == ".parquet":
        yield from _parquet_rows(path, columns)
        return
    rows: Iterator[Any] | list[Any]
    rows = _lines(path) if path.suffix == ".jsonl" else read_json(path, list)
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            msg = f"row {number} of {path} must be an object, got {type(row).__name__}"
            raise DataError(msg)
        _check_columns(row, columns, f"row {number} of {path}")
        yield row


def read_json(path: Path, kind: type[list[Any]] | type[dict[str, Any]]) -> Any:
    """Read a file that is one JSON value; vectors in it (`…_embedding`) are dropped as read.

    Raises:
        DataError: If it cannot be read or is no such value.
    """
    try:
        value = parse_json(path.read_text("utf-8"))
    except (OSError, ValueError) as e:
        msg = f"{path} must be a JSON file, got {type(e).__name__}: {e}"
        raise DataError(msg) from e
    if not isinstance(value, kind):
        msg = f"{path} must hold a JSON {kind.__name__}, got {type(value).__name__}"
        raise DataError(msg)
    return value


def parse_json(text: str) -> Any:
    """Parse JSON as releases have it: NaN and infinity become null.

    Raises:
        ValueError: If it is no JSON.
    """
    try:
        return json.loads(
            text,
            parse_constant=lambda _: None,
            parse_float=_finite,
            object_hook=_without_vectors,
        )
    except RecursionError as e:
        msg = "nested too deep"
        raise ValueError(msg) from e


def whole_text(text: str) -> str:
    """A text that UTF-8 can write: halves of a surrogate pair are joined, lone ones replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def whole_value(value: Any) -> Any:
    """A JSON value with `whole_text` for every text in it."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, dict):
        return {whole_text(str(name)): whole_value(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [whole_value(inner) for inner in value]
    return value


def _finite(literal: str) -> float | None:
    number = float(literal)
    return number if math.isfinite(number) else None


def _without_vectors(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if not name.endswith("_embedding")}


def _lines(path: Path) -> Iterator[Any]:
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    try:
                        yield parse_json(line)
                    except ValueError as e:
                        msg = f"line {number} of {path} must be JSON, got: {e}"
                        raise DataError(msg) from e
    except (OSError, UnicodeDecodeError) as e:
        msg = f"{path} must be a UTF-8 file, got {type(e).__name__}: {e}"
        raise DataError(msg) from e


def _parquet_rows(path: Path, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    parquet = import_extra("pyarrow.parquet", user="data pull", extra="data")
    arrow = import_extra("pyarrow", user="data pull", extra="data")
    try:
        with parquet.ParquetFile(path) as file:
            _check_columns(dict.fromkeys(file.schema_arrow.names), columns, str(path))
            for batch in file.iter_batches(batch_size=_BATCH):
                yield from batch.to_pylist()
    except (OSError, arrow.ArrowException) as e:
        msg = f"{path} must be a Parquet file, got {type(e).__name__}: {e}"
        raise DataError(msg) from e


def _check_columns(row: dict[str, Any], columns: Sequence[str], where: str) -> None:
    if missing := [name for name in columns if name not in row]:
        msg = (
            f"{where} must have the columns {', '.join(columns)}, got {', '.join(row) or 'none'} "
            f"(no {', '.join(missing)}); is this the release, and at this revision?"
        )
        raise DataError(msg)
