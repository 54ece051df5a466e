from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from toolheads.retrieval.query_cache import QueryCache
from toolheads.scorers.exact import QueryProjections


def vectors(value=1.0, clauses=0):
    return QueryProjections(
        np.full((1, 8), value, np.float32),
        np.full((clauses, 8), value, np.float32),
        np.array([0, clauses]),
        1.0,
        0.0,
    )


def test_what_was_kept_is_found_for_its_scope_alone():
    cache, kept = QueryCache(entries=9, size_bytes=99999), vectors()
    cache.keep(("me", "q"), kept)
    assert cache.find(("me", "q")) is kept
    assert cache.find(("you", "q")) is None
    assert ("you", "q") not in cache


@given(st.lists(st.integers(0, 9)), st.integers(0, 5), st.integers(0, 9000))
def test_it_never_holds_more_entries_or_bytes_than_it_may(asked, entries, size_bytes):
    cache = QueryCache(entries=entries, size_bytes=size_bytes)
    for i in asked:
        cache.keep(("", f"q{i}" * (1 + 50 * i)), vectors(clauses=i))
        assert cache.size.entries <= entries
        assert 0 <= cache.size.size_bytes <= size_bytes
    cache.clear()
    assert (cache.size.entries, cache.size.size_bytes) == (0, 0)


def test_the_one_longest_unused_goes_first():
    cache = QueryCache(entries=2, size_bytes=99999)
    cache.keep(("", "a"), vectors())
    cache.keep(("", "b"), vectors())
    cache.find(("", "a"))
    cache.keep(("", "c"), vectors())
    assert [("", q) in cache for q in "abc"] == [True, False, True]


def test_vectors_that_are_not_finite_are_not_kept():
    cache = QueryCache(entries=2, size_bytes=99999)
    cache.keep(("", "a"), vectors(np.nan))
    cache.keep(("", "b"), vectors(np.inf, clauses=1))
    assert cache.size.entries == 0


def test_a_query_of_nine_hundred_thousand_letters_does_not_empty_the_cache():
    cache = QueryCache(entries=9, size_bytes=100_000)
    cache.keep(("", "a"), vectors())
    cache.keep(("", "b" * 900_000), vectors())
    assert cache.size.entries == 1
