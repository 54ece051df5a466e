"""What was worked out of a catalogue, on the disk: a start with the same tools reads no text.

One file beside the index: 32 bytes of sha256 over the rest, then a numpy archive. A file that is
damaged, of another version, space or setting is as good as none.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Floats
from toolheads.durable import write_whole
from toolheads.errors import ToolheadsError
from toolheads.lexical import FieldedIndex, LexicalSettings
from toolheads.retrieval.state import Snapshot
from toolheads.scorers.spread import Spread

_log = logging.getLogger(__name__)

_FORMAT = 1
_LEXICAL, _SPREAD = "lexical/", "spread/"


@dataclass(frozen=True)
class Warm:
    """What a file holds."""

    snapshot: Snapshot
    probe: Floats | None
    """(p, d) float32, vectors of the probe texts by the encoder that made the rows."""


def write_warm(path: Path, warm: Warm, space: str) -> None:
    """Write the file whole or not at all.

    Raises:
        OSError: If it cannot be written.
    """
    snapshot = warm.snapshot
    lines = list(snapshot.lines.items())
    header = {
        "format": _FORMAT,
        "space": space,
        "ids": snapshot.ids,
        "missing": [key for key in dict.fromkeys(snapshot.keys) if key not in snapshot.embedded],
        "keys": snapshot.keys,
    }
    arrays: dict[str, npt.NDArray[Any]] = {
        "header": np.frombuffer(json.dumps(header).encode(), np.uint8),
        "digests": _bytes(snapshot.digests, 32),
        "lines": _bytes([line for line, _ in lines], 20),
        "of_lines": _bytes([digest for _, digest in lines], 32),
        **{_LEXICAL + name: array for name, array in snapshot.words.to_arrays().items()},
    }
    if snapshot.spread is not None and snapshot.spread.is_summed:
        spread = snapshot.spread.to_arrays()
        arrays |= {_SPREAD + name: array for name, array in spread.items()}
    if warm.probe is not None:
        arrays["probe"] = warm.probe
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]  # numpy's stub takes names for options
    body = content.getbuffer()
    write_whole(path, hashlib.sha256(body).digest(), body)


def read_warm(path: Path, space: str, settings: LexicalSettings) -> Warm | None:
    """Read what `write_warm` wrote; None if there is nothing that can be used.

    Args:
        path: The file.
        space: Of the rows.
        settings: Of the words.
    """
    try:
        content = path.read_bytes()
    except OSError:
        return None
    try:
        return _read(content, space, settings)
    except (
        ToolheadsError,
        ValueError,
        KeyError,
        TypeError,
        OSError,
        EOFError,
        RecursionError,
        zipfile.BadZipFile,
    ) as e:
        _log.warning("%s cannot be used and is made anew: %s", path, e)
        return None


def _read(content: bytes, space: str, settings: LexicalSettings) -> Warm | None:
    digest, body = content[:32], memoryview(content)[32:]
    if hashlib.sha256(body).digest() != digest:
        raise ValueError("the file must have the sha256 that it begins with, got another")
    with np.load(io.BytesIO(body), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(arrays["header"].tobytes())
    if (header["format"], header["space"]) != (_FORMAT, space):
        return None
    words = FieldedIndex.from_arrays(_under(arrays, _LEXICAL))
    if words.settings != settings:
        return None
    keys, missing = tuple(header["keys"]), set(header["missing"])
    of_spread = _under(arrays, _SPREAD)
    snapshot = Snapshot(
        tuple(header["ids"]),
        _parts(arrays["digests"]),
        keys,
        words,
        Spread.from_arrays(of_spread) if of_spread else None,
        frozenset(keys) - missing,
        dict(zip(_parts(arrays["lines"]), _parts(arrays["of_lines"]), strict=True)),
    )
    if not len(snapshot.ids) == len(snapshot.digests) == len(keys) == len(words):
        raise ValueError("ids, digests, keys and words must be of the same tools, got others")
    return Warm(snapshot, arrays.get("probe"))


def _under(arrays: dict[str, npt.NDArray[Any]], prefix: str) -> dict[str, npt.NDArray[Any]]:
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}


def _bytes(parts: Any, width: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(b"".join(parts), np.uint8).reshape(-1, width)


def _parts(rows: npt.NDArray[Any]) -> tuple[bytes, ...]:
    return tuple(row.tobytes() for row in rows)
