"""Rows in a real PostgreSQL: several writers, a restart, time limits, one table for each space."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from tests.postgres_server import VARIABLE, own_server, postgres_uri
from tests.unit.indexes.samples import FIRST, SPACE, WIDTH, found, rows

from toolheads.errors import ConfigError, IndexStoreError
from toolheads.indexes import open_index

pytestmark = pytest.mark.postgres

_TABLES = itertools.count()


@pytest.fixture
def opened():
    """Opens indexes of one table of its own, and closes them."""
    table, indexes = f"unit{next(_TABLES)}", []

    def open_one(space=SPACE, width=WIDTH, **settings):
        settings = {"table": table, "dsn": postgres_uri()} | settings
        indexes.append(open_index("pgvector", space=space, width=width, **settings))
        return indexes[-1]

    yield open_one
    for index in indexes:
        index.close()


def run(index, statement, *values):
    """What a statement gives, with {table} filled in."""
    text = index._table.write(statement)
    return index._database.run(lambda c: c.execute(text, values or None).fetchall())


def test_tables_are_in_a_schema_of_their_own(opened):
    index = opened(schema="tool_search")
    (table,) = run(
        index,
        "SELECT tablename FROM pg_tables WHERE schemaname = 'tool_search' AND tablename = %s",
        index._table.settings.name,
    )
    assert table[0].startswith("unit")


def test_each_space_has_a_table_of_its_own(opened):
    one, two = opened("one"), opened("two")
    one.apply(["a"], rows(1))
    two.apply(["a", "b"], rows(2, 3))
    assert run(one, "SELECT key FROM {table}") == [("a",)]
    assert one._table.settings.name != two._table.settings.name
    assert found(one) == ["a"]


def test_half_precision_is_stored_as_halfvec(opened):
    index = opened(dtype="float16")
    index.apply(["a"], rows(1 / 3))
    assert run(index, "SELECT pg_typeof(row)::text FROM {table}") == [("halfvec",)]
    np.testing.assert_array_equal(index.gather(["a"])[0, 0], np.float16(1 / 3))


def test_without_halfvec_on_the_server_rows_are_rounded_all_the_same(opened, monkeypatch):
    from toolheads.indexes.pgvector_index import index as module

    monkeypatch.setattr(module, "extension_version", lambda connection: (0, 6))
    index = opened(dtype="float16")
    index.apply(["a", "b"], rows(1 / 3, 0))
    assert run(index, "SELECT DISTINCT pg_typeof(row)::text FROM {table}") == [("vector",)]
    np.testing.assert_array_equal(index.gather(["a"])[0, 0], np.float16(1 / 3))
    assert found(index) == ["a", "b"]


def test_the_graph_is_built_once_there_are_enough_rows(opened):
    index = opened(index_from=50)
    index.apply([f"k{i:03}" for i in range(49)], rows(*range(49)))
    assert not index._database.run(index._table.has_index)
    index.apply(["more"], rows(49))
    assert index._database.run(index._table.has_index)
    assert found(index, 2) == ["more", "k048"]


def test_a_search_goes_through_the_graph(opened):
    generator = np.random.default_rng(0)
    index = opened(index_from=1)
    index.apply(
        [f"k{i}" for i in range(3000)], generator.normal(size=(3000, WIDTH)).astype(np.float32)
    )
    run(index, "SELECT 1")  # the pool has one connection, so the plan below is that of a search
    plan = index._database.run(
        lambda c: [
            c.execute(index._table.write("ANALYZE {table}")),
            c.execute(
                index._table.write(
                    "EXPLAIN SELECT key FROM {table} ORDER BY row <#> '[1,0,0,0]' LIMIT 26"
                )
            ).fetchall(),
        ][1]
    )
    assert any("_hnsw" in line for (line,) in plan)


def test_rows_that_were_deleted_take_no_place_among_the_hits(opened):
    index = opened(index_from=1, ef_search=10)
    index.apply([f"k{i:03}" for i in range(600)], rows(*range(600)))
    index.apply([], rows(), removed=[f"k{i:03}" for i in range(100, 600)])
    assert found(index, 20) == [f"k{i:03}" for i in range(99, 79, -1)]


def test_a_row_too_wide_for_the_graph_is_rounded_for_it_and_scored_exactly(opened):
    generator = np.random.default_rng(0)
    made = generator.normal(size=(30, 2500)).astype(np.float32)
    index = opened(width=2500, index_from=1)
    index.apply([f"k{i}" for i in range(30)], made)
    ((keys, scores),) = index.search(made[:1], 3)
    assert keys[0] == "k0"
    exact = (made[0].astype(np.float64) ** 2).sum()
    assert scores[0] == np.float32(exact)
    assert not index.is_exact


def test_a_row_too_wide_for_any_graph_is_scanned(opened):
    index = opened(width=5000, index_from=1)
    index.apply(["a"], np.ones((1, 5000), np.float32))
    assert index.is_exact
    assert index.search(np.ones((1, 5000), np.float32), 3)[0][0] == ["a"]


def test_exact_search_asks_for_more_until_all_ties_are_seen(opened):
    index = opened(hnsw=False)
    index.apply([f"k{i:03}" for i in range(200)], rows(*[1] * 200))
    assert found(index, 3) == ["k000", "k001", "k002"]


def test_another_width_of_the_same_space_is_refused(opened):
    opened()
    with pytest.raises(ConfigError, match="width must be 4, as the rows of space space are, got 5"):
        opened(width=5)


WRITE = """
import sys
from tests.unit.indexes.samples import rows
from toolheads.indexes import open_index
index = open_index("pgvector", space="space", width=4, dsn=sys.argv[1], table=sys.argv[2])
for i in range(25):
    index.apply([f"{sys.argv[3]} {i}", f"shared {i}"], rows(i, i), removed=[f"shared {i - 1}"])
