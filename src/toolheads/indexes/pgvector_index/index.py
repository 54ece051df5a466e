"""Rows of one space in a table of PostgreSQL."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from toolheads.arrays import Floats
from toolheads.errors import ConfigError, IndexStoreError, import_extra
from toolheads.indexes.checks import (
    check_at_least,
    check_choice,
    check_space,
    checked_keys,
    checked_queries,
    checked_rows,
)
from toolheads.indexes.pgvector_index.database import Database
from toolheads.indexes.pgvector_index.search import best_rows, to_floats
from toolheads.indexes.pgvector_index.table import (
    Table,
    TableSettings,
    extension_version,
    set_local,
)
from toolheads.indexes.pgvector_index.takeover import move_rows
from toolheads.indexes.precision import to_stored
from toolheads.indexes.scan import lengths

_logger = logging.getLogger(__name__)

DTYPES = ("float32", "float16")
"""What `dtype` may be."""


class PgvectorIndex:
    """Search in PostgreSQL. See `toolheads.ports.VectorIndex`. Safe to share between threads.

    Exact without HNSW; scores are those of the other indexes either way. Several processes may
    write at once and lose nothing. A search that loses its connection is done once more.

    Args:
        dsn: As libpq reads it, such as `postgresql://user@host/name`.
        space: See `toolheads.indexes.keys.space_of`.
        width: d, at most 16,000.
        dtype: `float32`, or `float16` in a column of type halfvec where the server has it.
        schema: Schema of the tables; made if need be.
        table: First part of the table's name.
        hnsw: Whether to search through an HNSW index, for rows of up to 4,000 entries.
        neighbours: HNSW: links of a row, 2 to 100.
        ef_construction: HNSW: rows looked at to find the links of a new one.
        ef_search: HNSW: rows looked at for a query, at least; 1 to 1,000.
        index_from: The HNSW index is built when there are so many rows; fewer are scanned.
        memory_mb: Memory for building it, in MiB.
        pool_size: Most connections.
        timeout_s: Longest wait for a connection, and for a statement of a search.
        write_timeout_s: Longest wait for a statement that writes.

    Raises:
        MissingExtraError: If psycopg or pgvector is not installed.
        ConfigError: If a setting breaks its rule, or the space has rows of another width.
        IndexStoreError: If the database cannot be reached, or has no pgvector.
    """

    def __init__(
        self,
        *,
        dsn: str,
        space: str,
        width: int,
        dtype: str = "float32",
        schema: str = "toolheads",
        table: str = "rows",
        hnsw: bool = True,
        neighbours: int = 16,
        ef_construction: int = 64,
        ef_search: int = 100,
        index_from: int = 2048,
        memory_mb: int = 512,
        pool_size: int = 4,
        timeout_s: float = 10.0,
        write_timeout_s: float = 600.0,
    ) -> None:
        for name, value in (("timeout_s", timeout_s), ("write_timeout_s", write_timeout_s)):
            if not 0 < value < math.inf:
                msg = f"{name} must be > 0 and finite, got {value!r}"
                raise ConfigError(msg)
        self._dtype = check_choice(dtype, DTYPES, "dtype")
        self._width = check_at_least(1, width, "width")
        self._index_from = check_at_least(1, index_from, "index_from")
        self._memory_mb = check_at_least(1, memory_mb, "memory_mb")
        self._write_timeout_s = write_timeout_s
        settings = TableSettings(
            schema=schema,
            prefix=table,
            space=check_space(space),
            width=self._width,
            dtype=dtype,
            hnsw=hnsw,
            neighbours=check_at_least(1, neighbours, "neighbours"),
            ef_construction=check_at_least(1, ef_construction, "ef_construction"),
            ef_search=check_at_least(1, ef_search, "ef_search"),
        )

        def prepare(connection: Any) -> Mapping[str, str]:
            self._table = Table(settings, extension_version(connection))
            self._table.make(connection)
            return self._table.connection_settings

        self._database = Database(
            dsn,
            pool_size=check_at_least(1, pool_size, "pool_size"),
            timeout_s=timeout_s,
            prepare=prepare,
        )
        vectors = import_extra("pgvector", user="indexes.pgvector", extra="pgvector")
        self._to_column = vectors.HalfVector if self._table.kind == "halfvec" else vectors.Vector

    @property
    def width(self) -> int:
        """See `toolheads.ports.VectorIndex`."""
        return self._width

    @property
    def is_exact(self) -> bool:
        """Without HNSW."""
        return not self._table.has_hnsw

    @property
    def is_at_hand(self) -> bool:
        """Never: the database is another process."""
        return False

    @property
    def faults(self) -> tuple[str, ...]:
        """None: the database looks after its own files."""
        return ()

    def __len__(self) -> int:
        statement = self._table.write("SELECT count(*) FROM {table}")
        return int(self._database.run(lambda c: c.execute(statement).fetchone()[0]))

    def keys(self) -> frozenset[str]:
        """See `toolheads.ports.VectorIndex`."""
        statement = self._table.write("SELECT key FROM {table}")
        return frozenset(
            key for (key,) in self._database.run(lambda c: c.execute(statement).fetchall())
        )

    def apply(self, keys: Sequence[str], rows: Floats, removed: Collection[str] = ()) -> None:
        """See `toolheads.ports.VectorIndex`. A key in both is kept."""
        listed, floats = checked_rows(keys, rows, width=self._width)
        gone = sorted(set(checked_keys(removed, "removed")).difference(listed))
        stored = to_stored(floats, self._dtype).floats(slice(None))
        if not listed and not gone:
            return
        values = [
            (key, self._to_column(row), float(length))
            for key, row, length in zip(listed, stored, lengths(stored), strict=True)
        ]

        def write(connection: Any) -> None:
            set_local(connection, "statement_timeout", f"{round(self._write_timeout_s * 1000)}ms")
            connection.execute(self._table.write("LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"))
            if gone:
                connection.execute(
                    self._table.write("DELETE FROM {table} WHERE key = ANY(%s)"), [gone]
                )
            if values:
                connection.cursor().executemany(
                    self._table.write(
                        "INSERT INTO {table} (key, row, length) VALUES (%s, %b, %s) "
                        "ON CONFLICT (key) DO NOTHING"
                    ),
                    values,
                )

        self._database.run(_at_once(write))
        if values:
            self._make_index()

    def take_over(self, staged: PgvectorIndex, removed: Collection[str] = ()) -> None:
        """Take over all rows of another table, and remove others, in one transaction.

        Args:
            staged: Of the same database, space and settings but for the first part of the table's
                name. Its table is gone afterwards, and it is not to be used any more.
            removed: Keys to remove; one that the other table has as well is kept.

        Raises:
            IndexStoreError: If the database fails; nothing is changed.
        """
        gone = sorted(checked_keys(removed, "removed"))
        if not len(self):
            staged._index_from = self._index_from
            staged._make_index()  # before anybody searches it

        def move(connection: Any) -> None:
            set_local(connection, "statement_timeout", f"{round(self._write_timeout_s * 1000)}ms")
            # If the connection broke after the commit, this is the second try.
            if self._database_has(connection, staged):
                move_rows(connection, self._table, staged._table, gone)

        self._database.run(_at_once(move))
        staged.close()
        self._make_index()

    def search(self, queries: Floats, k: int) -> list[tuple[list[str], Floats]]:
        """See `toolheads.ports.VectorIndex`."""
        floats, count = checked_queries(queries, k, width=self._width)
        return self._database.run(
            lambda connection: [best_rows(connection, self._table, q, count) for q in floats]
        )

    def gather(self, keys: Sequence[str]) -> Floats:
        """See `toolheads.ports.VectorIndex`."""
        listed = checked_keys(keys, "keys")
        statement = self._table.write("SELECT key, row FROM {table} WHERE key = ANY(%s)")
        found = dict(
            self._database.run(
                lambda c: c.cursor(binary=True).execute(statement, [list(set(listed))]).fetchall()
            )
        )
        for key in listed:
            if key not in found:
                raise KeyError(key)
        out = np.empty((len(listed), self._width), np.float32)
        for row, key in enumerate(listed):
            out[row] = to_floats(found[key])
        return out

    def refresh(self) -> None:
        """Nothing to do: each search sees what other processes wrote."""

    def verify(self) -> tuple[str, ...]:
        """Nothing to do: the database looks after its own files."""
        return ()

    def close(self) -> None:
        """See `toolheads.ports.VectorIndex`."""
        self._database.close()

    def _database_has(self, connection: Any, other: PgvectorIndex) -> bool:
        schema, name = other._table.settings.place
        statement = "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = %s"
        return connection.execute(statement, [schema, name]).fetchone() is not None

    def _make_index(self) -> None:
        """Build the HNSW index when it is due. Without it rows are found all the same."""
        if not self._table.has_hnsw:
            return
        try:
            if self._database.run(self._table.has_index) or len(self) < self._index_from:
                return
            self._database.run(_at_once(self._build))
        except IndexStoreError as e:
            _logger.warning("the HNSW index was not built: %s; rows are scanned", e)

    def _build(self, connection: Any) -> None:
        self._table.make_index(
            connection, memory_mb=self._memory_mb, timeout_s=self._write_timeout_s
        )


def _at_once(work: Callable[[Any], None]) -> Callable[[Any], None]:
    """The same in one transaction."""

    def in_transaction(connection: Any) -> None:
        with connection.transaction():
            work(connection)

    return in_transaction
