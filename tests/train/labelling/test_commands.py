"""`toolheads train teach` and `mine`: from a config and heads to a file that `fit` learns from."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from tests.hash_encoder import HashEncoder  # noqa: E402
from tests.train.synthetic import HARMLESS  # noqa: E402

from toolheads_train.cli import main  # noqa: E402
from toolheads_train.data import folders  # noqa: E402
from toolheads_train.labelling import command  # noqa: E402

pytestmark = [pytest.mark.train, *(pytest.mark.filterwarnings(w) for w in HARMLESS)]

CONFIG = str(Path(__file__).parents[3] / "configs" / "minilm.yaml")
WORDS = [f"word{i}" for i in range(60)]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data set of 12 tools and 36 queries that share words with their tool."""
    monkeypatch.chdir(tmp_path)
    for module in (folders, command):
        monkeypatch.setattr(module, "make_encoder", lambda settings: HashEncoder(16))
    monkeypatch.setattr(sys, "argv", ["toolheads"])  # Lightning looks at it
    folder = tmp_path / "data" / "one"
    folder.mkdir(parents=True)
    about = [" ".join(WORDS[(i * 5 + j * 7) % 60] for j in range(6)) for i in range(12)]
    tools = [{"id": str(i), "name": f"tool_{i}", "description": a} for i, a in enumerate(about)]
    queries = [
        {
            "id": str(i),
            "text": f"{i} " + " ".join(about[i % 12].split()[i % 3 : i % 3 + 3]),
            "relevant": [str(i % 12)],
            "split": "val" if i % 12 >= 10 else "train",
        }
        for i in range(36)
    ]
    for name, records in (("tools", tools), ("queries", queries)):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{name}.jsonl").write_text(lines)
    return tmp_path


def fit(*more, name):
    words = [
        *("fit", "--config", CONFIG, "--name", name, "--data.root", "data"),
        *("--data.cache", "null", "--data.min_cosine", "null"),
        *("--data.validation.min_queries", "1", "--data.validation.by", "given"),
        *("--data.sampling.batch_size", "8", "--data.sampling.steps_per_epoch", "3"),
        *("--data.sampling.label_free_share", "0", "--trainer.max_epochs", "1"),
        *("--trainer.accelerator", "cpu", "--trainer.enable_progress_bar", "false"),
        *("--trainer.enable_model_summary", "false", *more),
    ]
    assert main(words) == 0


def lines(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def of_data(*words):
    return [
        *("--config", CONFIG, "--data.root", "data", "--data.cache", "null"),
        *("--data.validation.by", "given", "--data.validation.min_queries", "1", *words),
    ]


def test_what_heads_teach_and_mine_is_learned_from(data):
    fit(name="first")
    heads = "[runs/first/heads.npz]"
    assert main(["teach", *of_data("--heads", heads, "--top", "4", "--out", "t.jsonl")]) == 0
    mined = ("--mining.margin", "0", "--mining.count", "3")
    assert main(["mine", *of_data("--heads", heads, *mined, "--out", "m.jsonl")]) == 0
    scores, found = lines("t.jsonl"), lines("m.jsonl")
    assert {line["query_id"] for line in scores} == {line["query_id"] for line in found}
    assert len(scores) == 30  # training queries alone
    assert {len(line["scores"]) for line in scores} == {4}
    assert 0 < max(len(line["negatives"]) for line in found) <= 3
    fit(
        *("--data.teacher", "t.jsonl", "--model.loss.distil", "kl"),
        *("--model.loss.teacher_temperature", "0.05"),
        *("--data.mined", "m.jsonl", "--data.sampling.hard_negatives", "2"),
        *("--model.loss.negatives", "catalogue", "--model.loss.refresh_steps", "2"),
        *("--data.composed_share", "0.5", "--data.label_free_kinds", "[name]"),
        name="second",
    )
    assert (data / "runs/second/heads.npz").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["teach", "--out", "x"], "teach must have --heads or --cross_encoder, got none"),
        (["mine", "--out", "x"], "mine must have --heads, got none"),
        (["mine", "--heads", "[a.npz]", "--out", "x", "--mining.count", "0"], "mining.count must"),
        (["teach", "--out", "x", "--config", "none.yaml"], "config must be a file, got no file"),
    ],
)
def test_words_that_make_no_sense_end_in_one_line(data, capsys, words, message):
    assert main([*words, "--data.root", "data"]) == 2
    assert message in capsys.readouterr().err
