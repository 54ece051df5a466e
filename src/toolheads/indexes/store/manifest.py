"""The manifest: which segments a folder holds, what they must look like, which rows are dead."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT = 1
NAME = "manifest.json"


class DamageError(Exception):
    """A file is not what was written."""


@dataclass(frozen=True)
class Entry:
    """One segment, as the manifest lists it."""

    file: str
    rows: int
    longest: str
    """Length of the longest row, as `float.hex` writes it."""
    size_bytes: int
    rows_sha256: str
    """Of the rows, which are read when something is looked for."""
    tail_sha256: str
    """Of the scales and keys, which are read when the index is opened."""
    dead: tuple[int, ...] = ()
    """Numbers of the rows that were removed, rising."""


@dataclass(frozen=True)
class Manifest:
    """What a folder holds."""

    space: str
    width: int
    dtype: str
    entries: tuple[Entry, ...] = field(default=())

    def to_bytes(self) -> bytes:
        """JSON, with a digest of all else in it."""
        body = asdict(self) | {"format": FORMAT}
        return (json.dumps(body | {"digest": _digest(body)}, indent=1) + "\n").encode()

    @classmethod
    def from_bytes(cls, raw: bytes) -> Manifest:
        """Read what `to_bytes` wrote.

        Raises:
            DamageError: If it is anything else.
        """
        try:
            body = json.loads(raw)
            digest = body.pop("digest")
            if body["format"] != FORMAT:
                msg = f"has index format {body['format']!r:.20}, this version reads {FORMAT}"
                raise DamageError(msg)
            if digest != _digest(body):
                msg = "must be what was written, got another digest"
                raise DamageError(msg)
            entries = tuple(Entry(**e | {"dead": tuple(e["dead"])}) for e in body["entries"])
            return cls(body["space"], body["width"], body["dtype"], entries)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            msg = f"must be the JSON that was written, got something else ({type(e).__name__})"
            raise DamageError(msg) from e


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
