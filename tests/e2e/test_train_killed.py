"""A training process that is killed or told to end, resumed, and compared with one that was not."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.fake_embeddings_server import FakeEmbeddingsServer

pytest.importorskip("torch")
pytest.importorskip("lightning")

pytestmark = [pytest.mark.train, pytest.mark.slow]

ROOT = Path(__file__).parents[2]


def write_dataset(folder):
    """40 tools that share words with two training queries and one validation query each."""
    folder.mkdir(parents=True)
    tools, queries = [], []
    for i in range(40):
        words = [f"word{(i * 7 + j * 31) % 200}" for j in range(6)]
        tools.append({"id": f"t{i}", "name": f"tool_{i}", "description": " ".join(words)})
        for part, split in enumerate(("train", "train", "val")):
            text = f"request {i} {part} " + " ".join(words[part : part + 3])
            record = {"id": f"q{i}-{part}", "text": text, "relevant": [f"t{i}"], "split": split}
            queries.append(record)
    for name, records in (("tools", tools), ("queries", queries)):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")


def fit(server, folder, runs, *more):
    words = [
        *("fit", "--config", str(ROOT / "configs" / "minilm.yaml"), "--name", "run"),
        *("--runs", str(runs), "--data.root", str(folder), "--data.cache", str(runs / "cache")),
        *("--data.encoder.kind", "openai", "--data.encoder.url", server.url),
        *("--data.encoder.model", server.model, "--data.validation.by", "given"),
        *("--data.sampling.batch_size", "16", "--data.sampling.label_free_share", "0"),
        *("--data.sampling.steps_per_epoch", "5", "--data.chunk_steps", "5"),
        *("--trainer.max_epochs", "60", "--trainer.accelerator", "cpu"),
        *("--trainer.enable_progress_bar", "false", *more),
    ]
    return subprocess.Popen(
        [sys.executable, "-m", "toolheads.entrypoints.cli", "train", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finished(process):
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said.decode()


def signal_after_a_checkpoint(process, last, number):
    """A signal as soon as a few epochs are on the disk; returns the exit code and what was said."""
    deadline = time.monotonic() + 240
    while process.poll() is None and time.monotonic() < deadline:
        metrics = last.parents[1] / "metrics.csv"
        if last.exists() and metrics.exists() and len(metrics.read_text().splitlines()) > 8:
            process.send_signal(number)
            break
        time.sleep(0.01)
    said, _ = process.communicate(timeout=60)
    return process.returncode, said.decode()


def test_a_run_killed_at_any_moment_and_resumed_ends_as_one_that_was_not(tmp_path):
    write_dataset(tmp_path / "data")
    with FakeEmbeddingsServer() as server:
        finished(fit(server, tmp_path / "data", tmp_path / "whole"))
        last = tmp_path / "killed" / "run" / "checkpoints" / "last.ckpt"
        process = fit(server, tmp_path / "data", tmp_path / "killed")
        code, _ = signal_after_a_checkpoint(process, last, signal.SIGKILL)
        assert code == -signal.SIGKILL  # it was not over
        assert not (tmp_path / "killed" / "run" / "heads.npz").exists()
        finished(fit(server, tmp_path / "data", tmp_path / "killed", "--ckpt_path", "last"))
    ends = [tmp_path / name / "run" / "heads.npz" for name in ("whole", "killed")]
    whole, killed = (np.load(end, allow_pickle=False) for end in ends)
    assert set(whole.files) == set(killed.files)
    for name in whole.files:
        np.testing.assert_array_equal(whole[name], killed[name], err_msg=name)


def test_a_run_told_to_end_says_so_and_does_not_look_done(tmp_path):
    write_dataset(tmp_path / "data")
    with FakeEmbeddingsServer() as server:
        process = fit(server, tmp_path / "data", tmp_path / "ended")
        last = tmp_path / "ended" / "run" / "checkpoints" / "last.ckpt"
        code, said = signal_after_a_checkpoint(process, last, signal.SIGTERM)
    assert code == 143, said
    assert said.rstrip().endswith("toolheads train: terminated")
    assert "Traceback" not in said
    assert not (tmp_path / "ended" / "run" / "heads.npz").exists()
