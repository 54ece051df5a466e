"""A structure as a file: one line of JSON with a digest, then what faiss and the keys are.

The rows themselves are in the store: a file that is missing or damaged costs time, no rows.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from pathlib import Path

from toolheads.durable import write_whole
from toolheads.indexes.faiss_index.structure import Structure, from_bytes, to_bytes

FORMAT = 1
_LONGEST_HEADER = 1 << 16


class StructureFileError(Exception):
    """A file does not hold the structure that was written."""


def write_structure(path: Path, structure: Structure, *, space: str) -> None:
    """Write a structure, whole or not at all.

    Raises:
        OSError: If it cannot be written.
    """
    header, parts = to_bytes(structure)
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    line = header | {"format": FORMAT, "space": space, "sha256": digest.hexdigest()}
    write_whole(path, (json.dumps(line) + "\n").encode(), *parts)


def read_structure(path: Path, *, space: str) -> Structure | None:
    """Read a structure; None if there is no file.

    Raises:
        StructureFileError: If it is damaged, or of another space or format.
        OSError: If it cannot be read.
    """
    try:
        with path.open("rb") as file:
            line = file.readline(_LONGEST_HEADER)
            # Mapped, since a structure may be as large as half of the memory.
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                return _read(line, mapped, space=space)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RuntimeError, RecursionError) as e:
        msg = f"must hold a structure, got something else ({type(e).__name__})"
        raise StructureFileError(msg) from e


def _read(line: bytes, mapped: mmap.mmap, *, space: str) -> Structure:
    header = json.loads(line)
    if (header["format"], header["space"]) != (FORMAT, space):
        msg = f"must have format {FORMAT} and space {space}"
        raise StructureFileError(msg)
    with memoryview(mapped) as whole, whole[len(line) :] as payload:
        if hashlib.sha256(payload).hexdigest() != header["sha256"]:
            msg = "must hold what was written, got other bytes"
            raise StructureFileError(msg)
        return from_bytes(header, payload)
