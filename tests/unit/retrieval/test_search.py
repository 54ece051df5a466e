from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.retrieval.odd_encoders import OddEncoder
from tests.unit.retrieval.worlds import (
    ACTS,
    PATIENT,
    TOOLS,
    WIDTH,
    WORDS,
    heads_for,
    ids,
    retriever_of,
    scored,
)

import toolheads
from toolheads.cutoff import CutoffSettings
from toolheads.domain import Tool
from toolheads.embedder import Embedder
from toolheads.errors import ConfigError, DataError
from toolheads.heads import Fusion
from toolheads.heads.fusion import HubnessPart
from toolheads.indexes.numpy_index import NumpyIndex
from toolheads.scorers.clm import CLMScorer
from toolheads.scorers.rank_fusion import RankFusion

QUERIES = ["create an issue", "the weather in the city, then book a flight", "songs", "x"]


@pytest.fixture(scope="module")
def world():
    with retriever_of() as retriever:
        yield retriever


@pytest.mark.parametrize("k", [1, 10, 1000])
def test_hits_and_scores_are_those_of_the_scorer_to_the_bit(world, k):
    encoder = OddEncoder(WIDTH)
    heads = heads_for(encoder)
    scorer = CLMScorer(heads, Embedder(encoder))
    scorer.index(sorted(TOOLS, key=lambda tool: tool.id))
    for text in QUERIES:
        answer = world.search(text, k)
        assert (answer.mode, answer.reason, answer.nothing_matches) == ("dense", None, False)
        assert list(answer.hits) == scorer.search(text, k)


def test_without_k_the_cutoff_of_the_heads_decides():
    with retriever_of(cutoff=CutoffSettings(margin=0.0, max_k=5)) as retriever:
        answer = retriever.search("create an issue")
        assert len(answer.hits) == len({s for _, s in scored(answer)} and answer.hits)
        assert len({score for _, score in scored(answer)}) == 1


def test_settings_may_bring_another_cutoff():
    cutoff = CutoffSettings(margin=99.0, max_k=3)
    settings = replace(PATIENT, cutoff=cutoff)
    with retriever_of(settings=settings) as retriever:
        assert len(retriever.search("create an issue").hits) == 3


def test_nothing_matches_is_an_answer_without_hits():
    with retriever_of(cutoff=CutoffSettings(threshold=90.0)) as retriever:
        for k in (None, 5):
            answer = retriever.search("create an issue", k)
            assert (answer.hits, answer.nothing_matches, answer.mode) == ((), True, "dense")


def test_a_named_tool_is_found_beyond_the_cut(world):
    text = "create an issue, not lab/book_song"
    answer = world.search(text, 3)
    assert len(answer.hits) == 3
    assert answer.named == ("lab/book_song",)
    assert "lab/book_song" in ids(answer)
    scores = [score for _, score in scored(answer)]
    assert scores == sorted(scores, reverse=True)
    assert ids(world.search(text, 200)).index("lab/book_song") > 2


def test_a_named_tool_is_found_where_nothing_else_matches():
    with retriever_of(cutoff=CutoffSettings(threshold=90.0)) as retriever:
        answer = retriever.search("call lab__book_song")
        assert ids(answer) == ["lab/book_song"]
        assert not answer.nothing_matches


def test_all_tools_that_share_a_named_plain_name_are_hits(world):
    answer = world.search("book_song", 1)
    assert set(answer.named) == {"hub/book_song", "lab/book_song"} == set(ids(answer))


def test_only_allowed_servers_are_searched_before_the_cut(world):
    everything = scored(world.search("create an issue", 200))
    expected = [(i, s) for i, s in everything if i.startswith("lab/")][:7]
    assert scored(world.search("create an issue", 7, sources={"lab"})) == expected
    for text in ("call hub/book_song", "hub__book_song"):
        answer = world.search(text, 5, sources={"lab", "unknown"})
        assert answer.named == ()
        assert all(i.startswith("lab/") for i in ids(answer))
    assert world.search("create an issue", sources=()).nothing_matches


def test_a_conversation_keeps_what_it_was_shown_in_place(world):
    first = world.search("create an issue", 3, conversation="c")
    second = world.search("the weather", 3, conversation="c")
    fresh = dict(scored(world.search("the weather", 200)))
    assert ids(second)[:3] == ids(first)
    assert set(ids(world.search("the weather", 3))) <= set(ids(second))
    assert [fresh[i] for i in ids(second)] == [s for _, s in scored(second)]
    assert ids(world.search("the weather", 3, conversation="other")) == ids(
        world.search("the weather", 3)
    )


