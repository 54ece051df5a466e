import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.lexical import folded_term


@pytest.mark.parametrize(
    "forms",
    [
        "meeting meetings",
        "city cities",
        "movie movies",
        "create creates created creating",
        "search searches searched searching",
        "stop stops stopped stopping",
        "address addresses addressed",
        "status statuses",
        "box boxes",
        "employee employees",
        "copy copies copied copying",
        "use uses",
        "call calls called calling",
        "process processes processed processing",
        "alias aliases",
        "hero heroes",
    ],
)
def test_forms_of_one_word_fold_to_one_term(forms):
    assert len({folded_term(form, "light") for form in forms.split()}) == 1


@pytest.mark.parametrize(
    "words",
    [
        "string str",
        "new news",
        "thing th",
        "feed fe",
        "search searcher",
        "proceed proce",
        "using us",
        "status statu",
        "dns dn",
    ],
)
def test_other_words_stay_apart(words):
    assert len({folded_term(word, "light") for word in words.split()}) == 2


@pytest.mark.parametrize(
    "term", ["aws", "s3s", "oauth2s", "天気", "cafés", "яблоки", "", "ing", "ed"]
)
def test_short_terms_digits_and_other_scripts_stay_as_they_are(term):
    assert folded_term(term, "light") == term


@given(st.text("aeioubdgnrstyl", max_size=12))
def test_a_fold_is_never_empty_and_without_a_stemmer_nothing_folds(term):
    assert folded_term(term, "none") == term
    folded = folded_term(term, "light")
    assert bool(folded) == bool(term)
    assert len(folded) <= len(term)


def test_terms_that_never_come_again_are_not_kept():
    """A server is asked with new words for as long as it runs."""

    def fold(prefix):
        for number in range(20_000):
            folded_term(f"{prefix}{number}", "light")

    tracemalloc.start()
    try:
        fold("first")
        before, _ = tracemalloc.get_traced_memory()
        fold("second")
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 500_000
