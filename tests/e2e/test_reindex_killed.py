"""A job that is killed, at any moment, goes on where it was; searches go on meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.hash_encoder import HashEncoder
from tests.unit.jobs.made import (
    WIDTH,
    Counted,
    assert_holds,
    expected,
    keys,
    opened,
    run,
    tools,
    write,
)

from toolheads.jobs.pending import JOURNAL

TOOLS = tools(0, 600)
BATCH = 50

CHILD = """
import sys
from tests.e2e.test_reindex_killed import job
job(*sys.argv[1:])
"""


class Slow:
    """Makes encoders that are slow enough to be killed."""

    def __call__(self):
        return HashEncoder(WIDTH, seconds_per_text=0.0005)


def job(folder: str, kill_at: str = "") -> None:
    """Reindex; `kill_at` names a step to be killed at."""
    if kill_at:
        _kill_self_at(kill_at)
    run(Path(folder), Path(folder) / "t.jsonl", encoder=Slow(), batch_tools=BATCH)


def die(*args):
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_self_at(step: str) -> None:
    """Replace one of the calls of a job by one that ends the process."""
    from toolheads.indexes.store.folder import Folder
    from toolheads.jobs import pending, reindexing

    calls = 0
    append = pending._append

    def half_written(file, raw):
        nonlocal calls
        calls += 1
        if calls == {"half a batch": 7, "half a line": 8}.get(step):
            append(file, bytes(raw)[: len(raw) // 2])
            die()
        append(file, raw)

    pending._append = half_written
    if step == "before the rows get their name":
        Path.replace = _before_rows  # type: ignore[method-assign]
    elif step == "before the manifest":
        Folder.write = die  # type: ignore[method-assign]
    elif step == "before the journal is deleted":
        pending.PendingRows.remove = die  # type: ignore[method-assign]
    elif step == "before the pointer":
        setattr(reindexing, "write_current", die)  # noqa: B010


_replace = Path.replace


def _before_rows(path, target):
    if path.name == "reindex.part":
        die()
    return _replace(path, target)


def start(*args: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", CHILD, *map(str, args)])


def rows_file(folder: Path) -> bytes:
    (segment,) = (folder / "index").rglob("*.rows")
    return segment.read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The file of rows of a job that nobody killed."""
    folder = tmp_path_factory.mktemp("whole")
    run(folder, write(folder / "t.jsonl", TOOLS), batch_tools=77)
    return rows_file(folder)


def assert_complete(folder: Path, whole: bytes) -> None:
    """As if nobody had been killed, and nothing left behind."""
    assert rows_file(folder) == whole
    assert_holds(opened(folder), TOOLS, folder)
    left = {p.name for p in (folder / "index").rglob("*") if p.is_file() and p.suffix != ".rows"}
    assert left == {"current.json", "manifest.json", "lock", "reindex.lock"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "step",
    [
        "half a batch",
        "half a line",
        "before the rows get their name",
        "before the manifest",
        "before the journal is deleted",
        "before the pointer",
    ],
)
def test_a_job_that_is_killed_at_a_step_ends_as_if_it_had_not_been(tmp_path, whole, step):
    write(tmp_path / "t.jsonl", TOOLS)
    assert start(tmp_path, step).wait(300) == -signal.SIGKILL
    encoder = Counted()
    report = run(tmp_path, tmp_path / "t.jsonl", encoder=encoder)
    assert report.tools == len(TOOLS)
    if "half" in step:
        assert report.resumed == 3 * BATCH
    else:
        assert encoder.made == []
    assert_complete(tmp_path, whole)


@pytest.mark.slow
def test_a_job_that_is_killed_again_and_again_ends_as_if_it_had_not_been(tmp_path, whole):
    write(tmp_path / "t.jsonl", TOOLS)
    kills = 0
    for batches in (2, 5, 8):
        child = start(tmp_path)
        while child.poll() is None and _batches(tmp_path) < batches:
            time.sleep(0.002)
        child.kill()
        kills += child.wait() == -signal.SIGKILL
    assert kills, "no job was under way when it was to be killed"
    assert start(tmp_path).wait(300) == 0
    assert_complete(tmp_path, whole)


def _batches(folder: Path) -> int:
    return sum(p.read_bytes().count(b"\n") for p in (folder / "index").rglob(JOURNAL))


def test_a_search_sees_the_old_rows_or_the_new_while_a_job_ends(tmp_path):
    old, new = tools(0, 150), tools(100, 300, "is another")
    run(tmp_path, write(tmp_path / "t.jsonl", old))
    index = opened(tmp_path)
    query = expected(new[:1], tmp_path)

    def seen():
        index.refresh()
        return frozenset(index.search(query, 1000)[0][0])

    found = [seen()]
    write(tmp_path / "t.jsonl", new)
    child = start(tmp_path)
    while child.poll() is None:
        found.append(seen())
    assert child.returncode == 0
    found.append(seen())
    assert set(found) == {frozenset(keys(old)), frozenset(keys(new))}
