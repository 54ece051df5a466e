"""Where a job writes an index: beside the old one, until one step puts it in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from toolheads.arrays import Floats
from toolheads.errors import ConfigError
from toolheads.indexes import DTYPES, KINDS
from toolheads.indexes.checks import check_choice

DATABASE_KIND = "pgvector"


@dataclass(frozen=True)
class Target:
    """Which index is written, and where."""

    kind: str = "numpy"
    """One of `toolheads.indexes.KINDS`."""
    folder: Path | None = None
    """The folder of numpy and faiss."""
    dsn: str | None = None
    """The database of pgvector."""
    dtype: str = "float32"
    """What rows are stored in."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the kind, see `toolheads.indexes.open_index`."""

    def __post_init__(self) -> None:
        check_choice(self.kind, KINDS, "index")
        check_choice(self.dtype, DTYPES, "dtype")
        wanted, unwanted = ("dsn", "out") if self.is_database else ("out", "dsn")
        places = {"out": self.folder, "dsn": self.dsn}
        if not places[wanted] or places[unwanted]:
            msg = f"{wanted}, and not {unwanted}, must be given for index {self.kind}"
            raise ConfigError(msg)

    @property
    def is_database(self) -> bool:
        """Whether rows go to a database."""
        return self.kind == DATABASE_KIND


@dataclass(frozen=True)
class Swapped:
    """What putting the new rows in place changed."""

    added: int
    removed: int
    size_bytes: int
    """Written for the rows that are new."""
    structure: Mapping[str, Any] | None = None
    """What faiss built, see `FaissIndex.about`; None for other kinds, and before it builds one."""


class Writing(Protocol):
    """An index that is being written. Rows that were added outlive a kill."""

    resumed: int
    """Rows that an earlier run of the same job had written when it ended early."""
    is_there: Callable[[str], bool]
    """Whether the row of a key is in the index, or was added for the new one."""

    def add(self, keys: Sequence[str], rows: Floats) -> None:
        """Keep rows for the new index; no search sees them yet."""
        ...

    def finish(self, is_wanted: Callable[[str], bool]) -> Swapped:
        """Put the new rows in place, and take others out, in one step."""
        ...

    def close(self) -> None:
        """Let go of the index."""
        ...


def open_target(target: Target, *, space: str, width: int) -> Writing:
    """Open what a job writes to; one job at a time.

    Raises:
        ConfigError: If a setting of the kind is unknown or breaks its rule.
        IndexStoreError: If the index cannot be reached, or another job is at work on it.
        MissingExtraError: If the kind's library is not installed.
    """
    name = "database" if target.is_database else "folder"
    module = import_module(f"toolheads.jobs.{name}_target")
    opened: Writing = module.open_writing(target, space=space, width=width)
    return opened
