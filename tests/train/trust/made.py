"""Made data sets and the real command for the tests of this folder: tiny, and without a model."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from tests.hash_encoder import HashEncoder

from toolheads.arrays import normalized
from toolheads_train.cli import main
from toolheads_train.data import folders

CONFIG = Path(__file__).parents[3] / "configs" / "minilm.yaml"
WIDTH = 16


class TurnedEncoder(HashEncoder):
    """Sees tools and queries from two sides: a text that begins with `ask` is turned.

    The turn is the same for all queries, so that heads can learn it and frozen vectors suffer.
    """

    def __init__(self, width: int = WIDTH, *, strength: float = 0.8) -> None:
        super().__init__(width)
        turn = np.random.default_rng(3).normal(size=(width, width))
        self._turn = (np.eye(width) + strength * turn).astype(np.float32)

    def encode(self, texts):
        rows = super().encode(texts)
        asks = np.array([text.startswith("ask") for text in texts])
        return normalized(np.where(asks[:, None], rows @ self._turn, rows))


def tools(n, words=120, name="made"):
    """n tools of five words each."""
    return [
        {"id": f"t{i}", "server": name, "name": f"tool_{i}", "description": _about(i, words)}
        for i in range(n)
    ]


def queries(n, of, *, split="train", first=0, words=120):
    """n queries, the i-th for tool i modulo `of`, in words of its description."""
    return [
        {
            "id": f"{split}-{i}",
            "text": f"ask {i} " + " ".join(_about(i % of, words).split()[i % 2 : i % 2 + 4]),
            "relevant": [f"t{i % of}"],
            "split": split,
        }
        for i in range(first, first + n)
    ]


def _about(i, words):
    return " ".join(f"w{(7 * i + 11 * j) % words}" for j in range(5))


def write(folder, tool_rows, query_rows):
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("tools", tool_rows), ("queries", query_rows)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")


def enter(folder, monkeypatch, encoder=None):
    """Work in a folder, with an encoder that needs no model."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(folders, "make_encoder", lambda settings: encoder or HashEncoder(WIDTH))
    monkeypatch.setattr(sys, "argv", ["toolheads"])  # Lightning looks at it


def fit(*more, name="run", epochs=2, steps=4, batch=16):
    """`toolheads train fit` by the shipped config, made small; the exit code."""
    words = [
        *("fit", "--config", str(CONFIG), "--name", name, "--data.root", "data"),
        *("--data.cache", "null", "--data.validation.by", "given"),
        *("--data.validation.min_queries", "1", "--data.sampling.label_free_share", "0"),
        *("--data.sampling.batch_size", str(batch), "--data.sampling.steps_per_epoch", str(steps)),
        *("--data.chunk_steps", "2", "--model.head.hidden", "[8]"),
        *("--calibration.tool_weights", "[{text: 1.0}]", "--calibration.clause_weights", "[0.0]"),
        *("--calibration.lexical_weights", "[]", "--calibration.alphas", "[1.0, 0.5, 0.0]"),
        *("--trainer.max_epochs", str(epochs), "--trainer.accelerator", "cpu"),
        *("--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false"),
        *more,
    ]
    return main(words)


def summary(name="run"):
    """What the run says of itself; the file is checked to be JSON without NaN on writing."""
    return json.loads(Path("runs", name, "summary.json").read_text(encoding="utf-8"))


def told(capfd):
    """The one line of the command's own on stderr; there is no traceback."""
    text = capfd.readouterr().err
    assert "Traceback" not in text
    (line,) = [line for line in text.splitlines() if line.startswith("toolheads train: ")]
    return line
