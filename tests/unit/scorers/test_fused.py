"""Scores with a fusion, against the formula written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hash_encoder import HashEncoder
from tests.made_heads import ALL_VIEWS, made_head, made_heads

from toolheads.domain import Query, Tool
from toolheads.embedder import Embedder
from toolheads.errors import ConfigError
from toolheads.heads import Architecture, Fusion, Head, Views
from toolheads.heads.fusion import HubnessPart, LexicalPart
from toolheads.lexical import FieldedIndex
from toolheads.scorers import best, exact
from toolheads.scorers.clm import CLMScorer
from toolheads.scorers.dense import DenseScorer
from toolheads.scorers.exact import ProjectedTools, QueryProjections, soft_maximum
from toolheads.texts import split_clauses

D = 16
SUBJECTS = ("invoice", "weather", "calendar", "ticket", "photo", "parcel", "song")
VERBS = ("get", "send", "delete", "print")
TOOLS = [
    Tool(f"{verb} {s}", f"{verb}_{s}", s, f"To {verb} a {s}. It also keeps the {other}s.")
    for verb in VERBS
    for s, other in zip(SUBJECTS, SUBJECTS[1:] + SUBJECTS[:1], strict=True)
]
REQUEST = "print the invoice for the parcel, and then send a photo of the ticket to my boss"
WORDS = LexicalPart(0.5)
HUBS = HubnessPart(0.3, 4)


def scorer_of(fusion, *, views=ALL_VIEWS, tools=TOOLS):
    embedder = Embedder(HashEncoder(D))
    architecture = Architecture(D, hidden=(12,))
    heads = made_heads(
        state=made_head(architecture, seed=1, alpha=0.1),
        action=made_head(architecture, seed=2, alpha=0.1),
        fingerprint=embedder.fingerprint,
        probe=embedder.probe(),
        views=views,
        fusion=fusion,
    )
    scorer = CLMScorer(heads, embedder)
    scorer.index(tools)
    return scorer, heads, embedder


def written_out(heads, embedder, text):
    """(n,) float64: the formula of `Fusion`, term by term."""
    fusion, views = heads.fusion, heads.header.views
    own = embedder.tools(TOOLS, views=("text", "name", "summary"))
    action = {view: heads.action(rows).astype(np.float64) for view, rows in own.items()}
    tools = sum(weight * action[view] for view, weight in views.tool.items())
    whole = heads.state(embedder.embed([text]))[0].astype(np.float64)
    clauses = heads.state(embedder.embed(split_clauses(text))).astype(np.float64)
    of_clauses = clauses @ tools.T
    best, t = of_clauses.max(axis=0), fusion.clause_temperature
    if t:
        best = best + t * np.log(np.exp((of_clauses - best) / t).mean(axis=0))
    score = views.query["text"] * tools @ whole + views.query["clause"] * best
    spread = (tools @ whole).std()
    if fusion.lexical:
        index = FieldedIndex(TOOLS, fusion.lexical.settings)
        lexical = index.weighted([text], fusion.lexical.fields)[0].astype(np.float64)
        score += fusion.lexical.weight * spread / lexical.std() * lexical
    if fusion.hubness:
        near = action["text"] @ action["summary"].T
        np.fill_diagonal(near, -np.inf)
        hubs = np.sort(near, axis=1)[:, -fusion.hubness.neighbours :].mean(axis=1)
        score -= fusion.hubness.weight * spread * (hubs - hubs.mean()) / hubs.std()
    return score


@pytest.mark.parametrize(
    "fusion",
    [
        Fusion(WORDS),
        Fusion(None, HUBS),
        Fusion(clause_temperature=0.05),
        Fusion(WORDS, HUBS, 0.2),
    ],
    ids=["words", "hubness", "soft clauses", "all"],
)
def test_the_score_is_the_formula(fusion):
    scorer, heads, embedder = scorer_of(fusion)
    expected = written_out(heads, embedder, REQUEST)
    # The deviation is that of rows rounded to 16 bits.
    np.testing.assert_allclose(scorer.scores([REQUEST])[0], expected, atol=1e-5)
    hits = {hit.tool_id: hit.score for hit in scorer.search(REQUEST, k=len(TOOLS))}
    np.testing.assert_allclose([hits[tool.id] for tool in TOOLS], expected, atol=1e-5)


def test_without_a_fusion_nothing_changes():
    scorer, heads, embedder = scorer_of(None)
    plain = ProjectedTools(
        {view: embedder.tools(TOOLS, views=(view,))[view] for view in ("text", "name", "summary")},
        heads.header.views.tool,
        heads.action,
    )
    queries = scorer._projections([REQUEST], keep=False)
    ((rows, scores),) = plain.top(queries, 5)
    assert [(hit.tool, hit.score) for hit in scorer.search(REQUEST, k=5)] == [
        (TOOLS[row], score) for row, score in zip(rows, scores.tolist(), strict=True)
    ]


def test_a_word_of_the_request_brings_a_tool_up():
    tools = [*TOOLS, Tool("x", "gadget", None, "Something else.")]
    ranks = []
    for fusion in (None, Fusion(LexicalPart(2.0))):
        scorer, *_ = scorer_of(fusion, tools=tools)
        ids = [hit.tool_id for hit in scorer.search("run the gadgets for me", k=len(tools))]
        ranks.append(ids.index("x"))
    assert ranks[1] == 0 < ranks[0]


def test_words_that_all_tools_share_or_none_has_say_nothing():
    tools = [Tool(str(i), f"tool{i}", "s", "same words in all of them") for i in range(9)]
    frozen, _, _ = scorer_of(None, tools=tools)
    fused, _, _ = scorer_of(Fusion(WORDS), tools=tools)
    for text in ("same words", "zzz", "!"):
        assert fused.search(text, k=9) == frozen.search(text, k=9)


def test_a_corpus_of_one_tool_or_of_twins_has_finite_scores_and_keeps_its_order():
    for tools in (TOOLS[:1], [Tool(str(i), "get_mail", "m", "Get mail.") for i in range(5)]):
        scorer, *_ = scorer_of(Fusion(WORDS, HUBS, 0.1), tools=tools)
        hits = scorer.search("get my mail", k=5)
        assert [hit.tool for hit in hits] == tools
        assert len({hit.score for hit in hits}) == 1
        assert abs(hits[0].score) <= 1.01


def test_twins_among_others_have_equal_scores_wherever_they_stand():
    twins = [Tool(f"twin{i}", "send_ticket", "ticket", "To send a ticket.") for i in range(11)]
    mixed = [tool for pair in zip(TOOLS, twins, strict=False) for tool in pair]
    scorer, *_ = scorer_of(Fusion(WORDS, HUBS, 0.1), tools=[*mixed, *TOOLS[11:]])
    hits = scorer.search(REQUEST, k=100)
    found = [hit for hit in hits if hit.tool_id.startswith("twin")]
    assert [hit.tool for hit in found] == twins
    assert len({hit.score for hit in found}) == 1


@given(st.integers(0, 60), st.integers(1, 300), st.integers(1, 30), st.sampled_from([0.0, 0.1]))
def test_the_top_with_something_added_is_the_front_of_the_whole_list(seed, n, k, temperature):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 24)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    tools = ProjectedTools({"text": rows}, {"text": 1.0}, Head.identity(24))
    asked = rows[rng.integers(0, n, 4)]
    queries = QueryProjections(asked[:2], asked, np.array([0, 3, 4]), 0.7, 0.3, temperature)
    more = rng.normal(scale=10.0, size=(2, n)) * (rng.random((2, n)) < 0.2)
    for (few, few_scores), (rank, scores), row in zip(
        tools.top(queries, k, more.__getitem__),
        tools.top(queries, n, more.__getitem__),
        (0, 1),
        strict=True,
    ):
        assert few.tolist() == rank[:k].tolist()
        assert few_scores.tolist() == scores[:k].tolist()
        approximate = tools.scores(queries, more.__getitem__)[row]
        np.testing.assert_allclose(scores, approximate[rank], atol=1e-5)
        assert (np.diff(scores) <= 0).all()


def test_candidates_are_found_where_rounding_hides_the_order(monkeypatch):
    """Sums near 1000 are told apart in float32 by 6e-5 only; a product may be off by its bound."""
    rng = np.random.default_rng(0)
    rows = (np.full((2000, 64), 0.125) + 1e-6 * rng.normal(size=(2000, 64))).astype(np.float32)
    tools = ProjectedTools({"text": rows}, {"text": 1.0}, Head.identity(64))
    plain = tools._block_scores

    def noise():
        return tools.slack / 2 * rng.uniform(-1, 1, (1, 2000))

    monkeypatch.setattr(
        tools,
        "_block_scores",
        lambda *args: (plain(*args) + noise()).astype(np.float32),
    )
    more = np.full(2000, 1000.0 + 2.0**-15)  # between two numbers of float32
    query = rows[:1]
    queries = QueryProjections(query, query[:0], np.zeros(2, np.int64), 1.0, 0.0)
    exactly = more + (tools.rows.astype(np.float64) * query.astype(np.float64)).sum(axis=1)
    expected = np.argsort(-exactly, kind="stable")[:5].tolist()
    for _ in range(20):
        ((found, _),) = tools.top(queries, 5, lambda row: more)
        assert found.tolist() == expected


def test_blocks_of_queries_change_nothing(monkeypatch):
    scorer, *_ = scorer_of(Fusion(WORDS, HUBS, 0.1))
    queries = [Query(str(i), f"{verb} the {s}") for verb in VERBS for i, s in enumerate(SUBJECTS)]
    together = scorer.rank(queries, 6)
    assert [scorer.rank([query], 6)[0] for query in queries] == together
    monkeypatch.setattr(exact, "_BLOCK_ENTRIES", 1)
    monkeypatch.setattr(best, "TILE_ENTRIES", 1)
    assert scorer.rank(queries, 6) == together


@given(st.integers(0, 99), st.integers(1, 6), st.sampled_from([0.001, 0.05, 1.0]))
def test_a_soft_maximum_lies_between_mean_and_maximum(seed, clauses, temperature):
    scores = np.random.default_rng(seed).normal(size=(clauses, 9))
    found = soft_maximum(scores, temperature)
    assert (found <= scores.max(axis=0) + 1e-12).all()
    assert (found >= scores.mean(axis=0) - 1e-12).all()
    sharp = soft_maximum(scores, 0.001)
    np.testing.assert_allclose(sharp, scores.max(axis=0), atol=0.001 * np.log(clauses) + 1e-12)
    assert soft_maximum(scores, 0.0).tolist() == scores.max(axis=0).tolist()


def test_frozen_vectors_take_a_fusion_too():
    embedder = Embedder(HashEncoder(D))
    plain, fused = DenseScorer(embedder), DenseScorer(embedder, fusion=Fusion(WORDS))
    for scorer in (plain, fused):
        scorer.index(TOOLS)
    assert plain.search(REQUEST, k=3) != fused.search(REQUEST, k=3)


def test_hubness_of_tools_without_a_summary_is_that_of_their_texts():
    encoder = HashEncoder(D)
    scorer = DenseScorer(Embedder(encoder), Views(), fusion=Fusion(None, HUBS))
    scorer.index(TOOLS)
    assert not any(text.startswith("To send a photo.") for text in encoder.sent)
    assert scorer.search(REQUEST, k=3)


def test_an_explanation_adds_up_to_the_score_that_search_gives():
    scorer, _, _ = scorer_of(Fusion(WORDS, HUBS, 0.1))
    for hit in scorer.search(REQUEST, k=len(TOOLS)):
        told = scorer.explain(REQUEST, hit.tool_id)
        assert (told.tool, told.score) == (hit.tool, hit.score)
        parts = told.whole + told.clause + told.lexical + told.hubness
        assert parts == pytest.approx(hit.score, abs=1e-9)
        assert sum(match.score for match in told.terms) == pytest.approx(told.lexical, rel=1e-5)
        assert told.best_clause in split_clauses(REQUEST)


def test_an_explanation_names_the_clause_that_fits_best():
    scorer = DenseScorer(Embedder(HashEncoder(64)), ALL_VIEWS)
    scorer.index(TOOLS)
    first, second = split_clauses(REQUEST)
    assert scorer.explain(REQUEST, "print invoice").best_clause == first
    assert scorer.explain(REQUEST, "send photo").best_clause == second


def test_an_explanation_names_the_shared_words_the_heaviest_first():
    scorer, _, _ = scorer_of(Fusion(WORDS))
    told = scorer.explain("print every invoice", "print invoice")
    assert {(match.term, match.field) for match in told.terms} >= {
        ("print", "name"),
        ("invoice", "name"),
        ("invoice", "server"),
    }
    scores = [match.score for match in told.terms]
    assert scores == sorted(scores, reverse=True)
    assert (told.hubness, told.best_clause) == (0, None)


def test_scores_without_a_fusion_are_explained_as_well():
    scorer, _, _ = scorer_of(None)
    (hit,) = scorer.search(REQUEST, k=1)
    told = scorer.explain(REQUEST, hit.tool_id)
    assert told.score == hit.score == told.whole + told.clause
    assert (told.lexical, told.terms, told.hubness) == (0, (), 0)


def test_only_a_tool_of_the_corpus_is_explained():
    scorer, _, _ = scorer_of(None)
    with pytest.raises(ConfigError, match="tool_id must be the id of a tool of the corpus, got 'n"):
        scorer.explain(REQUEST, "nobody")
    with pytest.raises(ConfigError, match="text must have at least one character"):
        scorer.explain(" ", TOOLS[0].id)


def test_a_narrowed_scorer_fuses_as_well():
    scorer, heads, embedder = scorer_of(Fusion(WORDS, HUBS, 0.1))
    narrow = CLMScorer(
        made_heads(
            state=heads.state.narrowed(5),
            action=heads.action.narrowed(5),
            fingerprint=heads.fingerprint,
            probe=heads.probe,
            views=ALL_VIEWS,
            fusion=heads.fusion,
        ),
        embedder,
    )
    narrow.index(TOOLS)
    assert narrow.search(REQUEST, k=3) != scorer.search(REQUEST, k=3)
