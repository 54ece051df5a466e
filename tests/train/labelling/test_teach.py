"""Which tools are scored for a query, by whom, and that the right ones always are."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.hash_encoder import HashEncoder  # noqa: E402

from toolheads.data import Dataset  # noqa: E402
from toolheads.domain import Query, Tool  # noqa: E402
from toolheads.embedder import Embedder  # noqa: E402
from toolheads.errors import ConfigError, ShapeError  # noqa: E402
from toolheads.scorers.dense import DenseScorer  # noqa: E402
from toolheads.texts import TextSettings  # noqa: E402
from toolheads_train.data.selection import Selected, Selection  # noqa: E402
from toolheads_train.labelling.teach import teach  # noqa: E402
from toolheads_train.labelling.teachers import CrossEncoder, Ensemble  # noqa: E402

pytestmark = pytest.mark.train

WORDS = ("alpha", "bravo", "carbon", "delta", "ember", "fjord")
TOOLS = tuple(Tool(word, word) for word in WORDS)


def selection():
    train = (
        Query("1", "alpha bravo", {"fjord": 1}, "train"),
        Query("2", "carbon", {"carbon": 1}, "train"),
    )
    return Selection((Selected(Dataset("a", TOOLS, train, {}), train, ()),), (), {})


def dense(model="hash"):
    return DenseScorer(Embedder(HashEncoder(16, weights=model), TextSettings()))


class Reader:
    """Counts the letters that a query and a tool share, and remembers what it was asked."""

    def __init__(self):
        self.asked = []

    def predict(self, pairs, *, batch_size, show_progress_bar, activation_fn):
        assert activation_fn(torch.tensor(7.0)) == 7.0  # logits
        self.asked += pairs
        return np.array([len(set(a) & set(b)) for a, b in pairs], np.float32)


def test_the_nearest_tools_and_the_right_ones_are_scored():
    ((name, scores),) = teach(selection(), Ensemble([dense()]), Ensemble([dense()]), top=3)
    assert name == "a"
    assert list(scores["a", "1"]) == ["fjord", "alpha", "bravo"] or list(scores["a", "1"]) == [
        "fjord",
        "bravo",
        "alpha",
    ]
    assert "carbon" in scores["a", "2"]
    assert len(scores["a", "2"]) == 3


def test_an_ensemble_is_the_mean_of_its_scores():
    one, two = dense(), dense("two")
    both = Ensemble([one, two])
    both.index(TOOLS)
    texts = ["alpha bravo", "carbon"]
    want = (one.scores(texts) + two.scores(texts)) / 2
    rows = [np.array([4, 0, 2]), np.array([5])]
    for found, all_of, asked in zip(both.scores(texts, rows), want, rows, strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, all_of[asked], atol=1e-6)


def test_a_cross_encoder_reads_the_query_and_the_text_of_the_tool():
    reader = Reader()
    teacher = CrossEncoder(reader, TextSettings())
    ((_, scores),) = teach(selection(), teacher, Ensemble([dense()]), top=2)
    assert ("carbon", "carbon") in reader.asked
    assert scores["a", "2"]["carbon"] == len(set("carbon"))
    assert scores["a", "1"]["fjord"] == len(set("alpha bravo") & set("fjord"))


def test_a_cross_encoder_of_several_labels_is_refused():
    class Classes(Reader):
        def predict(self, pairs, **_):
            return np.zeros((len(pairs), 3), np.float32)

    teacher = CrossEncoder(Classes(), TextSettings())
    with pytest.raises(ShapeError, match="one finite number for each pair"):
        list(teach(selection(), teacher, Ensemble([dense()]), top=2))


def test_one_tool_teaches_nothing():
    with pytest.raises(ConfigError, match="top must be >= 2, got 1"):
        list(teach(selection(), Ensemble([dense()]), Ensemble([dense()]), top=1))


def test_an_ensemble_of_nobody_is_refused():
    with pytest.raises(ConfigError, match="at least one heads file, got none"):
        Ensemble([])
