import math
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.rerank.catalogues import GARDEN, made

from toolheads.errors import ConfigError
from toolheads.rerank import KeywordIndex, KeywordSettings
from toolheads.rerank.keyword import idf, idf_of

ROOT = Path(__file__).parents[3]
PLAIN = KeywordSettings.plain({"the", "of", "in", "a"})


def names(tools, rows):
    return [tools[row].name for row in rows]


def test_idf_is_1_for_a_word_that_all_have_and_grows_with_rarity():
    assert idf(3, 3) == 1
    assert idf(3, 1) == pytest.approx(math.log(2) + 1)


def test_documents_count_and_not_repeats():
    assert idf_of([["x", "x"], ["x"], ["y"]]) == {"x": idf(3, 2), "y": idf(3, 1)}
    assert idf_of([]) == {}


def test_a_tool_scores_the_idf_of_the_distinct_words_it_shares():
    tools = made(("cut_tree", "Cut a tree"), ("cut_grass", "Mow"), ("sow", "Seeds"))
    scores = KeywordIndex(tools, PLAIN).scores("cut cut the tree")
    assert scores.tolist() == pytest.approx([idf(3, 2) + idf(3, 1), idf(3, 2), 0])


def test_words_are_as_rare_as_they_are_among_the_candidates():
    tools = made(("a1", "tree"), ("b1", "tree"), ("c1", "bush"))
    index = KeywordIndex(tools, PLAIN)
    assert index.scores("tree", [1, 2]).tolist() == [0, idf(2, 1), 0]


def test_ties_are_ordered_by_name_by_code_point():
    tools = made(("zeta", "tree"), ("alpha", "tree"), ("Beta", "tree"))
    ranking = KeywordIndex(tools).ranking("tree")
    assert names(tools, ranking.rows) == ["Beta", "alpha", "zeta"]


@given(st.permutations(["red", "blue", "green", "pink", "north", "south", "east", "west"]))
def test_the_order_of_words_does_not_matter_to_the_bit(words):
    filler = [(f"f{i}", " ".join(words[i:])) for i in range(8)]
    tools = made(("zz", "red blue green pink"), ("aa", "north south east west"), *sorted(filler))
    index = KeywordIndex(tools, PLAIN)
    asked = " ".join(words)
    shuffled = asked.split()
    random.Random(0).shuffle(shuffled)
    assert index.scores(asked).tolist() == index.scores(" ".join(shuffled)).tolist()


@given(st.permutations(range(4)), st.lists(st.integers(0, 9), min_size=4, max_size=4))
def test_tools_with_equally_rare_words_score_alike_to_the_bit(order, counts):
    """A float sum depends on its order, and one way to choose it is the spelling of the words."""
    these, those = [f"a{i}" for i in range(4)], [f"b{i}" for i in order]
    filler = [
        " ".join(words[i] for words in (these, those) for i in range(4) if counts[i] > row)
        for row in range(9)
    ]
    pairs = [(f"f{row}", text) for row, text in enumerate(filler)]
    tools = made(("zz", " ".join(these)), ("yy", " ".join(those)), *pairs)
    scores = KeywordIndex(tools, PLAIN).scores(" ".join([*these, *those]))
    assert scores[0] == scores[1]


def test_the_order_is_the_same_in_every_process():
    """Sets of strings are walked in another order in each: a plain sum would differ by it."""
    code = """
from tests.unit.rerank.test_keyword import PLAIN, KeywordIndex, made
words = "red blue green pink north south east west".split()
pairs = [("zz", " ".join(words[:4])), ("aa", " ".join(words[4:]))]
pairs += [(f"f{i}", " ".join(words[i % 4 :: 4][: 1 + i % 2])) for i in range(7)]
print(KeywordIndex(made(*pairs), PLAIN).ranking(" ".join(words)).rows)
"""
    orders = set()
    for seed in range(3):
        env = {**os.environ, "PYTHONHASHSEED": str(seed)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, cwd=ROOT, capture_output=True, check=True
        )
        orders.add(done.stdout)
    assert len(orders) == 1


@pytest.mark.parametrize(
    ("fill", "rows"),
    [("catalogue", ["b", "c", "aaa"]), ("name", ["b", "aaa", "c"]), ("none", ["b"])],
)
def test_tools_without_a_shared_word_fill_up_as_asked(fill, rows):
    tools = made(("c", "leaf"), ("b", "tree"), ("aaa", "leaf"))
    ranking = KeywordIndex(tools, KeywordSettings(fill=fill)).ranking("tree")
    assert (names(tools, ranking.rows), ranking.matched) == (rows, 1)


@pytest.mark.parametrize(
    ("query", "description"),
    [
        ("please prune the trees", "Prunes a tree"),
        ("обрежь дерево в саду", "Обрезать дерево"),
        ("请给树浇水", "给一棵树浇水"),
        ("قلم الشجرة من فضلك", "تقليم الشجرة"),
        ("पेड़ को पानी दो", "पेड़ और पौधों को पानी देना"),
        ("庭の木を切って", "木を切る"),
        ("나무를 잘라 줘", "나무를 자르기"),
    ],
    ids=["Latin", "Cyrillic", "Han", "Arabic", "Devanagari", "Kana", "Hangul"],
)
def test_words_of_any_script_are_found_and_words_of_none_match_nothing(query, description):
    tools = [*GARDEN[3:], *made(("t1", description))]
    index = KeywordIndex(tools)
    assert names(tools, index.ranking(query).rows[:1]) == ["t1"]
    assert not KeywordIndex(made(("t2", "quartz"))).matches(query)
    assert KeywordIndex(made(("t2", "quartz"))).ranking(query).matched == 0


def test_identifiers_and_english_endings_are_taken_apart():
    ranking = KeywordIndex(GARDEN).ranking("any frost warnings?")
    assert names(GARDEN, ranking.rows[:1]) == ["getFrostWarning"]


def test_no_tools_are_no_error():
    assert KeywordIndex([]).ranking("tree").rows == ()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"words": "all"}, "words must be one of search, ascii, got 'all'"),
        ({"fill": "x"}, "fill must be one of catalogue, name, none, got 'x'"),
        ({"stop_words": frozenset("a")}, "stop_words must be None for words search, got 1"),
        ({"long": 0.5}, r"long must be None or >= 1 and finite, got 0\.5"),
        ({"long": math.nan}, "long must be None"),
    ],
)
def test_settings_keep_their_rules(settings, message):
    with pytest.raises(ConfigError, match=message):
        KeywordSettings(**settings)
