"""Wrong labels: what a run keeps is not below the frozen vectors, whoever mislabelled what."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from tests.train.synthetic import HARMLESS  # noqa: E402
from tests.train.trust.made import (  # noqa: E402
    TurnedEncoder,
    enter,
    fit,
    queries,
    summary,
    tools,
    write,
)

from toolheads import Embedder, load_heads, read_dataset  # noqa: E402
from toolheads.evaluation.evaluate import evaluate  # noqa: E402
from toolheads.evaluation.settings import EvaluationSettings  # noqa: E402
from toolheads.scorers.clm import CLMScorer  # noqa: E402
from toolheads.scorers.dense import DenseScorer  # noqa: E402

pytestmark = [pytest.mark.train, *(pytest.mark.filterwarnings(w) for w in HARMLESS)]

TOOLS = 60
LEARNS = ("--model.optimizer.lr", "0.02", "--model.loss.mask_margin", "null")


def with_wrong_labels(rows, share, seed=0):
    """The same queries; a share of them asks for another tool, drawn at random."""
    rng = np.random.default_rng(seed)
    return [
        {**row, "relevant": [f"t{rng.integers(TOOLS)}"]} if rng.random() < share else row
        for row in rows
    ]


def trained(folder, monkeypatch, *, train, val, options=LEARNS):
    """Fit with shares of wrong labels in both splits; (frozen, heads) nDCG@10 on right ones.

    The first pair is of validation as it is labelled, the second of test queries.
    """
    enter(folder, monkeypatch, TurnedEncoder())
    right = queries(40, TOOLS, split="test", first=700)
    rows = with_wrong_labels(queries(240, TOOLS), train)
    rows += with_wrong_labels(queries(40, TOOLS, split="val", first=400), val, seed=1)
    write(folder / "data" / "made", tools(TOOLS), rows + right)
    assert fit(*options, epochs=4, steps=25, batch=64) == 0
    metrics = summary()["metrics"]
    told = [metrics[which]["mean"]["ndcg@10"] for which in ("frozen", "heads")]
    heads = load_heads(Path("runs/run/heads.npz"))
    data = read_dataset(folder / "data" / "made")
    settings = EvaluationSettings(metrics=("ndcg@10",), k=10, resamples=1)
    measured = [
        evaluate(scorer, data, settings).mean("ndcg@10")
        for scorer in (
            DenseScorer(Embedder(TurnedEncoder())),
            CLMScorer(heads, Embedder(TurnedEncoder(), heads.texts)),
        )
    ]
    return told, measured


@pytest.mark.parametrize("val", [0.0, 0.2], ids=["validation right", "validation wrong too"])
def test_a_fifth_of_wrong_labels_does_not_end_below_frozen(tmp_path, monkeypatch, val):
    """The turn can be learned in spite of them: what is learned shows on right test labels."""
    told, measured = trained(tmp_path, monkeypatch, train=0.2, val=val)
    assert told[1] >= told[0]
    assert measured[1] > measured[0] + 0.05
    assert summary()["best_step"] > 0


def test_labels_that_are_all_wrong_leave_the_frozen_vectors(tmp_path, monkeypatch):
    told, measured = trained(tmp_path, monkeypatch, train=1.0, val=0.0)
    assert told[1] == told[0]
    assert measured[1] == pytest.approx(measured[0], abs=1e-6)
    found = summary()
    assert found["share"] == 0 or found["best_step"] == 0
