"""`toolheads reindex` as its own process: its report, its exit code, its memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.hash_encoder import HashEncoder
from tests.made_heads import made_head, made_heads
from tests.unit.jobs.made import heads, record, run, tools, write

from toolheads.cache import VectorCache
from toolheads.domain import Tool
from toolheads.heads import Architecture, save_heads
from toolheads.identity import EncoderIdentity, Fingerprint
from toolheads.jobs.rows import RowMaker
from toolheads.texts import TextSettings

COMMAND = [sys.executable, "-m", "toolheads.entrypoints.cli", "reindex"]


def call(*argv, **env):
    return subprocess.run(
        [*COMMAND, *map(str, argv)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **env},
    )


@pytest.fixture
def folder(tmp_path):
    """Heads in a file, and a cache that holds the vectors of ten tools."""
    run(tmp_path, write(tmp_path / "t.jsonl", tools(0, 10)))
    save_heads(tmp_path / "heads.npz", heads(), dtype="float32")
    return tmp_path


def options(folder):
    return ["--heads", folder / "heads.npz", "--allow-unverified", "--cache", folder / "cache"]


def test_a_report_is_printed_as_text_and_as_json(folder):
    lines = [*tools(0, 10), "{"]
    write(folder / "t.jsonl", lines)
    done = call(folder / "t.jsonl", "--out", folder / "new", *options(folder))
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0] == "11 lines: 10 tools, 1 failed"
    assert said[1] == "0 texts embedded, 20 reused from the cache"
    assert said[2].startswith("10 rows added, 0 removed, 0 kept; ")
    assert said[3] == f"numpy, width 16, float32: {folder / 'new'}"
    assert done.stderr == (
        f"toolheads: 1 line could not be used, see {folder / 'new' / 'quarantine.jsonl'}\n"
    )
    done = call(folder / "t.jsonl", "--out", folder / "new", "--json", *options(folder))
    report = json.loads(done.stdout)
    assert (report["seen"], report["failed"], report["kept"], report["added"]) == (11, 1, 10, 0)


def test_a_report_says_what_faiss_built_and_what_it_finds(folder):
    pytest.importorskip("faiss", reason="needs the extra faiss")
    write(folder / "t.jsonl", tools(0, 10))
    index = ["--index", "faiss-ivf", "--set", "build_from=1", "--set", "lists=2"]
    argv = [folder / "t.jsonl", "--out", folder / "new", *index, *options(folder)]
    done = call(*argv)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[4] == (
        "ivf over 10 rows, recall@10 1.000 (10 queries near rows); lists 2, sample 10, probes 2"
    )
    again = json.loads(call(*argv, "--json").stdout)
    assert again["added"] == 0
    assert again["structure"] == {
        "structure": "ivf",
        "rows": 10,
        "recall": 1.0,
        "recall_at": 10,
        "recall_queries": 10,
        "lists": 2,
        "sample": 10,
        "probes": 2,
    }


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["t.jsonl"], "toolheads: out, and not dsn, must be given for index numpy\n"),
        (["t.jsonl", "--out", "o", "--set", "lists"], "--set must be NAME=VALUE, got 'lists'\n"),
        (["t.jsonl", "--out", "o", "--set", "lists=4"], "a setting of index numpy must be one of"),
        (["t.jsonl", "--out", "o", "--project-threads", "0"], "must be >= 1, got 0\n"),
        (["gone.jsonl", "--out", "o"], "the file does not exist\n"),
        (
            ["t.jsonl", "--out", "o", "--worker-cpus", "2"],
            "toolheads: --worker-cpus must be left out without --engine ray, got 2\n",
        ),
        (
            ["t.jsonl", "--out", "o", "--engine", "ray", "--workers", "0"],
            "toolheads: workers must be >= 1, got 0\n",
        ),
        (
            ["t.jsonl", "--out", "o", "--engine", "ray", "--project-threads", "2"],
            "toolheads: --project-threads must be left out with --engine ray, got 2\n",
        ),
        (
            ["t.jsonl", "--out", "o", "--index", "faiss-cagra"],
            "must be built on a GPU with a faiss",
        ),
    ],
)
def test_bad_input_is_one_line(folder, monkeypatch, argv, said):
    if "faiss-cagra" in argv:
        pytest.importorskip("faiss", reason="needs the extra faiss")
    monkeypatch.chdir(folder)
    done = call(*argv, *options(folder))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


MEMORY = """
import json, re, sys
from pathlib import Path
from tests.e2e.test_reindex import wide_heads
from toolheads.jobs import Target, reindex

folder, name = Path(sys.argv[1]), sys.argv[2]
report = reindex([folder / name], wide_heads(), Target("numpy", folder / name[0]),
                 encoder=lambda: 1 / 0, cache=folder / "cache", batch_tools=1000)
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
print(json.dumps([report.added, int(peak) / 1024]))
"""
WIDE = 384


def wide_heads():
    """Heads as wide as those of the default encoder."""
    fingerprint = Fingerprint(
        EncoderIdentity("wide", "", "mean", 0, WIDE, "float32"), TextSettings()
    )
    architecture = Architecture(WIDE, hidden=(16,))
    probe = HashEncoder(WIDE).encode(["a", "b", "c", "d"])
    one = made_head(architecture)
    return made_heads(state=one, action=one, fingerprint=fingerprint, probe=probe)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_memory_does_not_grow_with_texts_vectors_and_rows(tmp_path):
    count, few = 50_000, 5000
    maker = RowMaker(wide_heads(), lambda: HashEncoder(WIDE), tmp_path / "cache")
    maker.close()
    cache = VectorCache.open(tmp_path / "cache", wide_heads().fingerprint, wide_heads().probe)
    rng = np.random.default_rng(0)
    lines: list[str] = []
    with (tmp_path / "all.jsonl").open("w") as file:
        for start in range(0, count, few):
            some = [
                Tool(f"t{i}", f"tool_{i}", None, f"Does the thing number {i}. " * 20)
                for i in range(start, start + few)
            ]
            lines = [json.dumps(record(tool)) + "\n" for tool in some]
            file.writelines(lines)
            texts = [text for tool in some for text in maker.texts(tool)]
            cache.add(texts, rng.standard_normal((len(texts), WIDE), np.float32))
    (tmp_path / "few.jsonl").write_text("".join(lines))
    (added_few, peak_few), (added, peak) = memory(tmp_path, "few"), memory(tmp_path, "all")
    assert (added_few, added) == (few, count)
    rows_mb, vectors_mb, texts_mb = (45_000 * n / 2**20 for n in (4 * WIDE, 2 * WIDE, 600))
    assert peak - peak_few < 50 < rows_mb
    assert rows_mb + vectors_mb + texts_mb > 100


def memory(folder, name):
    """Rows that a job over a file of tools added, and the most memory it had, in MiB."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, folder, f"{name}.jsonl"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
