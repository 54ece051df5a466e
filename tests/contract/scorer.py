"""The contract of `toolheads.ports.Scorer`, functions named after its numbered sentences.

Plain functions of a factory, so that the same ones run against every adapter and against
scorers that are broken on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from toolheads.domain import Hit, Query, Tool
from toolheads.errors import ConfigError
from toolheads.ports import Scorer

Make = Callable[[], Scorer]

_WORDS = ["weather", "mail", "flights", "notes", "trains"]
_WORDS += ["hotels", "music", "maps", "stocks", "news"]

TOOLS = [
    Tool(f"t{i}", f"{word}_{other}", "city", f"city {word} {other} number {i % 7}")
    for i, (word, other) in enumerate((w, o) for w in _WORDS for o in _WORDS)
]
"""100 tools that all share the word `city`, so that every scorer has something to say of each."""

TWINS = [Tool(f"twin{i}", "mail", "city", "city mail") for i in range(30)]
"""Equal but for the id, which no scorer reads."""

QUERIES = [
    Query("q", "city"),
    *(
        Query(f"q{i}", f"city {word}, and then send the {other} to a friend")
        for i, (word, other) in enumerate(zip(_WORDS, reversed(_WORDS), strict=True))
    ),
]

ODD = [
    Query(f"odd{i}", text)
    for i, text in enumerate(["!", "\u3000", "城市", "😀" * 50, "city " * 2000, "a", "\x00", "é"])
]


def made(make: Make, tools: list[Tool] = TOOLS) -> Scorer:
    scorer = make()
    scorer.index(tools)
    return scorer


def ids(hits: list[Hit]) -> list[str]:
    return [hit.tool_id for hit in hits]


def returns_min_k_and_corpus_hits_best_first(make: Make) -> None:
    scorer = made(make)
    for k in (1, 7, 100, 1000):
        for hits in scorer.rank(QUERIES, k):
            assert len(hits) == min(k, 100)
            assert len(set(ids(hits))) == len(hits)
            scores = [hit.score for hit in hits]
            assert scores == sorted(scores, reverse=True)


def returns_one_list_for_each_query(make: Make) -> None:
    scorer = made(make)
    assert len(scorer.rank(QUERIES, 3)) == len(QUERIES)
    assert scorer.rank([], 3) == []


def returns_the_tools_that_were_indexed(make: Make) -> None:
    (hits,) = made(make).rank(QUERIES[:1], 100)
    assert {hit.tool_id: hit.tool for hit in hits} == {tool.id: tool for tool in TOOLS}


def finds_what_is_asked_for(make: Make) -> None:
    (hits,) = made(make).rank([Query("q", "city stocks music")], 4)
    assert {"stocks_music", "music_stocks"} & {hit.tool.name for hit in hits}


def orders_equal_scores_as_the_tools_were_given(make: Make) -> None:
    mixed = [tool for pair in zip(TWINS, TOOLS, strict=False) for tool in pair]
    for tools in (TWINS, TWINS[::-1], mixed):
        (hits,) = made(make, tools).rank([Query("q", "city mail")], len(tools))
        twins = [tool_id for tool_id in ids(hits) if tool_id.startswith("twin")]
        assert twins == [tool.id for tool in tools if tool.id.startswith("twin")]


def gives_twins_equal_scores(make: Make) -> None:
    (hits,) = made(make, TWINS).rank([Query("q", "city mail")], 30)
    assert len({hit.score for hit in hits}) == 1


def gives_finite_scores_whatever_is_asked(make: Make) -> None:
    for hits in made(make).rank(ODD, 100):
        assert all(math.isfinite(hit.score) for hit in hits)


def gives_a_prefix_for_a_smaller_k(make: Make) -> None:
    scorer = made(make, [*TOOLS, *TWINS])
    whole = scorer.rank(QUERIES, 130)
    for k in (1, 2, 10, 99, 129):
        assert scorer.rank(QUERIES, k) == [hits[:k] for hits in whole]


def ranks_a_query_the_same_alone_and_among_others(make: Make) -> None:
    scorer = made(make)
    together = scorer.rank(QUERIES, 20)
    assert [scorer.rank([query], 20)[0] for query in QUERIES] == together
    assert scorer.rank(QUERIES[::-1], 20) == together[::-1]


def ranks_the_same_twice(make: Make) -> None:
    scorer = made(make)
    assert scorer.rank(QUERIES, 20) == scorer.rank(QUERIES, 20) == made(make).rank(QUERIES, 20)


def refuses_to_rank_before_index(make: Make) -> None:
    with pytest.raises(ConfigError):
        make().rank(QUERIES, 1)


def refuses_k_below_one(make: Make) -> None:
    scorer = made(make)
    for k in (0, -1):
        with pytest.raises(ConfigError, match="k must be"):
            scorer.rank(QUERIES, k)


def refuses_an_empty_corpus(make: Make) -> None:
    with pytest.raises(ConfigError, match="tools must hold at least one tool"):
        make().index([])


def replaces_the_corpus(make: Make) -> None:
    scorer = made(make)
    scorer.index(TWINS)
    (hits,) = scorer.rank(QUERIES[:1], 1000)
    assert ids(hits) == [tool.id for tool in TWINS]


def keeps_the_old_corpus_when_index_fails(make: Make) -> None:
    scorer = made(make)
    before = scorer.rank(QUERIES, 5)
    for bad in ([], [TWINS[0], None]):
        with pytest.raises((ConfigError, AttributeError, TypeError)):
            scorer.index(bad)  # type: ignore[arg-type]  # wrong on purpose
        assert scorer.rank(QUERIES, 5) == before


def keeps_its_own_list_of_tools(make: Make) -> None:
    tools = list(TOOLS)
    scorer = made(make, tools)
    before = scorer.rank(QUERIES, 5)
    tools.reverse()
    assert scorer.rank(QUERIES, 5) == before


def has_a_short_name(make: Make) -> None:
    name = make().name
    assert name
    assert name == name.lower().strip()


CONTRACT = [
    returns_min_k_and_corpus_hits_best_first,  # 1
    returns_one_list_for_each_query,
    returns_the_tools_that_were_indexed,
    finds_what_is_asked_for,
    orders_equal_scores_as_the_tools_were_given,  # 2
    gives_twins_equal_scores,
    gives_finite_scores_whatever_is_asked,  # 3
    gives_a_prefix_for_a_smaller_k,  # 4
    ranks_a_query_the_same_alone_and_among_others,
    ranks_the_same_twice,
    refuses_to_rank_before_index,  # 5
    refuses_k_below_one,
    refuses_an_empty_corpus,
    replaces_the_corpus,  # 6
    keeps_the_old_corpus_when_index_fails,
    keeps_its_own_list_of_tools,
    has_a_short_name,
]
