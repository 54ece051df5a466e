from __future__ import annotations

import pytest
from tests.contract.scorer import CONTRACT
from tests.unit.plan.catalogues import LIBRARY, tool

from toolheads.domain import Hit
from toolheads.errors import ConfigError
from toolheads.plan import OkapiScorer, find_tool, okapi_text, retrieve
from toolheads.scorers.bm25 import BM25Scorer


def names(tools):
    return [item.name for item in tools]


class Backwards:
    """A scorer that finds all tools, the last one best, with scores below 0."""

    name = "backwards"

    def index(self, tools):
        self.tools = list(tools)
        self.indexed = getattr(self, "indexed", 0) + 1

    def rank(self, queries, k):
        hits = [Hit(item, -float(i + 1)) for i, item in enumerate(reversed(self.tools))]
        return [hits[:k] for _ in queries]


def test_the_best_come_first_and_the_rest_fill_up_in_their_order():
    found = retrieve(LIBRARY, "give a book back", k=3)
    assert names(found.tools)[0] == "return_book"
    assert len(found.tools) == 3
    assert len(found.ranked) == len(LIBRARY)
    assert found.n_matched == 3  # all that say `book` or `back`; `books` is another word


def test_filler_words_count_for_nothing():
    tools = [
        tool("a", "What is the one in the other, and of what"),
        tool("weather", "Forecast for a city"),
    ]
    assert names(retrieve(tools, "What is the weather in Paris tomorrow?", k=1).tools) == [
        "weather"
    ]


def test_a_word_that_is_said_three_times_counts_once():
    once = retrieve(LIBRARY, "fine book")
    thrice = retrieve(LIBRARY, "fine book Book, BOOK")
    assert names(thrice.tools) == names(once.tools)
    assert [s for _, s in thrice.ranked] == [s for _, s in once.ranked]


@pytest.mark.parametrize("query", ["", "zebra quantum", "明天的天气", "the of and"])
def test_a_query_that_matches_nothing_says_so(query):
    found = retrieve(LIBRARY, query, k=2)
    assert found.nothing_matches
    assert names(found.tools) == names(LIBRARY[:2])
    assert found.to_json()["nothing_matches"]


def test_parts_of_camel_case_names_are_found():
    assert names(retrieve(LIBRARY, "opening hours", k=1).tools) == ["openingHours"]


def test_kept_tools_take_places_and_all_of_them_are_there():
    found = retrieve(LIBRARY, "book", k=2, keep=["ping", "Ping", "PayFine", "openingHours"])
    assert sorted(names(found.tools)) == ["openingHours", "pay_fine", "ping"]
    assert names(retrieve(LIBRARY, "fine", k=2, keep=["ping"]).tools) == ["pay_fine", "ping"]


def test_any_scorer_ranks():
    found = retrieve(LIBRARY, "any", k=2, scorer=Backwards())
    assert names(found.tools) == ["ping", "pay_fine"]
    assert (found.method, found.nothing_matches) == ("backwards", False)


def test_a_scorer_that_has_indexed_does_not_do_so_again():
    scorer = Backwards()
    scorer.index(LIBRARY)
    retrieve(LIBRARY, "any", scorer=scorer, is_indexed=True)
    assert scorer.indexed == 1


def test_a_scorer_with_other_tools_is_refused():
    scorer = BM25Scorer()
    scorer.index([tool("other", "Some book")])
    with pytest.raises(ConfigError, match="scorer must have indexed these tools, got 'other'"):
        retrieve(LIBRARY, "book", scorer=scorer, is_indexed=True)


def test_no_tools_give_no_tools():
    found = retrieve([], "book")
    assert (found.tools, found.ranked, found.nothing_matches) == ((), (), True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"k": 0}, "k must be a whole number >= 1, got 0"),
        ({"k": True}, "k must be a whole number >= 1, got True"),
        ({"k": 2.0}, r"k must be a whole number >= 1, got 2\.0"),
        ({"scorer": "tfidf"}, "scorer must be one of bm25, okapi, or an object, got 'tfidf'"),
        ({"keep": ["borow_book"]}, r"got 'borow_book'; did you mean borrow_book\?"),
        ({"keep": "ping"}, "keep must be several names, got the text 'ping'"),
    ],
)
def test_what_breaks_a_rule_is_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        retrieve(LIBRARY, "book", **options)


def test_two_tools_of_one_id_are_refused():
    with pytest.raises(ConfigError, match="tools must have ids of their own, got 'ping' twice"):
        retrieve([*LIBRARY, tool("ping")], "book")


@pytest.mark.parametrize(
    "name", ["borrow_book", "BorrowBook", "borrow-book", "borrow_book_request", "borrowBookArgs"]
)
def test_a_tool_is_found_by_the_ways_its_name_is_written(name):
    assert find_tool(LIBRARY, name) is LIBRARY[0]


def test_a_name_of_two_tools_is_that_of_none():
    tools = [tool("find", server="a"), tool("find", server="b"), tool("ask_it"), tool("askIt")]
    assert find_tool(tools, "find") is None
    assert find_tool(tools, "b/find") is tools[1]
    assert find_tool(tools, "ASKIT") is None
    assert find_tool(tools, "ask_it") is tools[2]
    assert find_tool(tools, "") is None


@pytest.mark.parametrize("clause", CONTRACT, ids=lambda clause: clause.__name__)
def test_the_textbook_scorer_keeps_the_contract(clause):
    clause(OkapiScorer)


def test_the_text_of_a_tool_is_its_words():
    assert okapi_text(LIBRARY[0]) == (
        "borrow book Lend a book to a reader. The book must be on the shelf. isbn Number on the "
        "back days For how many days it is lent, at most 30"
    )
    assert okapi_text(LIBRARY[-1]) == "ping"
