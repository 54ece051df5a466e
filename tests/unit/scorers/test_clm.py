from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.hash_encoder import HashEncoder
from tests.made_heads import ALL_VIEWS, made_head, made_heads

from toolheads.cutoff import CutoffSettings
from toolheads.domain import Query, Tool
from toolheads.embedder import Embedder
from toolheads.errors import BackboneMismatchError, ConfigError, EncoderError, ShapeError
from toolheads.heads import Architecture, Head, Views
from toolheads.scorers.clm import CLMScorer
from toolheads.scorers.dense import DenseScorer
from toolheads.texts import TextSettings, format_tool, split_clauses

D = 16
TOOLS = [
    Tool("w", "get_forecast", "weather", "Get the weather forecast. Any city."),
    Tool("m", "send_mail", "mail", "Send a mail to a person."),
    Tool("f", "searchFlights", "travel", "Search flights between two cities."),
    Tool("n", "noteTaking", None, ""),
]
ERRANDS = "search flights from Rome to Oslo, and then send a mail to my boss about it"


def heads_for(embedder, **more):
    architecture = Architecture(D, hidden=(12,))
    return made_heads(
        state=made_head(architecture, seed=1, alpha=0.1),
        action=made_head(architecture, seed=2, alpha=0.1),
        fingerprint=embedder.fingerprint,
        probe=embedder.probe(),
        **more,
    )


def made_scorer(encoder=None, **more):
    embedder = Embedder(encoder or HashEncoder(D))
    scorer = CLMScorer(heads_for(embedder, **more), embedder)
    scorer.index(TOOLS)
    return scorer


def test_the_score_is_the_weighted_sum_of_views_and_best_clause():
    embedder = Embedder(HashEncoder(D))
    heads = heads_for(embedder, views=ALL_VIEWS)
    scorer = CLMScorer(heads, embedder)
    scorer.index(TOOLS)
    texts = {
        "text": [format_tool(tool, TextSettings()) for tool in TOOLS],
        "name": ["get Forecast".lower(), "send mail", "search Flights", "note Taking"],
        "summary": [
            "Get the weather forecast.",
            "Send a mail to a person.",
            "Search flights between two cities.",
            "note Taking",
        ],
    }
    action = {view: heads.action(embedder.embed(t)) for view, t in texts.items()}
    folded = 0.6 * action["text"] + 0.3 * action["name"] + 0.1 * action["summary"]
    whole = heads.state(embedder.embed([ERRANDS]))[0]
    clauses = heads.state(embedder.embed(split_clauses(ERRANDS)))
    expected = 0.7 * folded @ whole + 0.3 * (folded @ clauses.T).max(axis=1)

    assert len(clauses) == 2
    np.testing.assert_allclose(scorer.scores([ERRANDS])[0], expected, atol=1e-6)
    hits = {hit.tool_id: hit.score for hit in scorer.search(ERRANDS, k=4)}
    np.testing.assert_allclose([hits[tool.id] for tool in TOOLS], expected, atol=1e-6)


def test_narrow_heads_score_by_the_start_of_their_projections():
    embedder = Embedder(HashEncoder(D))
    heads = heads_for(embedder, views=ALL_VIEWS, widths=(5,))
    narrow = heads.at_width(5)
    scorer = CLMScorer(narrow, embedder)
    scorer.index(TOOLS)
    views = embedder.tools(TOOLS, views=("text", "name", "summary"))
    action = {view: narrow.action(rows) for view, rows in views.items()}
    folded = 0.6 * action["text"] + 0.3 * action["name"] + 0.1 * action["summary"]
    whole = narrow.state(embedder.embed([ERRANDS]))[0]
    clauses = narrow.state(embedder.embed(split_clauses(ERRANDS)))
    expected = 0.7 * folded @ whole + 0.3 * (folded @ clauses.T).max(axis=1)
    assert folded.shape == (len(TOOLS), 5)
    np.testing.assert_allclose(scorer.scores([ERRANDS])[0], expected, atol=1e-6)


def test_heads_at_their_full_width_find_the_same_as_heads_without_a_width():
    embedder = Embedder(HashEncoder(D))
    heads = heads_for(embedder, widths=(5,))
    scorers = [CLMScorer(one, embedder) for one in (heads, heads.at_width(D))]
    for scorer in scorers:
        scorer.index(TOOLS)
    assert scorers[0].search(ERRANDS, k=4) == scorers[1].search(ERRANDS, k=4)


def test_all_views_of_all_queries_go_to_the_encoder_in_one_call():
    calls = []

    class Counted(HashEncoder):
        def encode(self, texts):
            calls.append(list(texts))
            return super().encode(texts)

    scorer = made_scorer(Counted(D), views=ALL_VIEWS)
    calls.clear()
    scorer.search_many([ERRANDS, "what is the weather"])
    assert calls == [[ERRANDS, *split_clauses(ERRANDS), "what is the weather"]]


def test_views_of_weight_zero_are_not_embedded():
    encoder = HashEncoder(D)
    made_scorer(encoder, views=Views({"text": 1.0, "name": 0.0}, {"text": 1.0, "clause": 0.0}))
    assert "send mail" not in encoder.sent


