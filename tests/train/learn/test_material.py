"""What trains: requests with their votes, and what is replayed beside them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

pytest.importorskip("torch")

from tests.train.learn.world import TOOLS, encoder

from toolheads.data import Dataset
from toolheads.domain import Query, Tool
from toolheads.embedder import Embedder
from toolheads.usage import JudgedRequest
from toolheads_train.learn.material import (
    MOST_VOTES,
    Catalogue,
    log_source,
    replay_sources,
)

pytestmark = pytest.mark.train

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def embedder():
    return Embedder(encoder())


@pytest.fixture(scope="module")
def catalogue(embedder):
    return Catalogue.embedded(TOOLS, {"text": 0.8, "name": 0.2, "summary": 0.0}, embedder)


def request(text, called, skipped=()):
    return JudgedRequest(text, called, dict.fromkeys(skipped, 1), (), 1, NOW, NOW)


def test_a_tool_has_as_many_chances_as_calls_and_passed_over_tools_are_negatives(
    catalogue, embedder
):
    asked = [request("one", {"t3": 2, "t1": 1}, ["t0"]), request("two", {"t2": 999})]
    source = log_source(asked, catalogue, embedder)
    assert source.positives == [[3, 3, 1], [2] * MOST_VOTES]
    assert source.negatives == [[0], []]
    assert source.tools.shape == (len(TOOLS), 2, 48)  # a view without weight has no vectors


def dataset(texts, split="train"):
    tools = (Tool("x", "other", None, "Another tool."), Tool("y", "idle", None, "Not needed."))
    queries = [Query(str(n), text, {"x": 1}, split) for n, text in enumerate(texts)]
    return Dataset("replayed", tools, tuple(queries), {})


def replayed(catalogue, embedder, datasets, held_out=(), most=100):
    return replay_sources(
        catalogue, datasets, embedder, held_out=held_out, most_queries=most, seed=0
    )


def test_without_data_the_tools_themselves_are_replayed(catalogue, embedder):
    (source,), counts = replayed(catalogue, embedder, [])
    assert source.label_free
    assert len(source.queries) == len(TOOLS) == counts["replayed label-free pairs"]


def test_replayed_queries_bring_the_tools_that_they_need(catalogue, embedder):
    (_, source), counts = replayed(catalogue, embedder, [dataset(["first one", "second"])])
    assert (len(source.queries), len(source.tools)) == (2, 1)
    assert source.label_free  # the part of a batch with a share of its own
    assert counts["replayed queries"] == 2


def test_held_out_requests_and_test_queries_are_not_replayed(catalogue, embedder):
    data = dataset(["Move my meeting!", "something else", "a test"])
    test = dataset(["A test?"], split="test")
    both = Dataset("replayed", data.tools, (*data.queries, *test.queries), {})
    sources, counts = replayed(catalogue, embedder, [both], held_out=["move my meeting"])
    assert len(sources[1].queries) == 1
    assert counts["replay left out"] == 2


def test_of_many_queries_so_many_are_drawn_and_always_the_same(catalogue, embedder):
    data = [dataset([f"text{n}" for n in range(30)])]
    one, two = (replayed(catalogue, embedder, data, most=5)[0][1] for _ in range(2))
    assert one.same_query == two.same_query
    assert len(one.same_query) == 5
