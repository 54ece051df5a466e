"""Odd data through the real command: a clear line, or a result that means what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from tests.hash_encoder import HashEncoder  # noqa: E402
from tests.train.synthetic import HARMLESS  # noqa: E402
from tests.train.trust.made import (  # noqa: E402
    WIDTH,
    enter,
    fit,
    queries,
    summary,
    told,
    tools,
    write,
)

from toolheads import Embedder, load_heads  # noqa: E402
from toolheads.cache.keys import text_keys  # noqa: E402
from toolheads.cache.shard import write_shard  # noqa: E402
from toolheads.texts import TextSettings, format_query  # noqa: E402

pytestmark = [pytest.mark.train, *(pytest.mark.filterwarnings(w) for w in HARMLESS)]

WORDS_ALONE = ("--data.min_cosine", "null")


def usual(folder, monkeypatch, *, tool_rows=None, query_rows=None, encoder=None):
    """Twelve tools, 24 training and 12 validation queries, unless others are given."""
    enter(folder, monkeypatch, encoder)
    rows = [*queries(24, 12), *queries(12, 12, split="val", first=100)]
    write(
        folder / "data" / "made",
        tools(12) if tool_rows is None else tool_rows,
        rows if query_rows is None else query_rows,
    )


def gain():
    metrics = summary()["metrics"]
    return metrics["heads"]["mean"]["ndcg@10"] - metrics["frozen"]["mean"]["ndcg@10"]


def is_sane(name="run"):
    """The run has heads that load and numbers that are none below frozen."""
    load_heads(Path("runs", name, "heads.npz"))
    return np.isfinite(gain()) and gain() >= 0


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ask 3", "embeddings of queries of made must be finite, got NaN or inf in 1 rows: 'tr"),
        ("ask 105", "embeddings of queries of made must be finite.* 1 rows: 'val-105'"),
        ("made tool 7", "embeddings of tools must be finite, got NaN or inf in 1 rows: 't7'"),
    ],
    ids=["training query", "validation query", "tool"],
)
def test_vectors_of_nan_in_the_cache_are_named(tmp_path, monkeypatch, capfd, text, name):
    usual(tmp_path, monkeypatch)
    assert fit("--data.cache", "cache", *WORDS_ALONE, epochs=1) == 0
    poison(Path("cache"), tmp_path / "data" / "made", text)
    capfd.readouterr()
    assert fit("--data.cache", "cache", *WORDS_ALONE, name="poisoned") == 2
    assert re.search(name, told(capfd))
    assert not Path("runs/poisoned/heads.npz").exists()


def poison(cache, data, start):
    """Rewrite the cache so that texts with a start are NaN, digests and all."""
    embedder = Embedder(HashEncoder(WIDTH), TextSettings(), cache)
    opened = embedder.cache
    assert opened is not None
    rows = [json.loads(line) for line in (data / "queries.jsonl").read_text().splitlines()]
    texts = [format_query(row["text"], embedder.texts) for row in rows]
    made = [json.loads(line) for line in (data / "tools.jsonl").read_text().splitlines()]
    texts += [f"made tool {i}: {row['description']}" for i, row in enumerate(made)]
    vectors = opened.rows(texts).astype(np.float16)
    bad = [text.startswith((f"{start} ", f"{start}:")) for text in texts]
    assert sum(bad) == 1
    vectors[bad] = np.nan
    shards = opened.folder / "float16"
    for shard in shards.iterdir():
        shard.unlink()
    write_shard(shards, text_keys(texts), vectors, "float16")


def test_zero_vectors_of_the_encoder_are_one_line_that_names_a_text(tmp_path, monkeypatch, capfd):
    class Silent(HashEncoder):
        def encode(self, texts):
            rows = super().encode(texts)
            rows[[text.startswith("ask 5 ") for text in texts]] = 0
            return rows

    usual(tmp_path, monkeypatch, encoder=Silent(WIDTH))
    assert fit() == 2
    assert "encoder hash must give no zero vector, got 1, first for 'ask 5 " in told(capfd)


def test_one_single_pair_has_nothing_to_learn_and_says_so_by_its_numbers(tmp_path, monkeypatch):
    rows = [*queries(1, 1), *queries(2, 12, split="val", first=100)]
    usual(tmp_path, monkeypatch, query_rows=rows)
    assert fit(*WORDS_ALONE) == 0
    assert is_sane()


@pytest.mark.parametrize("by", ["query", "tool"])
def test_one_data_set_alone_trains_and_validates_on_parts_of_itself(tmp_path, monkeypatch, by):
    usual(tmp_path, monkeypatch, query_rows=queries(36, 12))
    assert fit(*WORDS_ALONE, "--data.validation.by", by, "--data.validation.share", "0.3") == 0
    assert is_sane()
    made = load_heads(Path("runs/run/heads.npz")).header.training["data"]["made"]
    assert made["train"] > 0
    assert made["validation"] > 0


@pytest.mark.parametrize(
    ("held_out", "message"),
    [
        ("[]", "validation must have a data set with at least 1 queries, got none"),
        ("[made]", "training data must have at least one query with a relevant tool, got none"),
    ],
)
def test_one_data_set_alone_cannot_be_held_out_whole(
    tmp_path, monkeypatch, capfd, held_out, message
):
    usual(tmp_path, monkeypatch, query_rows=queries(36, 12))
    by = ("--data.validation.by", "dataset", "--data.validation.share", "0.01")
    assert fit(*by, "--data.validation.datasets", held_out) == 2
    assert message in told(capfd)


def test_one_tool_alone_is_always_found(tmp_path, monkeypatch):
    rows = [*queries(6, 1), *queries(3, 1, split="val", first=100)]
    usual(tmp_path, monkeypatch, tool_rows=tools(1), query_rows=rows)
    assert fit(*WORDS_ALONE) == 0
    assert is_sane()
    assert summary()["metrics"]["frozen"]["mean"]["ndcg@10"] == 1.0


def test_vectors_that_are_all_equal_are_refused_by_the_guard(tmp_path, monkeypatch, capfd):
    usual(tmp_path, monkeypatch, encoder=Constant(WIDTH))
    assert fit() == 2
    line = told(capfd)
    assert "data.min_cosine must leave queries for train, got none of 24" in line
    assert "whether the encoder gives all texts one vector" in line


def test_vectors_that_are_all_equal_without_the_guard_gain_nothing(tmp_path, monkeypatch):
    usual(tmp_path, monkeypatch, encoder=Constant(WIDTH))
    assert fit(*WORDS_ALONE) == 0
    assert gain() == 0
    assert summary()["best_step"] == 0


class Constant(HashEncoder):
    """One vector for every text but the probe's."""

    def encode(self, texts):
        rows = super().encode(texts)
        rows[[text.startswith(("ask", "made")) for text in texts]] = np.eye(WIDTH)[0]
        return rows


