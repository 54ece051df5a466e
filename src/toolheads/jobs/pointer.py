"""Which space of a folder is the current one: a small file that is replaced whole.

Rows of several heads lie in one folder side by side. A process that serves certain heads finds
theirs by itself; the pointer is for one that asks for whatever the last finished job made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from toolheads.durable import write_whole
from toolheads.errors import IndexStoreError
from toolheads.indexes import open_index
from toolheads.ports import VectorIndex

NAME = "current.json"
_FORMAT = 1


@dataclass(frozen=True)
class Current:
    """The index that the last finished job made."""

    kind: str
    space: str
    width: int
    dtype: str
    heads: str
    """Name of the heads; queries must be projected with these."""
    rows: int
    settings: Mapping[str, Any] = field(default_factory=dict)


def write_current(folder: Path, current: Current) -> None:
    """Point at another index, in one step.

    Raises:
        OSError: If it cannot be written; the old one stays.
    """
    about = {"format": _FORMAT, **asdict(current)}
    write_whole(folder / NAME, (json.dumps(about, indent=1, ensure_ascii=True) + "\n").encode())


def read_current(folder: str | Path) -> Current:
    """What the pointer of a folder says.

    Raises:
        IndexStoreError: If there is none, or it is damaged.
    """
    path = Path(folder) / NAME
    try:
        about = json.loads(path.read_bytes())
        if about.pop("format") == _FORMAT:
            return Current(**about)
        reason = "another format"
    except FileNotFoundError:
        reason = "no such file; run toolheads reindex"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        reason = f"something else ({type(e).__name__})"
    msg = f"{path} must name the current index, got {reason}"
    raise IndexStoreError(msg)


def open_current(folder: str | Path) -> tuple[VectorIndex, Current]:
    """Open the index that the last finished job made in a folder.

    Raises:
        IndexStoreError: If there is none, or it cannot be read.
        MissingExtraError: If its library is not installed.
    """
    about = read_current(folder)
    index = open_index(
        about.kind,
        space=about.space,
        width=about.width,
        folder=folder,
        dtype=about.dtype,
        **about.settings,
    )
    return index, about
