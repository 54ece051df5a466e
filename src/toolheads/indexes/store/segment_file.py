"""One segment as a file: rows, their scales where the dtype has them, and keys.

    rows      n * d values, little endian
    scales    n float32, for int8 only; starts at a multiple of 64 bytes
    keys      UTF-8, each followed by a line feed

The rows are first, so that a mapped file is aligned. What is in it, and its digests, is in the
manifest.
"""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Floats
from toolheads.durable import write_whole
from toolheads.indexes.precision import StoredRows, numpy_dtype
from toolheads.indexes.snapshot import Segment
from toolheads.indexes.store.manifest import DamageError, Entry

SUFFIX = ".rows"
_ALIGNMENT = 64


def write_segment(folder: Path, segment: Segment) -> Entry:
    """Write a segment under a name of its own; complete on the disk when it returns.

    Raises:
        OSError: If it cannot be written.
    """
    rows = _as_bytes(segment.rows.values)
    padding = b"\0" * (-len(rows) % _ALIGNMENT)
    scales = b"" if segment.rows.scales is None else segment.rows.scales.tobytes()
    keys = "".join(f"{key}\n" for key in segment.keys).encode("utf-8")
    path = folder / f"{secrets.token_hex(8)}{SUFFIX}"
    write_whole(path, rows, padding, scales, keys)
    return Entry(
        file=path.name,
        rows=len(segment.keys),
        longest=segment.longest.hex(),
        size_bytes=len(rows) + len(padding) + len(scales) + len(keys),
        rows_sha256=hashlib.sha256(rows).hexdigest(),
        tail_sha256=hashlib.sha256(scales + keys).hexdigest(),
    )


def read_segment(folder: Path, entry: Entry, *, width: int, dtype: str) -> Segment:
    """Map the rows of a segment, read its keys, and check all that needs no row.

    Raises:
        DamageError: If the file is not there, has another size, or other keys.
        OSError: If it cannot be read.
    """
    path = folder / entry.file
    kind = numpy_dtype(dtype)
    rows_end = entry.rows * width * kind.itemsize
    tail_start = rows_end + -rows_end % _ALIGNMENT
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size != entry.size_bytes:
                msg = f"{path} must have {entry.size_bytes} bytes, got {size}"
                raise DamageError(msg)
            file.seek(tail_start)
            tail = file.read()
            values: npt.NDArray[Any] = np.memmap(file, kind, "r", 0, (entry.rows, width))
    except FileNotFoundError as e:
        msg = f"{path} must exist, got no such file"
        raise DamageError(msg) from e
    if hashlib.sha256(tail).hexdigest() != entry.tail_sha256:
        msg = f"{path} must hold the keys that were written, got others"
        raise DamageError(msg)
    scales: Floats | None = None
    scales_end = 0
    if dtype == "int8":
        scales_end = 4 * entry.rows
        scales = np.frombuffer(tail, "<f4", entry.rows)
    keys = tuple(tail[scales_end:].decode("utf-8").split("\n")[:-1])
    stored = StoredRows(values.view(np.ndarray), scales)
    return Segment(keys, stored, float.fromhex(entry.longest), entry.file)


def holds_what_was_written(segment: Segment, entry: Entry) -> bool:
    """Whether the rows of a mapped file have the digest that they were written with.

    Reads all of them. The file may be gone from its folder: what is mapped stays.
    """
    return hashlib.sha256(_as_bytes(segment.rows.values)).hexdigest() == entry.rows_sha256


def _as_bytes(values: npt.NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
