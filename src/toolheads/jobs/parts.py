"""What a job is made of, and what reads the tools of one: in this process or over many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from toolheads.heads import Heads
from toolheads.jobs.quarantine import Quarantine
from toolheads.jobs.rows import RowMaker
from toolheads.jobs.target import Target, Writing
from toolheads.ports import Encoder


@dataclass(frozen=True)
class Parts:
    """What a job works with, wherever it runs."""

    heads: Heads
    encoder: Callable[[], Encoder]
    cache: Path
    cache_dtype: str
    maker: RowMaker
    writing: Writing
    quarantine: Quarantine
    target: Target
    at_once: int
    """Tools whose vectors are held at once."""
    progress: Callable[[int], None]


class Reading(Protocol):
    """Reads tools, and adds the rows that are not there."""

    seen: int
    """Lines that were read."""
    tools: int
    """Lines that are tools with a row."""
    resumed: int
    """Rows that an earlier run had made, apart from those that were added already."""

    @property
    def wanted(self) -> int:
        """Rows that the index is to hold."""
        ...

    def is_wanted(self, key: str) -> bool:
        """Whether the row of a key belongs to a tool."""
        ...

    def read(self, files: Sequence[Path]) -> None:
        """Read all tools, and add what is missing."""
        ...
