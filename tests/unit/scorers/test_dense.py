from __future__ import annotations

import numpy as np
import pytest
from tests.hash_encoder import HashEncoder
from tests.made_heads import ALL_VIEWS

from toolheads.cutoff import CutoffSettings
from toolheads.domain import Query, Tool
from toolheads.embedder import Embedder
from toolheads.scorers.dense import DenseScorer

TOOLS = [Tool(str(i), name) for i, name in enumerate(["weather", "mail", "flights", "mail"])]


def made_scorer(**more):
    scorer = DenseScorer(Embedder(HashEncoder(16)), **more)
    scorer.index(TOOLS)
    return scorer


def test_the_score_is_the_cosine_of_the_frozen_vectors():
    embedder, scorer = Embedder(HashEncoder(16)), made_scorer()
    expected = embedder.embed(["mail"]) @ embedder.tools(TOOLS)["text"].T
    np.testing.assert_allclose(scorer.scores(["mail"]), expected, atol=1e-6)


def test_the_nearest_tool_comes_first_and_its_twin_second():
    (hits,) = made_scorer().rank([Query("q", "mail")], 3)
    assert [hit.tool_id for hit in hits][:2] == ["1", "3"]
    assert hits[0].score == hits[1].score == pytest.approx(1.0)


def test_views_and_cutoff_can_be_given():
    scorer = made_scorer(views=ALL_VIEWS, cutoff=CutoffSettings(max_k=1))
    assert len(scorer.search("mail")) == 1
    assert (scorer.name, scorer.cutoff.max_k) == ("dense", 1)