def test_a_query_without_positives_is_left_out_and_counted(tmp_path, monkeypatch):
    rows = [*queries(24, 12), *queries(12, 12, split="val", first=100)]
    rows[3]["relevant"] = []
    rows[30]["relevant"] = []
    usual(tmp_path, monkeypatch, query_rows=rows)
    assert fit(*WORDS_ALONE) == 0
    assert summary()["left_out"] == {"no relevant tool": 2}
    assert is_sane()


def test_tools_that_come_twice_are_no_negatives_of_each_other(tmp_path, monkeypatch):
    twice = tools(12) + [{**row, "id": f"again-{row['id']}"} for row in tools(12)]
    rows = [*queries(24, 12), *queries(12, 12, split="val", first=100)]
    for row in rows[::2]:
        row["relevant"] = [f"again-{row['relevant'][0]}"]
    usual(tmp_path, monkeypatch, tool_rows=twice, query_rows=rows)
    assert fit(*WORDS_ALONE) == 0
    assert is_sane()


def test_an_empty_training_split_is_one_line(tmp_path, monkeypatch, capfd):
    usual(tmp_path, monkeypatch, query_rows=queries(12, 12, split="val"))
    assert fit() == 2
    assert "training data must have at least one query with a relevant tool" in told(capfd)


def test_an_empty_validation_split_is_one_line_that_says_what_to_set(tmp_path, monkeypatch, capfd):
    usual(tmp_path, monkeypatch, query_rows=queries(24, 12))
    assert fit() == 2
    assert "validation must have a data set with at least 1 queries, got none; set data.val" in (
        told(capfd)
    )


def test_validation_queries_that_all_ask_for_one_tool_give_a_result(tmp_path, monkeypatch):
    rows = [*queries(24, 12), *queries(6, 1, split="val", first=100)]
    usual(tmp_path, monkeypatch, query_rows=rows)
    assert fit(*WORDS_ALONE) == 0
    assert is_sane()


def test_what_is_near_a_test_query_by_its_vector_is_left_out_counted_and_told(
    tmp_path, monkeypatch, caplog
):
    """No word of the test query is in the training query; the encoder sees the same in both."""

    class Bilingual(HashEncoder):
        def encode(self, texts):
            said = {"frage nach dem wetter": "ask 2 w14 w25 w36 w47"}
            return super().encode([said.get(text, text) for text in texts])

    rows = [*queries(24, 12), *queries(12, 12, split="val", first=100)]
    twin = "ask 2 w14 w25 w36 w47"
    assert rows[2]["text"] == twin
    test = {"id": "test-1", "text": "frage nach dem wetter", "relevant": ["t2"], "split": "test"}
    usual(tmp_path, monkeypatch, query_rows=[*rows, test], encoder=Bilingual(WIDTH))
    assert fit("--data.min_cosine", "0.999") == 0
    assert summary()["left_out"] == {"near a test query (vectors)": 1}
    assert summary()["near_vectors"] == {"made": 1}
    assert "left out of made for its vectors: 1" in caplog.text
    training = load_heads(Path("runs/run/heads.npz")).header.training
    assert training["left_out"] == {"near a test query (vectors)": 1}
    assert training["data"]["made"]["train"] == 23
    met = training["shared_tools"]["made"]
    assert (met["tools"], met["tools_in_training"], met["relevant_labelled"]) == (12, 12, 1)
    card = Path("runs/run/README.md").read_text(encoding="utf-8")
    assert "near a test query (vectors): 1" in card
    assert "left out for their vectors: made 1." in card
    assert "| made | 12 | 12 | 1 | 1 | 1 |" in card


@pytest.mark.parametrize("least", ["0", "1.01", "-0.5"])
def test_a_bound_that_is_no_cosine_of_near_texts_is_refused(tmp_path, monkeypatch, capfd, least):
    usual(tmp_path, monkeypatch)
    assert fit("--data.min_cosine", least) == 2
    assert "data.min_cosine must be in (0, 1] or null, got" in told(capfd)