def test_what_people_type_is_not_kept_in_the_cache(tmp_path):
    embedder = Embedder(HashEncoder(D), cache=tmp_path)
    scorer = CLMScorer(heads_for(embedder), embedder)
    scorer.index(TOOLS)
    cache = embedder.cache
    assert cache is not None
    scorer.search("a secret wish")
    scorer.search("a secret wish", k=2)
    assert cache.find(["a secret wish"])[0] < 0
    scorer.rank([Query("q", "a known query")], 1)
    assert cache.find(["a known query"])[0] >= 0


def test_without_k_the_cutoff_of_the_heads_decides():
    scores = [hit.score for hit in made_scorer().search("send a mail", k=4)]
    gap = scores[0] - scores[1]
    narrow = made_scorer(cutoff=CutoffSettings(margin=gap / 2))
    wide = made_scorer(cutoff=CutoffSettings(margin=2.0, max_k=3))
    assert len(narrow.search("send a mail")) == 1
    assert len(wide.search("send a mail")) == 3
    assert len(narrow.search("send a mail", k=4)) == 4


def test_below_the_threshold_no_tool_fits():
    scorer = made_scorer(cutoff=CutoffSettings(threshold=1.5))
    assert scorer.search_many(["send a mail", "fly"]) == [[], []]


def test_a_search_alone_finds_the_same_to_the_bit_as_among_others():
    scorer = made_scorer(views=ALL_VIEWS)
    texts = [ERRANDS, "weather", "send a mail", "note"] * 5
    assert scorer.search_many(texts) == [scorer.search(text) for text in texts]


def test_heads_that_are_the_identity_rank_as_the_frozen_vectors():
    embedder = Embedder(HashEncoder(D))
    same = Head.identity(D)
    heads = dataclasses.replace(heads_for(embedder), state=same, action=same)
    trained, frozen = CLMScorer(heads, embedder), DenseScorer(embedder)
    for scorer in (trained, frozen):
        scorer.index(TOOLS)
    assert trained.search(ERRANDS, k=4) == frozen.search(ERRANDS, k=4)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Embedder(HashEncoder(D, model="else")), "got model 'hash' != 'else'"),
        (Embedder(HashEncoder(8)), "got width 16 != 8"),
        (Embedder(HashEncoder(D), TextSettings(instruction="Do.")), "got instruction '' != 'Do.'"),
        (
            Embedder(HashEncoder(D, weights="two")),
            "heads file 'mine' was made with other weights: its probe",
        ),
    ],
    ids=["model", "width", "texts", "weights behind the same name"],
)
def test_heads_for_another_backbone_are_refused_with_what_differs(other, message):
    heads = heads_for(Embedder(HashEncoder(D)), training={"name": "mine"})
    with pytest.raises(BackboneMismatchError, match=message):
        CLMScorer(heads, other)


def test_the_probe_is_embedded_once():
    encoder = HashEncoder(D)
    scorer = made_scorer(encoder)
    before = encoder.count
    scorer.search("weather")
    assert encoder.count == before + 1


def test_an_encoder_that_fails_while_indexing_leaves_the_old_corpus():
    class Failing(HashEncoder):
        fails = False

        def encode(self, texts):
            if self.fails:
                raise EncoderError("down")
            return super().encode(texts)

    encoder = Failing(D)
    scorer = made_scorer(encoder)
    before = scorer.search("send a mail", k=4)
    encoder.fails = True
    with pytest.raises(EncoderError, match="down"):
        scorer.index(TOOLS[:1])
    encoder.fails = False
    assert scorer.search("send a mail", k=4) == before


def test_a_vector_that_is_not_finite_never_becomes_a_score():
    class Broken(HashEncoder):
        def encode(self, texts):
            rows = super().encode(texts)
            rows[["broken" in text for text in texts]] = np.nan
            return rows

    with pytest.raises(EncoderError, match="must be finite"):
        made_scorer(Broken(D)).search("broken")


def test_heads_that_overflow_are_refused_and_serve_nothing():
    embedder = Embedder(HashEncoder(D))
    heads = heads_for(embedder)
    huge = dict(heads.state.weights) | {"out.bias": np.full(D, 3e38, np.float32)}
    state = Head(heads.state.architecture, 9.0, huge)
    scorer = CLMScorer(dataclasses.replace(heads, state=state), embedder)
    scorer.index(TOOLS)
    with pytest.raises(ShapeError, match="the head's output must be finite"):
        scorer.search("weather")


@pytest.mark.parametrize("text", ["", " \n\t", "\u3000", "\udc80", None, b"bytes"])
def test_a_text_that_is_no_request_is_refused(text):
    with pytest.raises(ConfigError, match=r"text must (have at least one char|be valid Unicode)"):
        made_scorer().search(text)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3"])
def test_a_k_that_is_no_whole_number_above_zero_is_refused(k):
    with pytest.raises(ConfigError, match="k must be a whole number >= 1, got"):
        made_scorer().search("weather", k=k)


def test_a_search_before_index_says_what_to_do():
    embedder = Embedder(HashEncoder(D))
    with pytest.raises(ConfigError, match=r"clm must have a corpus, .*; call index\(tools\) first"):
        CLMScorer(heads_for(embedder), embedder).search("weather")
