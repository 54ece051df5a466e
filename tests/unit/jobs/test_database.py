"""A job over a real PostgreSQL: a table beside, and one transaction that puts it in place."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest
from tests.postgres_server import postgres_uri
from tests.unit.jobs.made import (
    WIDTH,
    Counted,
    assert_holds,
    expected,
    keys,
    run,
    space,
    tools,
    write,
)

from toolheads.errors import EncoderError, IndexStoreError
from toolheads.indexes import open_index
from toolheads.jobs import Target

pytestmark = pytest.mark.postgres

_TABLES = itertools.count()


@pytest.fixture
def target():
    return Target(
        "pgvector",
        dsn=postgres_uri(),
        settings={"table": f"jobs{next(_TABLES)}", "index_from": 20, "pool_size": 2},
    )


@pytest.fixture
def opened(target):
    """Opens the index as a process that serves does."""
    indexes = []

    def open_one(seed=1, **settings):
        settings = {**target.settings, **settings}
        indexes.append(
            open_index("pgvector", space=space(seed), width=WIDTH, dsn=target.dsn, **settings)
        )
        return indexes[-1]

    yield open_one
    for index in indexes:
        index.close()


def tables(index):
    """Tables and indexes of all jobs of this test."""
    prefix = index._table.settings.prefix
    statement = (
        "SELECT tablename FROM pg_tables WHERE schemaname = 'toolheads' AND tablename LIKE %s "
        "UNION SELECT indexname FROM pg_indexes WHERE schemaname = 'toolheads' "
        "AND tablename LIKE %s"
    )
    found = index._database.run(
        lambda c: c.execute(statement, [f"{prefix}\\_%", f"{prefix}\\_%"]).fetchall()
    )
    return sorted(name for (name,) in found)


def test_a_table_holds_the_rows_that_a_retriever_makes_and_their_indexes(tmp_path, target, opened):
    listed = tools(0, 40)
    report = run(
        tmp_path, write(tmp_path / "t.jsonl", listed), target=target, quarantine=tmp_path / "q"
    )
    assert (report.added, report.place) == (40, "database")
    index = opened()
    assert_holds(index, listed, tmp_path)
    name = index._table.settings.name
    assert tables(index) == [name, f"{name}_hnsw", f"{name}_length", f"{name}_pkey"]


def test_rows_that_stay_are_not_written_again(tmp_path, target, opened):
    run(tmp_path, write(tmp_path / "t.jsonl", tools(0, 30)), target=target)
    index = opened()
    statement = index._table.write("SELECT key, xmin::text FROM {table}")
    before = dict(index._database.run(lambda c: c.execute(statement).fetchall()))
    report = run(tmp_path, write(tmp_path / "t.jsonl", tools(10, 45)), target=target)
    assert (report.added, report.removed, report.kept) == (15, 10, 20)
    assert_holds(index, tools(10, 45), tmp_path)
    after = dict(index._database.run(lambda c: c.execute(statement).fetchall()))
    stay = keys(tools(10, 30))
    assert [after[key] for key in stay] == [before[key] for key in stay]
    again = run(tmp_path, write(tmp_path / "t.jsonl", tools(10, 45)), target=target)
    assert (again.added, again.removed, again.kept, again.size_bytes) == (0, 0, 35, 0)
    assert index._database.run(lambda c: dict(c.execute(statement).fetchall())) == after


def test_a_job_that_ended_early_goes_on_and_nobody_saw_its_rows(tmp_path, target, opened):
    class Dying(Counted):
        def __call__(self):
            encoder = super().__call__()
            encode = encoder.encode

            def dying(texts):
                if len(encoder.sent) > 60:
                    raise EncoderError("the server is away")
                return encode(texts)

            encoder.encode = dying
            return encoder

    file = write(tmp_path / "t.jsonl", tools(0, 40))
    with pytest.raises(EncoderError):
        run(tmp_path, file, target=target, encoder=Dying(), batch_tools=10)
    index = opened()
    assert len(index) == 0
    report = run(tmp_path, file, target=target)
    assert report.resumed in (20, 30)
    assert_holds(index, tools(0, 40), tmp_path)


def test_two_jobs_do_not_write_to_one_table_at_once(tmp_path, target):
    file = write(tmp_path / "t.jsonl", tools(0, 5))

    class Nested(Counted):
        def __call__(self):
            with pytest.raises(IndexStoreError, match="another writer"):
                run(tmp_path, file, target=target)
            return super().__call__()

    assert run(tmp_path, file, target=target, encoder=Nested()).added == 5


@pytest.mark.parametrize("first", [0, 30], ids=["an empty table", "a table with rows"])
def test_searches_during_the_swap_see_the_old_rows_or_the_new(tmp_path, target, opened, first):
    old, new = tools(0, first), tools(100, 130)
    if old:
        run(tmp_path, write(tmp_path / "t.jsonl", old), target=target)
    index = opened(hnsw=False)
    query = expected(new[:1], tmp_path)
    ended, seen = threading.Event(), []

    def search():
        while not ended.is_set():
            seen.append(frozenset(index.search(query, 100)[0][0]))

    thread = threading.Thread(target=search)
    thread.start()
    try:
        run(tmp_path, write(tmp_path / "t.jsonl", new), target=target)
        after = len(seen)
        while len(seen) < after + 2 and thread.is_alive():
            ended.wait(0.01)
    finally:
        ended.set()
        thread.join()
    assert set(seen) == {frozenset(keys(old)), frozenset(keys(new))}
    np.testing.assert_array_equal(index.gather(keys(new)), expected(new, tmp_path))
