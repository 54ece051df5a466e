"""One shard: a safetensors file with vectors and the sha256 of their texts, never changed.

The file's name is its own sha256. Written and read here rather than with the safetensors
library, whose numpy side has no bfloat16 and maps no file; the library reads these files.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from toolheads.cache.disk import Part, has_own_digest, write_by_digest
from toolheads.cache.keys import Keys
from toolheads.cache.precision import SAFETENSORS_NAMES, Stored, numpy_dtype

SUFFIX = ".safetensors"

FORMAT = "1"
"""Version of the layout of a cache folder and its files."""

_MAPPED_BYTES = 1 << 20
"""Smaller files are read rather than mapped: a map holds a file open, and thousands of small
shards would run into the limit of open files."""


class DamageError(Exception):
    """A file is not a whole shard; the message is the reason, without the path."""


class Shard:
    """A shard that exists on the disk.

    Its size and header are checked on opening. Whether its bytes are those that were written
    takes reading all of it: `is_intact`.

    Attributes:
        path: Where the file is, or was: `prune` may have merged it away meanwhile.
        keys: (n, 32) uint8, in memory.
        vectors: (n, d), a read-only view of the mapped file, of `numpy_dtype(dtype)`.
        size_bytes: Size of the file.

    Raises:
        DamageError: If the file is shorter or longer than its header says, or the header is not
            that of a shard with this width and dtype.
        FileNotFoundError: If it is gone.
    """

    def __init__(self, path: Path, *, width: int, dtype: str) -> None:
        self.path = path
        with path.open("rb") as file:
            header, data_bytes = read_header(file)
            rows = _checked_rows(header, data_bytes, width, dtype)
            offset = file.tell()
            self.size_bytes = offset + data_bytes
            self._is_mapped = self.size_bytes >= _MAPPED_BYTES
            file.seek(0)
            whole = (
                mmap.mmap(file.fileno(), self.size_bytes, access=mmap.ACCESS_READ)
                if self._is_mapped
                else file.read(self.size_bytes)
            )
        self._whole = memoryview(whole)
        content = self._whole[offset:]
        kind = numpy_dtype(dtype)
        self.vectors: Stored = np.frombuffer(content, kind, rows * width).reshape(rows, width)
        tail = content[rows * width * kind.itemsize :]
        self.keys: Keys = np.frombuffer(bytes(tail), np.uint8).reshape(rows, 32)

    def __len__(self) -> int:
        return len(self.keys)

    def let_go(self) -> None:
        """Give the pages that were read back to the system; they are read again when needed."""
        mapped = self._whole.obj
        # Not there on every system, and only a matter of memory.
        if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)

    def is_intact(self) -> bool:
        """Whether the sha256 of all bytes is the one in the name."""
        if self._is_mapped:
            # Through the file as long as it is there: reading a map whose file was cut off
            # ends the process.
            with suppress(FileNotFoundError):
                return has_own_digest(self.path)
        return hashlib.sha256(self._whole).hexdigest() == self.path.name.partition(".")[0]


def digest_damages(shards: Sequence[Shard]) -> list[str | None]:
    """What is wrong with the bytes of each shard, reading all of them; None if nothing is."""
    # Hashing releases the interpreter lock, so threads help.
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return list(pool.map(_digest_damage, shards))


def write_shard(folder: Path, keys: Keys, vectors: Stored, dtype: str) -> Path:
    """Write one shard.

    Args:
        folder: Where; must exist.
        keys: (n, 32) uint8, n >= 1.
        vectors: (n, d) of `numpy_dtype(dtype)`.
        dtype: One of `DTYPES`.

    Raises:
        CacheError: If the disk is full or the folder cannot be written.
    """
    # Widest entries first, as the safetensors library orders them: every tensor is aligned.
    tensors = {"vectors": (SAFETENSORS_NAMES[dtype], vectors), "keys": ("U8", keys)}
    return write_by_digest(folder, tensors_as_parts(tensors), suffix=SUFFIX)


def tensors_as_parts(tensors: dict[str, tuple[str, npt.NDArray[Any]]]) -> list[Part]:
    """Lay out a safetensors file: name → (safetensors dtype, array)."""
    header: dict[str, Any] = {"__metadata__": {"format": FORMAT}}
    start = 0
    for name, (kind, array) in tensors.items():
        end = start + array.nbytes
        header[name] = _tensor(kind, array.shape, start, end)
        start = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    arrays = [np.ascontiguousarray(array).data for _, array in tensors.values()]
    return [len(text).to_bytes(8, "little"), text, *arrays]


def read_header(file: BinaryIO) -> tuple[dict[str, Any], int]:
    """Read a safetensors header; the file is left where the data starts.

    Returns:
        The header without its metadata, and how many bytes of data follow it.

    Raises:
        DamageError: If this is no safetensors file of this format.
    """
    size_bytes = file.seek(0, os.SEEK_END)
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if size_bytes < 8 + length or length == 0:
        msg = f"must hold its header, got {size_bytes} bytes"
        raise DamageError(msg)
    try:
        header = json.loads(file.read(length))
        version = header.pop("__metadata__")["format"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise DamageError("must have the header of a shard, got something else") from e
    if version != FORMAT:
        msg = f"has cache format {version!r:.20}, this version reads {FORMAT!r}"
        raise DamageError(msg)
    return header, size_bytes - 8 - length


def _digest_damage(shard: Shard) -> str | None:
    try:
        if shard.is_intact():
            return None
    except OSError as e:
        return f"cannot be read: {e.strerror}"
    return "must have the sha256 that is its name, got another"


def _checked_rows(header: dict[str, Any], data_bytes: int, width: int, dtype: str) -> int:
    """How many rows a shard has, if it is one of this width and dtype."""
    row_bytes = width * numpy_dtype(dtype).itemsize
    rows, rest = divmod(data_bytes, row_bytes + 32)
    end = rows * row_bytes
    expected = {
        "vectors": _tensor(SAFETENSORS_NAMES[dtype], (rows, width), 0, end),
        "keys": _tensor("U8", (rows, 32), end, data_bytes),
    }
    if rest or rows == 0 or header != expected:
        about = f"width {width}, {dtype}, {data_bytes} bytes of data"
        msg = f"must have the header of a shard of {about}, got another"
        raise DamageError(msg)
    return rows


def _tensor(kind: str, shape: tuple[int, ...], start: int, end: int) -> dict[str, Any]:
    return {"dtype": kind, "shape": list(shape), "data_offsets": [start, end]}
