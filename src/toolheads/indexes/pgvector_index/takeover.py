"""The rows of one table become those of another, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolheads.indexes.pgvector_index.table import Table

_AT_ONCE = 10_000
"""Keys of one statement."""


def move_rows(connection: Any, live: Table, staged: Table, removed: Sequence[str]) -> None:
    """Move all rows of a staged table into the live one, and remove others from it.

    To be called within a transaction: searches see the rows before or after. A live table without
    rows is replaced by the staged one, with the indexes that it has; else the rows are copied and
    those that stay are not touched. The staged table is gone afterwards.

    Args:
        connection: In a transaction.
        live: The table that is searched.
        staged: The table that was written, of the same space and dtype.
        removed: Keys that go.
    """
    # Readers go on until the table is replaced; other writers wait.
    connection.execute(live.write("LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"))
    if connection.execute(live.write("SELECT 1 FROM {table} LIMIT 1")).fetchone() is None:
        _replace(connection, live, staged)
        return
    for start in range(0, len(removed), _AT_ONCE):
        some = list(removed[start : start + _AT_ONCE])
        connection.execute(live.write("DELETE FROM {table} WHERE key = ANY(%s)"), [some])
    connection.execute(
        live.write(
            "INSERT INTO {table} (key, row, length) SELECT key, row, length FROM {other} "
            "ON CONFLICT (key) DO NOTHING",
            other=staged.settings.place,
        )
    )
    connection.execute(staged.write("DROP TABLE {table}"))


def _replace(connection: Any, live: Table, staged: Table) -> None:
    connection.execute(live.write("DROP TABLE {table}"))
    for suffix in ("_length", "_hnsw", "_pkey"):
        connection.execute(
            staged.write(
                "ALTER INDEX IF EXISTS {place} RENAME TO {name}",
                place=(staged.settings.schema, f"{staged.settings.name}{suffix}"),
                name=(f"{live.settings.name}{suffix}",),
            )
        )
    name = (live.settings.name,)
    connection.execute(staged.write("ALTER TABLE {table} RENAME TO {name}", name=name))