def test_a_conversation_shows_no_tools_of_servers_that_are_not_allowed(world):
    world.search("create an issue", 6, conversation="allowed")
    answer = world.search("create an issue", 6, conversation="allowed", sources={"lab"})
    assert all(i.startswith("lab/") for i in ids(answer))


@pytest.mark.parametrize(
    ("text", "k", "rule"),
    [
        (" ", None, "text must have at least one character"),
        ("\ud800", None, "valid Unicode"),
        (5, None, "text must"),
        ("x", 0, "k must be a whole number >= 1, got 0"),
        ("x", True, "k must be"),
    ],
)
def test_what_is_no_query_is_refused(world, text, k, rule):
    with pytest.raises(ConfigError, match=rule):
        world.search(text, k)


@given(st.text(min_size=1, max_size=60).filter(lambda text: text.strip()))
def test_any_text_has_an_answer(world, text):
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    assert world.search(text, 3).mode == "dense"


def test_a_tool_is_looked_up_by_its_names(world):
    assert world.tool("hub/book_song").id == "hub/book_song"
    assert world.tool("hub__book_song").id == "hub/book_song"
    assert world.tool("book_song") is None  # of two servers
    assert world.tool("book_song", sources={"lab"}).id == "lab/book_song"
    assert world.tool("hub/book_song", sources={"lab"}) is None
    assert world.tool("none") is None


def test_tools_are_served_by_id(world):
    assert [tool.id for tool in world.tools] == sorted(tool.id for tool in TOOLS)
    assert world.catalogue_digest == toolheads.catalogue.tools_digest(TOOLS)


def test_given_tools_are_ranked_as_the_scorer_would(world):
    encoder = OddEncoder(WIDTH)
    scorer = CLMScorer(heads_for(encoder), Embedder(encoder))
    tools = [Tool(f"own{i}", f"{word}_tool", None, f"a {word}") for i, word in enumerate(WORDS)]
    scorer.index(tools)
    for _ in range(2):
        answer = world.rank("the weather", tools)
        assert list(answer.hits) == scorer.search("the weather", len(tools))
        assert answer.mode == "dense"
    assert list(world.rank("the weather", tools, 2).hits) == scorer.search("the weather", 2)
    assert world.rank("the weather", []).nothing_matches


def test_a_given_tool_that_is_no_json_is_refused(world):
    with pytest.raises(DataError, match="lone surrogate"):
        world.rank("x", [Tool("a", "a", None, "\ud800")])


@pytest.mark.parametrize(
    "options",
    [
        {"scorer": "dense"},
        {"scorer": "clm"},
        {"scorer": "bm25"},
        {"scorer": "hybrid", "ranks": RankFusion()},
        {"scorer": "hybrid", "index": "faiss-flat"},
        {"scorer": "hybrid", "dtype": "float16"},
        {"scorer": "hybrid", "dtype": "int8"},
    ],
    ids=str,
)
def test_every_scorer_and_index_finds_what_is_asked_for(options):
    if "faiss" in str(options):
        pytest.importorskip("faiss")
    with retriever_of(**options) as retriever:
        status = retriever.status()
        assert status.scorer == options["scorer"]
        assert (status.mode == "lexical") == (options["scorer"] == "bm25")
        assert not status.degraded
        found = {tool_id.split("/")[1] for tool_id in ids(retriever.search("create an issue", 4))}
        assert "create_issue" in found


def test_words_alone_say_when_nothing_matches():
    with retriever_of(scorer="bm25") as retriever:
        answer = retriever.search("quantum chromodynamics")
        assert (answer.hits, answer.nothing_matches, answer.reason) == ((), True, None)


@pytest.mark.parametrize("tools", [[], TOOLS[:1]])
def test_few_tools_or_none_are_no_error(tools):
    for scorer in ("bm25", "hybrid"):
        with retriever_of(tools, scorer=scorer) as retriever:
            answer = retriever.search("create a mail")
            assert len(answer.hits) <= len(tools)
            assert answer.nothing_matches == (not answer.hits)
            assert retriever.status().ready


