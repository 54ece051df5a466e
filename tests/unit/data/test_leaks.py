from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolheads.data import leaks
from toolheads.data.leaks import check_validation, close_rows, find_leaks, text_key
from toolheads.domain import Query
from toolheads.errors import ConfigError, DataError, ShapeError


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("Book a table.", "book a TABLE"),
        ("Could you please book a table?", "Book a table, thanks!"),
        ("Hi there! I'd like you to book a table for me", "book a table"),
        ("I would like to book a table", "we need to book a table, thank you very much"),
        ("What's the weather in Köln?", "whats the weather in Koln"),
        ("What\u2019s up", "what's up"),
        ("book   a\ntable", "book a table"),
        ("東京の天気は?", "東京の天気は"),  # the mark at the end only
        ("\uff22ook a table", "Book a table"),
        ("e\u0301te\u0301", "été"),
    ],
)
def test_wording_that_says_nothing_makes_no_difference(one, two):
    assert text_key(one) == text_key(two)


@pytest.mark.parametrize(
    ("one", "two"),
    [("book a table", "book a train"), ("please", "thanks"), ("😀", "😢"), ("東京", "京都")],
)
def test_what_differs_in_meaning_stays_apart(one, two):
    assert text_key(one) != text_key(two)


def test_equal_and_near_training_rows_are_dropped_and_counted_by_reason():
    training = [
        "Please show me the weather in Paris",
        "Convert 250 US dollars to Japanese yen right now",
        "delete the branch",
        "Convert 250 US dollars into Japanese yen right now",
    ]
    held_out = [
        "show me the weather in Paris!",
        "Convert 250 US dollars to Japanese yen right now ok",
    ]
    report = find_leaks(training, held_out)
    # 9 of 10 words for row 1; 8 of 11 for row 3, below 0.8
    assert report.kept.tolist() == [2, 3]
    assert report.counts == {"equal": 1, "words": 1, "vectors": 0}
    assert [(leak.row, leak.held_out_row, leak.reason) for leak in report.leaks] == [
        (0, 0, "equal"),
        (1, 1, "words"),
    ]


def test_a_jaccard_of_exactly_the_bound_is_too_close():
    assert find_leaks(["a1 b1 c1 d1"], ["a1 b1 c1 d1 e1"], min_jaccard=0.8).kept.size == 0
    assert find_leaks(["a1 b1 c1 d1"], ["a1 b1 c1 d1 e1"], min_jaccard=0.81).kept.size == 1


sentences = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8).map(" ".join)


@settings(max_examples=60)
@given(
    st.lists(sentences, max_size=8),
    st.lists(sentences, max_size=8),
    st.sampled_from([0.5, 0.6, 0.75, 0.8, 0.9, 1.0]),
)
def test_the_word_search_finds_what_comparing_all_pairs_finds(training, held_out, least):
    def is_near(one, two):
        a, b = set(one.split()), set(two.split())
        return Fraction(len(a & b), len(a | b)) >= Fraction(str(least))

    expected = [
        row for row, text in enumerate(training) if not any(is_near(text, o) for o in held_out)
    ]
    report = find_leaks(training, held_out, min_jaccard=least)
    assert report.kept.tolist() == expected
    assert sorted([*report.kept.tolist(), *(leak.row for leak in report.leaks)]) == list(
        range(len(training))
    )


def test_close_embeddings_are_dropped_whatever_their_words():
    training, held_out = ["one two", "three four", "five six"], ["seven eight", "nine ten"]
    vectors = (
        np.array([[2, 0], [1, 1], [0.1, 1]], np.float32),
        np.array([[0, 5], [1, 0.2]], np.float32),
    )
    report = find_leaks(training, held_out, vectors=vectors, min_cosine=0.97)
    # cosines by hand: row 0 to [1, 0.2] 0.981; row 1 at most 0.83; row 2 to [0, 5] 0.995
    assert report.kept.tolist() == [1]
    assert [(leak.row, leak.held_out_row) for leak in report.leaks] == [(0, 1), (2, 0)]
    assert report.counts["vectors"] == 2


def test_more_rows_than_one_block_are_compared():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(2500, 16)).astype(np.float32)
    texts = [f"training{i}" for i in range(2500)]
    report = find_leaks(texts, ["x", "y"], vectors=(vectors, vectors[[7, 2400]]), min_cosine=0.999)
    assert [(leak.row, leak.held_out_row) for leak in report.leaks] == [(7, 0), (2400, 1)]


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(0, 9), st.integers(0, 9))
def test_blocks_of_both_sides_find_what_all_cosines_say(seed, n, m):
    rng = np.random.default_rng(seed)
    # Few directions of many lengths, so that equal and close rows are common.
    mine, theirs = (rng.integers(-2, 3, size=(size, 3)).astype(np.float32) for size in (n, m))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaks, "_BLOCK", 2)
        patch.setattr(leaks, "_HELD_OUT_BLOCK", 3)
        found = close_rows(mine, theirs, min_cosine=0.9)
    for row, other in zip(mine, found.tolist(), strict=True):
        lengths = np.linalg.norm(row) * np.linalg.norm(theirs, axis=1)
        cosines = np.divide(theirs @ row, lengths, out=np.zeros(m), where=lengths > 0)
        if cosines.max(initial=-1) < 0.9:
            assert other == -1
        else:
            assert cosines[other] == pytest.approx(cosines.max(), abs=1e-6)


def test_a_zero_row_is_close_to_nothing():
    rows = np.array([[0, 0], [1, 0]], np.float32)
    assert close_rows(rows, rows, min_cosine=0.5).tolist() == [-1, 1]


def test_vectors_must_fit_the_texts():
    rows = np.ones((2, 3), np.float32)
    with pytest.raises(ShapeError, match=r"vectors must have shapes \(1, 3\) and \(2, 3\)"):
        find_leaks(["a"], ["b", "c"], vectors=(rows, rows))
    with pytest.raises(ShapeError, match=r"vectors\[1\] must be finite"):
        find_leaks(["a", "d"], ["b", "c"], vectors=(rows, rows * np.nan))


@pytest.mark.parametrize("bounds", [{"min_jaccard": 0}, {"min_jaccard": 1.1}, {"min_cosine": 2}])
def test_bounds_that_break_their_rule_are_refused(bounds):
    with pytest.raises(ConfigError, match=f"{next(iter(bounds))} must be in"):
        find_leaks(["a"], ["b"], **bounds)


def test_without_held_out_texts_all_is_kept():
    assert find_leaks(["a", "b"], []).kept.tolist() == [0, 1]
    assert find_leaks([], ["a"]).kept.tolist() == []


def test_a_validation_set_that_shares_queries_with_a_test_set_is_refused():
    validation = [Query("v1", "fine"), Query("v2", "Please book a table!"), Query("v3", "pay")]
    with pytest.raises(DataError, match="got 2 shared, first 'v2' = 't1'"):
        check_validation(validation, [Query("t1", "book a table"), Query("t2", "Pay.")])
    check_validation(validation, [Query("t1", "something else")])
