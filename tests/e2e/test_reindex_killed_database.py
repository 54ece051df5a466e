"""A job over pgvector that is killed goes on where it was; before the swap nobody sees its rows."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.hash_encoder import HashEncoder
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

from toolheads.indexes import open_index
from toolheads.jobs import Target

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

OLD, NEW = tools(0, 150), tools(100, 400, "is another")
BATCH = 50

CHILD = """
import sys
from tests.e2e.test_reindex_killed_database import job
job(*sys.argv[1:])
"""

_TABLES = itertools.count()


class Slow:
    """Makes encoders that are slow enough to be killed."""

    def __call__(self):
        return HashEncoder(WIDTH, seconds_per_text=0.0005)


def target_of(dsn: str, table: str) -> Target:
    return Target("pgvector", dsn=dsn, settings={"table": table, "index_from": 20, "pool_size": 2})


def job(dsn: str, table: str, folder: str, kill_at: str = "") -> None:
    """Reindex; `kill_at` names a step to be killed at."""
    if kill_at:
        _kill_self_at(kill_at)
    place = Path(folder)
    run(
        place,
        place / "t.jsonl",
        target=target_of(dsn, table),
        encoder=Slow(),
        batch_tools=BATCH,
        quarantine=place / "q.jsonl",
    )


def die(*args: object, **settings: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_self_at(step: str) -> None:
    """Replace one of the calls of a job by one that ends the process."""
    import psycopg

    from toolheads.indexes.pgvector_index import index as module
    from toolheads.indexes.pgvector_index.takeover import move_rows

    calls = 0
    if step == "a batch is sent and not kept":
        executemany = psycopg.Cursor.executemany

        def sent(self, *args, **settings):
            nonlocal calls
            calls += 1
            executemany(self, *args, **settings)
            if calls == 4:
                die()

        psycopg.Cursor.executemany = sent  # type: ignore[method-assign]
    elif step == "before the swap":
        module.PgvectorIndex.take_over = die  # type: ignore[method-assign]
    elif step == "in the swap":

        def moved(*args):
            move_rows(*args)
            die()

        setattr(module, "move_rows", moved)  # noqa: B010
    elif step == "after the swap":
        take_over = module.PgvectorIndex.take_over

        def taken(*args):
            take_over(*args)
            die()

        module.PgvectorIndex.take_over = taken  # type: ignore[method-assign]


class Place:
    """A table of its own, and what a process that serves sees of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.dsn, self.table = folder, postgres_uri(), f"killed{next(_TABLES)}"
        self.index = open_index(
            "pgvector", space=space(), width=WIDTH, dsn=self.dsn, table=self.table, hnsw=False
        )
        self.query = expected(NEW[:1], folder)

    def start(self, *step: str) -> subprocess.Popen[bytes]:
        write(self.folder / "t.jsonl", NEW)
        argv = [sys.executable, "-c", CHILD, self.dsn, self.table, str(self.folder), *step]
        return subprocess.Popen(argv)

    def again(self, listed, **settings):
        """The same job in this process, once the server has let go of the one that was killed."""
        self.wait_until_free()
        file = write(self.folder / "t.jsonl", listed)
        target = target_of(self.dsn, self.table)
        quarantine = self.folder / "q.jsonl"
        return run(self.folder, file, target=target, quarantine=quarantine, **settings)

    def wait_until_free(self) -> None:
        until = time.monotonic() + 30
        while self.ask("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'"):
            assert time.monotonic() < until
            time.sleep(0.01)

    def found(self) -> frozenset[str]:
        return frozenset(self.index.search(self.query, 1000)[0][0])

    def ask(self, statement: str, *values: object):
        return self.index._database.run(  # type: ignore[attr-defined]
            lambda c: c.execute(statement, values or None).fetchall()
        )

    def staged(self) -> int:
        """Rows beside the table, as far as others see them."""
        names = self.tables(f"{self.table}\\_new\\_%")
        return sum(self.ask(f'SELECT count(*) FROM toolheads."{name}"')[0][0] for name in names)

    def tables(self, like: str) -> list[str]:
        statement = (
            "SELECT tablename FROM pg_tables WHERE schemaname = 'toolheads' AND tablename LIKE %s"
        )
        return [name for (name,) in self.ask(statement, like)]


@pytest.fixture
def place(tmp_path):
    opened = Place(tmp_path)
    yield opened
    opened.index.close()


def assert_complete(place: Place) -> None:
    """As if nobody had been killed, and nothing left behind."""
    assert place.found() == set(keys(NEW))
    assert_holds(place.index, NEW, place.folder)
    assert len(place.tables(f"{place.table}\\_%")) == 1


@pytest.mark.parametrize("first", [OLD, []], ids=["over old rows", "into an empty table"])
@pytest.mark.parametrize(
    "step", ["a batch is sent and not kept", "before the swap", "in the swap", "after the swap"]
)
def test_a_job_that_is_killed_at_a_step_ends_as_if_it_had_not_been(place, step, first):
    if first:
        place.again(first)
    assert place.start(step).wait(300) == -signal.SIGKILL
    is_swapped = step == "after the swap"
    assert place.found() == set(keys(NEW if is_swapped else first))
    encoder = Counted()
    report = place.again(NEW, encoder=encoder)
    assert report.tools == len(NEW)
    if is_swapped:
        assert (report.added, report.resumed) == (0, 0)
    else:
        whole_batches = 3 * BATCH if step == "a batch is sent and not kept" else len(NEW)
        assert report.resumed == whole_batches
    assert (encoder.made == []) == (step != "a batch is sent and not kept")
    assert_complete(place)


def test_a_job_that_is_killed_again_and_again_shows_old_rows_until_it_is_done(place):
    place.again(OLD)
    kills, seen = 0, set()
    for rows in (50, 150, 250):
        place.wait_until_free()
        child = place.start()
        while child.poll() is None and place.staged() < rows:
            seen.add(place.found())
        child.kill()
        kills += child.wait() == -signal.SIGKILL
        seen.add(place.found())
    assert kills == 3, "a job was not under way when it was to be killed"
    assert seen == {frozenset(keys(OLD))}
    place.wait_until_free()
    assert place.start().wait(300) == 0
    assert_complete(place)
