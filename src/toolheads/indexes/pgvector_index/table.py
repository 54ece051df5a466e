"""The table of one space in PostgreSQL: its name, its columns, its index.

Each space and dtype has a table of its own, so that rows of other spaces never stand in the way of
a search, and an old space goes with `DROP TABLE`.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolheads.errors import ConfigError, IndexStoreError, import_extra

_logger = logging.getLogger(__name__)

_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_MOST_LETTERS = 63
"""Of a name in PostgreSQL."""
_SPACE_DIGITS = 32

_LOCK = 0x746F6F6C68656164
"""Held while schema and tables are made: IF NOT EXISTS alone fails when two make them at once."""

_WIDEST_INDEXED = {"vector": 2000, "halfvec": 4000}
"""Most entries of a row that HNSW of pgvector takes."""


@dataclass(frozen=True)
class TableSettings:
    """Where the rows of a space are, and how they are found."""

    schema: str
    prefix: str
    space: str
    width: int
    dtype: str
    hnsw: bool
    neighbours: int
    ef_construction: int
    ef_search: int

    def __post_init__(self) -> None:
        for name, value, letters in (
            ("schema", self.schema, _MOST_LETTERS),
            ("table", self.prefix, _MOST_LETTERS - _SPACE_DIGITS - len("__hnsw")),
        ):
            if not _NAME.fullmatch(value) or len(value) > letters:
                msg = (
                    f"{name} must be 1 to {letters} of a-z, 0-9 and _, no digit first, "
                    f"got {value!r:.80}"
                )
                raise ConfigError(msg)

    @property
    def place(self) -> tuple[str, str]:
        """Schema and name of the table."""
        return self.schema, self.name

    @property
    def name(self) -> str:
        """Name of the table, without the schema."""
        digest = hashlib.sha256(f"{self.space} {self.dtype}".encode()).hexdigest()
        return f"{self.prefix}_{digest[:_SPACE_DIGITS]}"


class Table:
    """The SQL of one table.

    Args:
        settings: Which table.
        version: (major, minor) of the extension on the server.
    """

    def __init__(self, settings: TableSettings, version: tuple[int, int]) -> None:
        self.settings, self.version = settings, version
        self._sql: Any = import_extra("psycopg", user="indexes.pgvector", extra="pgvector").sql
        has_halfvec = version >= (0, 7)
        self.kind = "halfvec" if settings.dtype == "float16" and has_halfvec else "vector"
        """Type of the column. Without halfvec the same rounded rows take twice the bytes."""
        wide = settings.width > _WIDEST_INDEXED["vector"]
        self.indexed_kind = "halfvec" if wide and has_halfvec else self.kind
        """Type that HNSW works on; a row that is too wide for it is rounded for the index."""

    @property
    def connection_settings(self) -> Mapping[str, str]:
        """Settings of PostgreSQL for a connection that searches."""
        if not self.has_hnsw:
            return {}
        settings = {"hnsw.ef_search": str(self.settings.ef_search)}
        if self.version >= (0, 8):  # goes on until enough rows that are not deleted are found
            settings["hnsw.iterative_scan"] = "strict_order"
        return settings

    @property
    def has_hnsw(self) -> bool:
        """Whether the rows get an HNSW index once there are enough."""
        return self.settings.hnsw and self.settings.width <= _WIDEST_INDEXED[self.indexed_kind]

    def write(self, statement: str, **names: tuple[str, ...]) -> Any:
        """A statement with the names of this table filled in, and others: schema and name."""
        sql, settings = self._sql, self.settings
        return sql.SQL(statement).format(
            table=sql.Identifier(settings.schema, settings.name),
            schema=sql.Identifier(settings.schema),
            index=sql.Identifier(f"{settings.name}_hnsw"),
            lengths=sql.Identifier(f"{settings.name}_length"),
            kind=sql.SQL(f"{self.kind}({settings.width})"),
            indexed=self._indexed(),
            indexed_kind=sql.SQL(f"{self.indexed_kind}({settings.width})"),
            operators=sql.SQL(f"{self.indexed_kind}_ip_ops"),
            neighbours=sql.Literal(settings.neighbours),
            ef_construction=sql.Literal(settings.ef_construction),
            **{part: sql.Identifier(*name) for part, name in names.items()},
        )

    def make(self, connection: Any) -> None:
        """Make schema and table if they are not there, and check the table's width.

        Raises:
            ConfigError: If the space has rows of another width.
        """
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            connection.execute(self.write("CREATE SCHEMA IF NOT EXISTS {schema}"))
            connection.execute(
                self.write(
                    'CREATE TABLE IF NOT EXISTS {table} (key text COLLATE "C" PRIMARY KEY, '
                    "row {kind} NOT NULL, length double precision NOT NULL)"
                )
            )
            connection.execute(
                self.write("CREATE INDEX IF NOT EXISTS {lengths} ON {table} (length)")
            )
            (width,) = connection.execute(
                "SELECT a.atttypmod FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
                "JOIN pg_namespace n ON n.oid = c.relnamespace "
                "WHERE n.nspname = %s AND c.relname = %s AND a.attname = 'row'",
                [self.settings.schema, self.settings.name],
            ).fetchone()
        if width != self.settings.width:
            msg = (
                f"width must be {width}, as the rows of space {self.settings.space} are, "
                f"got {self.settings.width}"
            )
            raise ConfigError(msg)

    def has_index(self, connection: Any) -> bool:
        """Whether the HNSW index is there."""
        found = connection.execute(
            "SELECT 1 FROM pg_indexes WHERE schemaname = %s AND indexname = %s",
            [self.settings.schema, f"{self.settings.name}_hnsw"],
        ).fetchone()
        return found is not None

    def make_index(self, connection: Any, *, memory_mb: int, timeout_s: float) -> None:
        """Build the HNSW index; rows can be read meanwhile, and not be written."""
        set_local(connection, "statement_timeout", f"{round(timeout_s * 1000)}ms")
        set_local(connection, "maintenance_work_mem", f"{memory_mb}MB")
        # Workers share memory through /dev/shm, which is 64 MB in a container.
        set_local(connection, "max_parallel_maintenance_workers", "0")
        connection.execute(self.write("LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"))
        connection.execute(
            self.write(
                "CREATE INDEX IF NOT EXISTS {index} ON {table} USING hnsw ({indexed} {operators}) "
                "WITH (m = {neighbours}, ef_construction = {ef_construction})"
            )
        )

    def _indexed(self) -> Any:
        same = self.indexed_kind == self.kind
        return self._sql.SQL(
            "row" if same else f"(row::{self.indexed_kind}({self.settings.width}))"
        )


def extension_version(connection: Any) -> tuple[int, int]:
    """(major, minor) of pgvector in this database, installed there if need be.

    Raises:
        IndexStoreError: If the server has no pgvector, or this user may not install it.
    """
    psycopg = import_extra("psycopg", user="indexes.pgvector", extra="pgvector")
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        found = _version(connection)
        if found is None:
            try:
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            except psycopg.Error as e:
                msg = (
                    f"the database must have the extension vector, got {str(e).splitlines()[0]}; "
                    "as its owner run: CREATE EXTENSION vector"
                )
                raise IndexStoreError(msg) from e
            found = _version(connection)
    major, minor = (found or "0.0").split(".")[:2]
    return int(major), int(minor)


def set_local(connection: Any, name: str, value: str) -> None:
    """Set a setting of PostgreSQL until the transaction ends."""
    connection.execute("SELECT set_config(%s, %s, true)", [name, value])


def _version(connection: Any) -> str | None:
    found = connection.execute(
        "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    ).fetchone()
    return found[0] if found else None
