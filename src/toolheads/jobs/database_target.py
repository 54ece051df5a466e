"""A table of pgvector: new rows go to a table beside, and one transaction puts them in place."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from toolheads.arrays import Floats
from toolheads.errors import IndexStoreError, import_extra
from toolheads.indexes import open_index
from toolheads.indexes.pgvector_index.index import PgvectorIndex
from toolheads.jobs.target import Swapped, Target

_STAGED = "{}_new"
_NEVER = 1 << 62
_TABLE = "rows"
"""First part of the name of the tables, as `PgvectorIndex` has it."""


class DatabaseWriting:
    """See `toolheads.jobs.target.Writing`.

    Args:
        target: Which database.
        space: See `toolheads.indexes.keys.space_of`.
        width: d.

    Raises:
        ConfigError: If a setting breaks its rule.
        IndexStoreError: If the database cannot be reached, or another job is at work on the space.
        MissingExtraError: If psycopg or pgvector is not installed.
    """

    def __init__(self, target: Target, *, space: str, width: int) -> None:
        self._target, self._space, self._width = target, space, width
        self._live = self._opened(dict(target.settings))
        table = _STAGED.format(target.settings.get("table", _TABLE))
        self._lock: Any = None
        try:
            # The graph of many rows at once is built faster than row by row.
            self._staged = self._opened({**target.settings, "table": table, "index_from": _NEVER})
        except BaseException:
            self._live.close()
            raise
        try:
            self._lock = _held_lock(target, space)
            self._before = self._live.keys()
            self._added = set(self._staged.keys())
        except BaseException:
            self.close()
            raise
        self.resumed = len(self._added)
        self._size_bytes = 0

    def is_there(self, key: str) -> bool:
        """See `toolheads.jobs.target.Writing`."""
        return key in self._added or key in self._before

    def add(self, keys: Sequence[str], rows: Floats) -> None:
        """See `toolheads.jobs.target.Writing`."""
        self._staged.apply(keys, rows)
        self._added.update(keys)
        self._size_bytes += self._width * len(keys) * (2 if self._target.dtype == "float16" else 4)

    def finish(self, is_wanted: Callable[[str], bool]) -> Swapped:
        """See `toolheads.jobs.target.Writing`."""
        before = self._live.keys()
        gone = {key for key in before if not is_wanted(key)}
        unwanted = {key for key in self._added if not is_wanted(key)}
        if unwanted:
            self._staged.apply([], np.empty((0, self._width), np.float32), unwanted)
        fresh = self._added - unwanted - before
        self._live.take_over(self._staged, gone)
        return Swapped(len(fresh), len(gone), self._size_bytes)

    def close(self) -> None:
        """See `toolheads.jobs.target.Writing`."""
        self._staged.close()
        self._live.close()
        if self._lock is not None:
            self._lock.close()

    def _opened(self, settings: dict[str, Any]) -> PgvectorIndex:
        index = open_index(
            "pgvector",
            space=self._space,
            width=self._width,
            dsn=self._target.dsn,
            dtype=self._target.dtype,
            **settings,
        )
        assert isinstance(index, PgvectorIndex)
        return index


def _held_lock(target: Target, space: str) -> Any:
    """A connection that holds the lock of the jobs of a space; the lock goes with it.

    Raises:
        IndexStoreError: If another job holds it.
    """
    psycopg = import_extra("psycopg", user="indexes.pgvector", extra="pgvector")
    name = f"reindex {target.settings} {target.dtype} {space}"
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
    try:
        connection = psycopg.connect(target.dsn, autocommit=True)
        (is_held,) = connection.execute("SELECT pg_try_advisory_lock(%s)", [number]).fetchone()
    except psycopg.Error as e:
        msg = f"the database must answer, got {type(e).__name__}"
        raise IndexStoreError(msg) from e
    if not is_held:
        connection.close()
        msg = f"the table of space {space} must be free, got another writer at work on it"
        raise IndexStoreError(msg)
    return connection


def open_writing(target: Target, *, space: str, width: int) -> DatabaseWriting:
    """See `toolheads.jobs.target.open_target`."""
    return DatabaseWriting(target, space=space, width=width)
