"""Jobs over two processes of Ray: the same index as one process makes, though one is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.fake_embeddings_server import FakeEmbeddingsServer
from tests.hash_encoder import HashEncoder
from tests.unit.jobs.made import WIDTH, assert_holds, heads, opened, record, run, tools, write

from toolheads.data import write_queries
from toolheads.domain import Query
from toolheads.entrypoints.cli import main
from toolheads.errors import EncoderError
from toolheads.heads import save_heads
from toolheads.identity import PROBE_TEXTS
from toolheads.jobs import Cluster

ray = pytest.importorskip("ray", reason="needs the extra ray", exc_type=ImportError)
parquet = pytest.importorskip("pyarrow.parquet")
pyarrow = pytest.importorskip("pyarrow")

# Ray and what it brings warn of each other.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ROOT = Path(__file__).parents[2]
TWO = Cluster(workers=2, piece_bytes=4096)


class Written:
    """Makes encoders in any process; a file in a folder says in which, and what is amiss there.

    Args:
        folder: Where.
        together: Encoders that must be there before one works: Ray does not wait for all workers.
        poison: A word in texts that are refused.
        kill_after: Texts after which the process kills itself, once in all processes.
        fail_after: Texts after which the encoder fails, once some rows are made.
    """

    def __init__(self, folder, *, together=0, poison="", kill_after=0, fail_after=0):
        self.folder, self.poison, self.together = folder, poison, together
        self.kill_after, self.fail_after = kill_after, fail_after
        folder.mkdir(exist_ok=True)

    def __call__(self):
        (self.folder / str(os.getpid())).touch()
        wait_until(lambda: len(self.pids) >= self.together)
        encoder = HashEncoder(WIDTH)
        encode = encoder.encode

        def checked(texts):
            if self.poison and any(self.poison in text for text in texts):
                raise EncoderError("the text is too long")
            done = len(encoder.sent) - len(PROBE_TEXTS)
            if self.fail_after and done > self.fail_after:
                index = self.folder.parent / "index"
                wait_until(lambda: any(index.rglob("reindex.shards/[!.]*.json")))
                raise EncoderError("the server is away")
            if self.kill_after and done > self.kill_after and self._is_first():
                os.kill(os.getpid(), signal.SIGKILL)
            return encode(texts)

        encoder.encode = checked  # type: ignore[method-assign]
        return encoder

    def _is_first(self):
        try:
            (self.folder / "killed").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    @property
    def pids(self):
        return {int(path.name) for path in self.folder.iterdir() if path.name.isdigit()}


def wait_until(happened, most_s=120):
    """Wait for something; a test that relies on it fails if it has not happened."""
    until = time.monotonic() + most_s
    while not happened() and time.monotonic() < until:
        time.sleep(0.05)


def start(tries=3):
    """Start Ray, which gives itself 30 s: a machine that is busy with else may need more."""
    try:
        ray.init(
            address="local",
            num_cpus=3,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=256 << 20,
        )
    except Exception as e:
        if tries == 1 or "timed out" not in str(e):
            raise
        ray.shutdown()
        start(tries - 1)


@pytest.fixture(scope="module", autouse=True)
def _two_workers():
    """One Ray for all tests; its processes must find the encoder of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        start()
        yield
        ray.shutdown()


def files_of(folder):
    """All files of an index and their bytes, but locks."""
    paths = (p for p in (folder / "index").rglob("*") if p.is_file() and "lock" not in p.name)
    return {path.relative_to(folder): path.read_bytes() for path in paths}


def counts(report):
    """What must be the same, whoever did the job."""
    same = ("seen", "tools", "failed", "embedded", "added", "removed", "kept", "size_bytes")
    return {name: getattr(report, name) for name in same}


@pytest.fixture
def inputs(tmp_path):
    """JSONL shards and a Parquet file, with lines that cannot be used in all of them."""
    (tmp_path / "shards").mkdir()
    listed = tools(0, 260)
    twin = json.dumps(record(listed[8]) | {"id": "twin"})
    write(tmp_path / "shards" / "a.jsonl", [*listed[:100], "", "{bad", listed[20], twin])
    rows = [record(tool) for tool in listed[95:180]]
    rows[50]["name"] = None
    table = pyarrow.Table.from_pylist(rows)
    parquet.write_table(table, tmp_path / "shards" / "b.parquet", row_group_size=30)
    write(tmp_path / "shards" / "c.jsonl", ['{"id": "x"}', *listed[180:]])
    return tmp_path / "shards"