def test_an_unknown_scorer_and_heads_with_hubness_are_refused():
    with pytest.raises(ConfigError, match="scorer must be one of hybrid, clm, dense, bm25"):
        toolheads.load_retriever(scorer="magic")
    encoder = OddEncoder(WIDTH)
    heads = heads_for(encoder)
    hubs = toolheads.heads.Heads(
        heads.state, heads.action, heads.header, heads.probe, fusion=Fusion(None, HubnessPart(0.1))
    )
    with pytest.raises(ConfigError, match="hubness must be left out"):
        toolheads.load_retriever(hubs, encoder)


def test_an_encoder_of_another_name_is_refused_at_once():
    heads = heads_for(OddEncoder(WIDTH))
    with pytest.raises(toolheads.BackboneMismatchError, match="model 'hash' != 'other'"):
        toolheads.load_retriever(heads, OddEncoder(WIDTH, model="other"))


def test_many_threads_get_the_answers_of_one(world):
    texts = [f"{act} a {word}" for act in ACTS for word in WORDS]
    expected = {text: world.search(text, 5).hits for text in texts}
    wrong: list[str] = []

    def ask(scope):
        wrong.extend(t for t in texts if world.search(t, 5, scope=scope).hits != expected[t])

    threads = [threading.Thread(target=ask, args=(f"s{i % 3}",)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_queries_are_cached_for_each_scope_within_bounds():
    encoder = OddEncoder(WIDTH)
    settings = replace(PATIENT, cached_queries=3)
    with retriever_of(encoder=encoder, settings=settings) as retriever:
        encoder.calls = 0
        retriever.search("create an issue", scope="me")
        retriever.search("create an issue", scope="me")
        assert encoder.calls == 1
        assert retriever.is_quick("create an issue", scope="me")
        assert not retriever.is_quick("create an issue", scope="you")
        retriever.search("create an issue", scope="you")
        assert encoder.calls == 2
        for word in WORDS:
            retriever.search(word)
        assert retriever.status().cached_queries == 3


def test_a_query_that_was_begun_is_answered_as_if_it_had_been_waited_for():
    with retriever_of(encoder=OddEncoder(WIDTH)) as retriever:
        begun = retriever.begin("create an issue", scope="me")
        begun.wait()
        answer = retriever.search("create an issue", scope="me", begun=begun)
        assert answer.mode == "dense"
        assert scored(answer) == scored(retriever.search("create an issue", scope="you"))
        assert retriever.begin("create an issue", scope="me") is None  # cached by now


def test_what_was_begun_tells_when_it_is_done():
    with retriever_of(encoder=OddEncoder(WIDTH)) as retriever:
        is_done = threading.Event()
        begun = retriever.begin("create an issue")
        begun.when_done(is_done.set)
        assert is_done.wait(10)
        assert 0 < begun.left_s <= retriever._settings.deadline_s


def test_nothing_is_begun_for_words_or_for_a_bad_text():
    with retriever_of(encoder=OddEncoder(WIDTH)) as retriever:
        for bad in (" ", "\ud800"):
            with pytest.raises(ConfigError, match="text must"):
                retriever.begin(bad)
        assert retriever.begin("create an issue", deadline_s=0) is None
    with retriever_of(scorer="bm25") as words:
        assert words.begin("create an issue") is None


def test_a_search_is_light_while_its_catalogue_is_small_and_at_hand():
    with retriever_of(encoder=OddEncoder(WIDTH)) as retriever:
        assert retriever.is_light


def test_a_search_of_rows_that_are_elsewhere_or_many_is_not_light(monkeypatch):
    with retriever_of(encoder=OddEncoder(WIDTH)) as retriever:
        monkeypatch.setattr(NumpyIndex, "is_at_hand", False)
        assert not retriever.is_light
        monkeypatch.undo()
        monkeypatch.setattr("toolheads.retrieval.searching._LIGHT", len(TOOLS) * WIDTH - 1)
        assert not retriever.is_light


def test_a_query_that_may_not_wait_is_answered_by_words_unless_cached(world):
    answer = world.search("an uncached note", deadline_s=0)
    assert answer.mode == "lexical"
    assert answer.reason == "the query is not cached and may not wait for the encoder"
    assert answer.hits
    world.search("an uncached note")
    assert world.search("an uncached note", deadline_s=0).mode == "dense"