index.close()
"""


def test_two_writers_at_once_lose_nothing(opened):
    index = opened()
    table = index._table.settings.prefix
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITE, postgres_uri(), table, name])
        for name in "ab"
    ]
    assert [writer.wait(timeout=100) for writer in writers] == [0, 0]
    own = {key for key in index.keys() if not key.startswith("shared")}  # noqa: SIM118
    assert own == {f"{name} {i}" for name in "ab" for i in range(25)}
    assert "shared 24" in index.keys()  # noqa: SIM118


def test_opening_at_once_from_many_threads_makes_one_table(opened):
    opened("first")
    errors = []

    def open_one():
        try:
            opened("fresh", schema="made_at_once")
        except Exception as e:  # shown by the assertion below
            errors.append(e)

    openers = [threading.Thread(target=open_one) for _ in range(6)]
    for opener in openers:
        opener.start()
    for opener in openers:
        opener.join()
    assert errors == []


def cut_connections(index):
    """End all other connections, as a restart of the server does, and wait until they are gone."""
    import psycopg

    others = (
        "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    with psycopg.connect(postgres_uri(), autocommit=True) as connection:
        ended = connection.execute(f"SELECT pid, pg_terminate_backend(pid) {others}").fetchall()
        pids = [pid for pid, _ in ended]
        until = time.monotonic() + 10
        # A backend that was told to end may answer once more before it does.
        while connection.execute(f"SELECT pid {others} AND pid = ANY(%s)", [pids]).fetchall():
            assert time.monotonic() < until
            time.sleep(0.005)


def test_a_search_whose_connection_was_cut_is_done_again(opened, caplog):
    index = opened()
    index.apply(["a"], rows(1))
    cut_connections(index)
    assert found(index) == ["a"]
    assert "trying once more" in caplog.text
    cut_connections(index)
    index.apply(["b"], rows(2))
    assert found(index) == ["b", "a"]


@pytest.mark.slow
def test_searches_go_on_after_the_server_was_restarted(opened, monkeypatch):
    import os

    if os.environ.get(VARIABLE):
        pytest.skip(f"{VARIABLE} names a server that is not ours to restart")
    index = opened(timeout_s=20.0)
    index.apply(["a", "b"], rows(1, 2))
    answers, errors, done = [], [], threading.Event()

    def look():
        while not done.is_set():
            try:
                answers.append(found(index))
            except IndexStoreError as e:
                errors.append(e)

    looker = threading.Thread(target=look)
    looker.start()
    try:
        own_server().stop()
        own_server().start()
        until = time.monotonic() + 30
        seen = len(answers)
        while len(answers) < seen + 5 and time.monotonic() < until:
            time.sleep(0.05)
    finally:
        done.set()
        looker.join()
    assert len(answers) >= seen + 5
    assert all(answer == ["b", "a"] for answer in answers)
    index.apply(["c"], rows(3))
    assert found(index) == ["c", "b", "a"]


def test_a_statement_that_takes_too_long_is_one_clear_line(opened):
    index = opened(timeout_s=7.0)
    assert run(index, "SHOW statement_timeout") == [("7s",)]
    with pytest.raises(IndexStoreError, match="the database must answer, got QueryCanceled"):
        run(index, "SET statement_timeout = '50ms'; SELECT pg_sleep(60)")


def test_a_writer_that_holds_the_table_does_not_hold_searches(opened):
    index, other = opened(), opened()
    index.apply(["a"], rows(1))
    with other._database._pool.connection() as connection, connection.transaction():
        connection.execute(other._table.write("LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"))
        assert found(index) == ["a"]


def test_a_writer_waits_for_another_only_so_long(opened):
    index, other = opened(write_timeout_s=0.2), opened()
    with other._database._pool.connection() as connection, connection.transaction():
        connection.execute(other._table.write("LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"))
        with pytest.raises(IndexStoreError, match="QueryCanceled"):
            index.apply(["a"], rows(1))
    assert len(index) == 0


def test_a_server_that_is_not_there_is_one_clear_line():
    with pytest.raises(IndexStoreError, match="the database must answer, got OperationalError"):
        open_index(
            "pgvector", space=SPACE, width=WIDTH, dsn="host=/nowhere password=secret", timeout_s=1.0
        )


@pytest.mark.parametrize("dsn", ["what is secret this", "postgresql://me:secret@[host/db"])
def test_a_dsn_that_cannot_be_read_is_refused_and_not_shown(dsn):
    with pytest.raises(ConfigError, match="dsn must be as libpq reads it") as caught:
        open_index("pgvector", space=SPACE, width=WIDTH, dsn=dsn)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("schema", "a; drop"), ("schema", ""), ("schema", "1a"), ("table", "x" * 30), ("table", 'a"')],
)
def test_a_name_that_is_no_plain_identifier_is_refused(name, value):
    with pytest.raises(ConfigError, match=f"{name} must be 1 to"):
        open_index("pgvector", space=SPACE, width=WIDTH, dsn="host=/nowhere", **{name: value})


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
def test_a_time_limit_must_be_one(timeout):
    with pytest.raises(ConfigError, match="timeout_s must be > 0 and finite"):
        open_index("pgvector", space=SPACE, width=WIDTH, dsn="host=/x", timeout_s=timeout)


def test_a_key_with_odd_characters_is_a_key_like_any_other(opened):
    index = opened()
    keys = ["é", "城市", "a'b", 'a"b', "a%sb", "{table}", "\\", "😀"]
    index.apply(keys, rows(*range(8)))
    assert index.keys() == set(keys)
    assert found(index, 8) == keys[::-1]
    index.apply([], rows(), removed=keys[:4])
    assert index.search(FIRST, 9)[0][0] == keys[:3:-1]
