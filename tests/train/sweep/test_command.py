"""`toolheads train sweep` from its words to its folder."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml  # type: ignore[import-untyped, unused-ignore]

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from tests.hash_encoder import HashEncoder  # noqa: E402
from tests.train.synthetic import HARMLESS  # noqa: E402
from tests.train.test_command import command, data  # noqa: E402, F401  a fixture

from toolheads import Embedder, read_dataset  # noqa: E402
from toolheads.evaluation.evaluate import evaluate  # noqa: E402
from toolheads.evaluation.settings import EvaluationSettings  # noqa: E402
from toolheads.heads import load_heads  # noqa: E402
from toolheads.scorers.clm import CLMScorer  # noqa: E402
from toolheads_train.cli import main  # noqa: E402
from toolheads_train.loop.checkpoints import heads_from_checkpoint  # noqa: E402

pytestmark = [
    pytest.mark.train,
    pytest.mark.slow,
    *(pytest.mark.filterwarnings(w) for w in HARMLESS),
]


def sweep(folder, grid, *more):
    """The same small training as the tests of `fit`, with a grid."""
    (folder / "grid.yaml").write_text(yaml.safe_dump(grid), encoding="utf-8")
    words = command(*more)[1:]
    at = words.index("--name")
    words = words[:at] + words[at + 2 :]
    return main(["sweep", "--grid", "grid.yaml", "--out", "swept", *words])


def table(folder):
    found = json.loads((folder / "swept" / "table.json").read_text(encoding="utf-8"))
    return {row["label"]: row for row in found["rows"]}


def test_a_sweep_leaves_a_table_and_the_best_heads_of_each_variant(data, capsys):  # noqa: F811
    home = data.parent
    grid = {"seed_everything": [0, 1], "model.optimizer.lr": [1e-3, 1e-2]}
    extra = ("--soup", "join", "--ensemble", "--wandb-sweep", "wb.yaml")
    assert sweep(home, grid, *extra) == 0
    printed = capsys.readouterr().out
    assert "variant" in printed
    assert "optimizer.lr=0.01" in printed
    rows = table(home)
    assert [row["kind"] for row in rows.values()].count("heads") == 2
    assert {row["kind"] for row in rows.values()} == {"frozen", "heads", "soup", "ensemble"}
    for row in rows.values():
        if row["kind"] == "heads":
            assert len(row["scores"]) == 2
            assert row["mean"] == pytest.approx(np.mean(row["scores"]))
            assert row["mean"] >= rows["frozen"]["mean"]
            heads = load_heads(home / "swept" / row["file"])
            assert heads.header.training["sweep"]["model.optimizer.lr"] in (1e-3, 1e-2)
    soup = next(row for row in rows.values() if row["kind"] == "soup")
    assert load_heads(home / "swept" / soup["file"]).state.architecture.hidden == (1536,)
    assert "val/ndcg@10" in (home / "wb.yaml").read_text()


def test_a_member_of_a_sweep_is_the_run_of_fit_with_its_settings(data):  # noqa: F811
    home = data.parent
    assert sweep(home, {"seed_everything": [3], "model.optimizer.lr": [1e-2]}) == 0
    words = ("--seed_everything", "3", "--model.optimizer.lr", "0.01")
    assert main(command(*words, name="alone")) == 0
    best = heads_from_checkpoint(str(home / "runs" / "alone" / "checkpoints" / "best.ckpt"))
    (row,) = (row for row in table(home).values() if row["kind"] == "heads")
    heads = load_heads(home / "swept" / row["file"])
    for side in ("state", "action"):
        for name, weight in getattr(heads, side).weights.items():
            want = getattr(best, side).get_parameter(name).detach().numpy()
            np.testing.assert_allclose(weight, want, atol=2e-3)  # float16 in the file


def test_heads_with_options_train_at_once_and_their_soup_is_measured_as_it_is_served(data, caplog):  # noqa: F811
    home = data.parent
    options = [
        *("--model.head.centre", "corpus", "--model.head.feature_dropout", "0.2"),
        *("--model.head.widths", "[4, 8]", "--model.optimizer.lr", "0.01"),
    ]
    assert sweep(home, {"seed_everything": [0, 1]}, *options, "--soup", "join") == 0
    assert "2 at once" in caplog.text
    assert "one by one" not in caplog.text
    rows = table(home)
    alone = load_heads(home / "swept" / rows["as configured"]["file"])
    assert alone.header.widths == (4, 8)
    assert alone.state.centre is not None
    soup = next(row for row in rows.values() if row["kind"] == "soup")
    heads = load_heads(home / "swept" / soup["file"])
    settings = EvaluationSettings(split="val", metrics=("ndcg@10",), resamples=1)
    found = [
        evaluate(CLMScorer(heads, Embedder(HashEncoder(16), heads.texts)), one, settings)
        for one in (read_dataset(data / "one"), read_dataset(data / "two"))
    ]
    mean = np.mean([one.mean("ndcg@10") for one in found])
    assert soup["mean"] == pytest.approx(mean, abs=1e-6)


def test_what_cannot_be_stacked_is_trained_one_by_one(data, caplog):  # noqa: F811
    home = data.parent
    grid = {"model.head.hidden": [[4], [6]], "model.optimizer.lr": [1e-3, 1e-2]}
    assert sweep(home, grid, "--model.loss.other_positives", "count") == 0
    assert "one by one, because of model.loss.other_positives" in caplog.text
    rows = [row for row in table(home).values() if row["kind"] == "heads"]
    assert len(rows) == 4
    assert all(row["mean"] > 0 for row in rows)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"model.optimizer.rate": [1]}, "model.optimizer.rate"),
        ({"model.optimizer.lr": [-1.0]}, "model.optimizer.lr must be > 0"),
        ([1], "grid must map settings to lists"),
    ],
)
def test_a_grid_that_cannot_be_trained_is_refused_in_a_line(data, capsys, grid, message):  # noqa: F811
    assert sweep(data.parent, grid) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_a_missing_file_is_named(data, capsys):  # noqa: F811
    assert main(["sweep", "--config", "none.yaml", "--grid", "grid.yaml"]) == 2
    assert "got no file none.yaml" in capsys.readouterr().err
