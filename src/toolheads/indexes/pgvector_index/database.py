"""Connections to PostgreSQL: a pool, time limits, one retry when the server went away."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from toolheads.errors import ConfigError, IndexStoreError, import_extra
from toolheads.indexes.checks import closed_error

_logger = logging.getLogger(__name__)

_USER, _EXTRA = "indexes.pgvector", "pgvector"

_Answer = TypeVar("_Answer")


class Database:
    """A pool of connections that know pgvector's types.

    Args:
        dsn: As libpq reads it: `postgresql://user@host/name`, or `host=… dbname=…`. What it leaves
            out is read from the environment (`PGPASSWORD`, …).
        pool_size: Most connections.
        timeout_s: Longest wait for a connection, and for a statement.
        prepare: Called once with a connection, before the types are looked up.
        settings: Settings of PostgreSQL for each connection.

    Raises:
        MissingExtraError: If psycopg or pgvector is not installed.
        ConfigError: If the dsn cannot be read.
        IndexStoreError: If the server cannot be reached, or has no pgvector.
    """

    def __init__(
        self,
        dsn: str,
        *,
        pool_size: int,
        timeout_s: float,
        prepare: Callable[[Any], Mapping[str, str]],
    ) -> None:
        self._psycopg = import_extra("psycopg", user=_USER, extra=_EXTRA)
        self._pools = import_extra("psycopg_pool", user=_USER, extra=_EXTRA)
        self._types = import_extra("pgvector.psycopg", user=_USER, extra=_EXTRA)
        self._timeout_s = timeout_s
        self._check_dsn(dsn)
        waiting = {"connect_timeout": max(1, round(timeout_s))}
        try:
            with self._psycopg.connect(dsn, autocommit=True, **waiting) as connection:
                self._settings = prepare(connection)
            self._pool = self._pools.ConnectionPool(
                dsn,
                kwargs={"autocommit": True, **waiting},
                min_size=1,
                max_size=pool_size,
                configure=self._configure,
                timeout=timeout_s,
                open=True,
            )
        except self._psycopg.Error as e:
            raise _store_error(e) from e
        self._is_open = True

    def run(self, work: Callable[[Any], _Answer]) -> _Answer:
        """Do something with a connection; each statement is a transaction unless it begins one.

        When the server went away meanwhile, it is done once more on a new connection; so it must
        be something that can be done twice.

        Args:
            work: What to do with a connection of psycopg.

        Raises:
            IndexStoreError: If it fails, takes too long, or the server stays away.
        """
        try:
            return self._once(work)
        except self._psycopg.Error as e:
            if not self._is_passing(e):
                raise _store_error(e) from e
            _logger.warning("lost the database, trying once more: %s", _line(e))
        try:
            self._pool.check()  # drops the other connections that the server closed
            return self._once(work)
        except self._psycopg.Error as e:
            raise _store_error(e) from e

    def close(self) -> None:
        """Close all connections."""
        self._is_open = False
        self._pool.close()

    def _check_dsn(self, dsn: str) -> None:
        """Refuse what libpq cannot read, without showing it: it may hold a password."""
        try:
            import_extra("psycopg.conninfo", user=_USER, extra=_EXTRA).conninfo_to_dict(dsn)
        except self._psycopg.Error:
            msg = "dsn must be as libpq reads it (postgresql://user@host/name), got something else"
            raise ConfigError(msg) from None

    def _once(self, work: Callable[[Any], _Answer]) -> _Answer:
        if not self._is_open:
            raise closed_error("index")
        with self._pool.connection() as connection:
            return work(connection)

    def _configure(self, connection: Any) -> None:
        self._types.register_vector(connection)
        settings = {"statement_timeout": f"{round(self._timeout_s * 1000)}ms", **self._settings}
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", [name, value])

    def _is_passing(self, error: Exception) -> bool:
        """Whether trying again may help: the connection broke, or two writers met."""
        lasting = (self._psycopg.errors.QueryCanceled, self._pools.PoolTimeout)
        passing = (self._psycopg.OperationalError, self._psycopg.InterfaceError)
        return isinstance(error, passing) and not isinstance(error, lasting)


def _store_error(error: Exception) -> IndexStoreError:
    return IndexStoreError(f"the database must answer, got {type(error).__name__}: {_line(error)}")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