def test_two_workers_make_the_bytes_of_one_process_and_do_nothing_twice(tmp_path, inputs):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    encoder = Written(two / "pids", together=2)
    alone = run(one, inputs)
    report = run(two, inputs, encoder=encoder, cluster=TWO)
    assert counts(report) == counts(alone)
    assert (report.failed, report.tools) == (9, 260)
    assert files_of(two) == files_of(one)
    assert any(name.name == "quarantine.jsonl" for name in files_of(two))
    assert len(encoder.pids - {os.getpid()}) == 2

    again = run(two, inputs, encoder=Written(two / "again"), cluster=TWO)
    assert (again.added, again.kept, again.size_bytes) == (0, report.added, 0)
    assert files_of(two) == files_of(one)

    # No process has the GPU that is asked for, and none needs it: all vectors are in the cache.
    on_gpus = Cluster(worker_gpus=1.0, piece_bytes=4096)
    new = run(two, inputs, seed=2, encoder=Written(two / "new"), cluster=on_gpus)
    alone = run(one, inputs, seed=2)
    assert (new.embedded, new.added) == (0, alone.added)
    assert files_of(two) == files_of(one)
    assert not Written(two / "again").pids | Written(two / "new").pids


def test_a_worker_that_is_killed_on_the_way_changes_no_byte(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    file = write(tmp_path / "t.jsonl", tools(0, 400))
    encoder = Written(two / "pids", together=2, kill_after=100)
    report = run(two, file, encoder=encoder, cluster=TWO, batch_tools=20)
    assert (two / "pids" / "killed").exists()
    assert len(encoder.pids) == 3
    assert (report.tools, report.added, report.failed) == (400, 400, 0)
    run(one, file)
    assert files_of(two) == files_of(one)


def test_a_job_that_fails_says_why_and_goes_on_where_it_was(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    good, bad = tools(0, 300), tools(300, 302, "poison")
    file = write(tmp_path / "t.jsonl", [*good[:200], *bad, *good[200:]])
    # Which lines come before the failure is not settled: none that are refused may get through.
    failing = Written(two / "pids", fail_after=150, poison="poison")
    with pytest.raises(EncoderError, match=r"^the server is away$"):
        run(two, file, encoder=failing, cluster=TWO, batch_tools=20)
    assert not (two / "index" / "current.json").exists()
    poisoned = Written(two / "more", poison="poison")
    report = run(two, file, encoder=poisoned, cluster=TWO, batch_tools=20)
    assert 0 < report.resumed < 300
    assert (report.tools, report.added, report.failed) == (300, 300, 2)
    assert_holds(opened(two), good, two)
    put = [json.loads(line) for line in Path(report.quarantine).read_text().splitlines()]
    assert [(p["line"], p["reason"], p["text"]) for p in put] == [
        (201, "the text is too long", "t300"),
        (202, "the text is too long", "t301"),
    ]
    run(one, write(tmp_path / "good.jsonl", good))
    rows = [files_of(folder) for folder in (one, two)]
    rows = [{name: raw for name, raw in of.items() if name.suffix == ".rows"} for of in rows]
    assert rows[0] == rows[1]


def test_embedding_with_two_workers_through_a_server_fills_the_same_cache(tmp_path, capsys):
    write(tmp_path / "tools.jsonl", tools(0, 60))
    write_queries(tmp_path / "queries.jsonl", [Query("q", "do thing 3", {"t3": 1})])
    with FakeEmbeddingsServer() as server:
        argv = ["embed", "--data", tmp_path, "--cache", tmp_path / "cache", "--json"]
        argv += ["--url", server.url, "--model", server.model]
        assert main([*map(str, argv), "--engine", "ray", "--workers", "2"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["unique"], report["embedded"], report["reused"]) == (61, 61, 0)
        sent = [text for text in server.texts if "thing" in text]
        assert len(sent) == len(set(sent)) == 61
        assert main([*map(str, argv)]) == 0
        again = json.loads(capsys.readouterr().out)
    assert (again["embedded"], again["reused"]) == (0, 61)
    same = ("model", "width", "dtype", "fingerprint", "cache", "texts", "data_sets")
    assert {name: again[name] for name in same} == {name: report[name] for name in same}


def test_the_command_starts_ray_and_leaves_no_process_and_nothing_on_stdout(tmp_path):
    run(tmp_path, write(tmp_path / "t.jsonl", tools(0, 10)))
    save_heads(tmp_path / "heads.npz", heads(), dtype="float32")
    write(tmp_path / "t.jsonl", [*tools(0, 10), "{"])
    mark = f"of-{tmp_path}"
    argv = ["reindex", tmp_path / "t.jsonl", "--out", tmp_path / "new", "--engine", "ray"]
    argv += ["--workers", "1", "--json", "--cache", tmp_path / "cache", "--allow-unverified"]
    argv += ["--heads", tmp_path / "heads.npz"]
    done = subprocess.run(
        [sys.executable, "-m", "toolheads.entrypoints.cli", *map(str, argv)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TOOLHEADS_MARK": mark},
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    report = json.loads(done.stdout)
    assert (report["tools"], report["failed"], report["reused"]) == (10, 1, 20)
    wait_until(lambda: not processes_with(mark), 20)
    assert not processes_with(mark)
    (rows,), (other,) = ((tmp_path / name).rglob("*.rows") for name in ("index", "new"))
    assert rows.read_bytes() == other.read_bytes()


def processes_with(mark):
    """Processes that have a mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ")[:80])
        except OSError:
            continue
    return found
