import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.domain import Query, Tool
from toolheads.errors import ConfigError
from toolheads.scorers.bm25 import BM25Scorer


def scorer_of(*tools):
    scorer = BM25Scorer()
    scorer.index(tools)
    return scorer


def found(scorer, text, k=10):
    return [hit.tool_id for hit in scorer.rank([Query("q", text)], k)[0]]


NOISE = [Tool(f"n{i}", f"noise_{i}", description="Does something else.") for i in range(5)]


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        (Tool("t", "create_issue"), "create issue"),
        (Tool("t", "create_issue"), "createIssue"),
        (Tool("t", "getWeatherForecast"), "weather forecast"),
        (Tool("t", "HTTPServer"), "server"),
        (Tool("t", "oauth2Token"), "oauth"),
        (Tool("t", "oauth2Token"), "OAuth2"),
        (Tool("t", "oauth2Token"), "token"),
        (Tool("t", "x", "GitHub"), "github"),
        (Tool("t", "x", "github"), "GitHub"),
        (Tool("t", "listAPIs"), "api"),
        (Tool("t", "kebab-case-tool"), "kebab"),
        (Tool("t", "x", description="Café finder"), "cafe"),
        (Tool("t", "x", description="cafe finder"), "Cafe\u0301"),
        (Tool("t", "x", description="指定した都市の天気予報を取得する"), "東京の天気"),
        (Tool("t", "x", description="查询城市的天气预报"), "北京天气怎么样"),
        (Tool("t", "x", description="发布大雨警报"), "雨"),
        (Tool("t", "x", description="도시의 날씨를 조회합니다"), "서울 날씨"),
        (Tool("t", "x", description="พยากรณ์อากาศของเมือง"), "อากาศ"),
        (Tool("t", "x", input_schema={"properties": {"zipCode": {}}}), "zip code"),
        (Tool("t", "x", input_schema={"properties": {"a": {"description": "ISBN"}}}), "isbn"),
        (Tool("t", "who"), "who"),
        (Tool("t", "who"), "who is it"),
    ],
)
def test_a_tool_is_found_by_the_words_people_use(tool, text):
    assert found(scorer_of(*NOISE, tool), text) == ["t"]


def test_a_tool_that_shares_no_word_is_left_out():
    scorer = scorer_of(Tool("a", "send_mail"), Tool("b", "read_mail"), Tool("c", "play_song"))
    assert found(scorer, "mail") == ["a", "b"]
    assert found(scorer, "weather") == []
    assert found(scorer, "") == []
    assert found(scorer, "!?") == []


def test_words_that_say_nothing_find_nothing_in_descriptions():
    tools = [Tool("a", "x", description="What you can do with it"), Tool("b", "mail")]
    assert found(scorer_of(*tools), "can you do the mail") == ["b"]


def test_words_that_say_nothing_make_a_description_no_longer():
    tools = [Tool("a", "x", description="mail"), Tool("b", "x", description="the mail of the")]
    one, two = scorer_of(*tools).scores(["mail"])[0]
    assert one == two > 0


def test_equal_tools_are_ordered_as_they_were_given():
    ids = [f"t{i * 37 % 100}" for i in range(100)]
    odd, even = ids[1::2], ids[::2]
    # Two groups of equal scores, mixed: many enough for a sort that is not stable to show.
    names = [(tool_id, "same" if tool_id in odd else "same_longer") for tool_id in ids]
    scorer = scorer_of(*(Tool(tool_id, name) for tool_id, name in names))
    assert found(scorer, "same", k=100) == odd + even
    assert found(scorer, "same", k=60) == (odd + even)[:60]


def test_scores_are_lucene_bm25():
    """By hand: 2 of 3 tools have "mail", idf = ln(1 + (3 - 2 + 0.5) / (2 + 0.5)) = ln 1.6.

    Lengths 2, 1, 1, average 4/3; tf = 1 / (1 + 1.5 * (1 - 0.75 + 0.75 * length / average)).
    """
    scores = scorer_of(Tool("a", "send_mail"), Tool("b", "mail"), Tool("c", "song")).scores(
        ["mail"]
    )
    expected = np.log(1.6) * np.array([1 / 3.0625, 1 / 2.21875, 0])
    np.testing.assert_allclose(scores, expected[None], rtol=1e-5)  # float32


words = st.lists(st.sampled_from(["mail", "song", "read", "weather", "the"]), max_size=4)
texts = words.map(" ".join)


@given(st.lists(texts, min_size=1, max_size=8), st.lists(texts, max_size=4), st.integers(1, 9))
def test_rankings_are_prefixes_finite_falling_and_independent_of_other_queries(
    descriptions, asked, k
):
    scorer = scorer_of(*(Tool(f"t{i}", "x", description=d) for i, d in enumerate(descriptions)))
    queries = [Query(f"q{i}", text) for i, text in enumerate(asked)]
    ranked, longer = scorer.rank(queries, k), scorer.rank(queries, k + 1)
    assert [hits[:k] for hits in longer] == ranked
    assert [scorer.rank([query], k)[0] for query in queries] == ranked
    scores = scorer.scores(asked)
    assert scores.dtype == np.float32
    assert scores.shape == (len(asked), len(descriptions))
    for row, hits in zip(scores, ranked, strict=True):
        values = [hit.score for hit in hits]
        assert values == sorted(values, reverse=True)
        assert all(0 < value < np.inf for value in values)
        assert values == sorted((float(s) for s in row if s > 0), reverse=True)[:k]


def test_a_corpus_without_any_word_finds_nothing():
    scorer = scorer_of(Tool("a", "!"), Tool("b", "😀"))
    assert found(scorer, "mail !") == []
    assert not scorer.scores(["mail"]).any()


def test_ranking_needs_a_corpus_and_a_k():
    with pytest.raises(ConfigError, match="must be indexed before bm25 ranks"):
        BM25Scorer().rank([Query("q", "x")], 1)
    with pytest.raises(ConfigError, match="must be indexed"):
        BM25Scorer().scores(["x"])
    with pytest.raises(ConfigError, match="k must be >= 1, got 0"):
        scorer_of(Tool("t", "n")).rank([Query("q", "x")], 0)


def test_a_failed_index_leaves_the_old_corpus_in_place_and_a_good_one_replaces_it():
    scorer = scorer_of(Tool("old", "mail"))
    with pytest.raises(ConfigError, match="at least one tool"):
        scorer.index([])
    with pytest.raises(AttributeError):
        scorer.index([Tool("new", "mail"), None])
    assert found(scorer, "mail") == ["old"]
    scorer.index([Tool("new", "mail")])
    assert found(scorer, "mail") == ["new"]


@pytest.mark.parametrize("settings", [{"k1": -1}, {"k1": float("nan")}, {"b": 1.1}, {"b": -0.1}])
def test_settings_that_break_their_rule_are_refused(settings):
    with pytest.raises(ConfigError, match=f"{next(iter(settings))} must be"):
        BM25Scorer(**settings)


def test_ranking_needs_no_other_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    assert found(scorer_of(Tool("a", "send_mail"), Tool("b", "song")), "mail") == ["a"]
