"""The contract of `toolheads.ports.VectorIndex`, functions named after its numbered sentences.

Plain functions of a home, a place where indexes are opened, so that the same ones run against
every adapter and against indexes that are broken on purpose.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from toolheads.arrays import Floats, normalized
from toolheads.errors import ConfigError, IndexStoreError, ShapeError
from toolheads.ports import VectorIndex

WIDTH = 8
SPACE = "one"


@dataclass(frozen=True)
class Home:
    """Where the indexes of one test are."""

    open: Callable[[str], VectorIndex]
    """Opens the index of a space."""
    lasts: bool = True
    """Whether rows are there when it is opened again."""
    least_recall: float = 0.9
    """Of the best rows, what an index that is not exact must find here."""


def made_rows(n: int, seed: int = 0) -> Floats:
    return normalized(np.random.default_rng(seed).normal(size=(n, WIDTH)).astype(np.float32))


KEYS = [f"key {i:03}" for i in np.random.default_rng(1).permutation(120)]
ROWS = made_rows(120)
QUERIES = made_rows(9, seed=2)
TWINS = [f"twin {i:02}" for i in range(30)]
TWIN_ROWS = np.tile(made_rows(1, seed=3), (30, 1))


def filled(home: Home) -> VectorIndex:
    index = home.open(SPACE)
    index.apply(KEYS, ROWS)
    return index


def products(index: VectorIndex, query: Floats, keys: list[str]) -> Floats:
    """What the scores must be, to the last bit: each product rounded once."""
    sums = (index.gather(keys).astype(np.float64) * query).sum(axis=1)
    return np.asarray(sums, np.float32)


def plain_search(index: VectorIndex, query: Floats, k: int) -> list[str]:
    """Keys of the best of all rows, one after the other."""
    keys = sorted(index.keys())
    scored = zip(products(index, query, keys).tolist(), keys, strict=True)
    return [key for _, key in sorted(scored, key=lambda pair: (-pair[0], pair[1]))[:k]]


def same(one, two) -> bool:
    return all(
        a[0] == b[0] and a[1].tobytes() == b[1].tobytes() for a, b in zip(one, two, strict=True)
    )


def returns_min_k_and_len_keys_best_first(home: Home) -> None:
    index = filled(home)
    for k in (1, 7, 119, 120, 500):
        for keys, scores in index.search(QUERIES, k):
            assert len(keys) == len(scores) == min(k, 120)
            assert len(set(keys)) == len(keys)
            assert scores.dtype == np.float32
            assert (np.diff(scores) <= 0).all()


def returns_one_answer_for_each_query(home: Home) -> None:
    index = filled(home)
    assert len(index.search(QUERIES, 3)) == len(QUERIES)
    assert index.search(QUERIES[:0], 3) == []


def an_empty_index_finds_nothing(home: Home) -> None:
    index = home.open(SPACE)
    assert len(index) == 0
    assert [keys for keys, _ in index.search(QUERIES, 3)] == [[]] * len(QUERIES)


def gives_products_rounded_once(home: Home) -> None:
    index = filled(home)
    for query, (keys, scores) in zip(QUERIES, index.search(QUERIES, 20), strict=True):
        np.testing.assert_array_equal(scores, products(index, query, keys))


def finds_the_best(home: Home) -> None:
    index = filled(home)
    found = hit = 0
    for query, (keys, _) in zip(QUERIES, index.search(QUERIES, 10), strict=True):
        best = plain_search(index, query, 10)
        found, hit = found + len(best), hit + len(set(best) & set(keys))
        assert not index.is_exact or keys == best
    assert hit >= home.least_recall * found


def orders_ties_by_key(home: Home) -> None:
    index = home.open(SPACE)
    for part in (slice(0, 10), slice(20, 30), slice(10, 20)):
        index.apply(TWINS[part][::-1], TWIN_ROWS[part])
    index.apply(KEYS, ROWS)
    for k in (5, 30):
        ((keys, scores),) = index.search(TWIN_ROWS[:1], k)
        assert len(set(scores.tolist())) == 1
        assert keys == sorted(keys)
        assert not index.is_exact or keys == TWINS[:k]


def answers_a_query_the_same_alone_and_among_others(home: Home) -> None:
    index = filled(home)
    together = index.search(QUERIES, 20)
    assert same([index.search(query[None], 20)[0] for query in QUERIES], together)
    assert same(index.search(QUERIES[::-1], 20), together[::-1])


def answers_the_same_twice(home: Home) -> None:
    index = filled(home)
    assert same(index.search(QUERIES, 20), index.search(QUERIES, 20))


def finds_what_was_added_and_not_what_was_removed(home: Home) -> None:
    index = filled(home)
    index.apply(TWINS, TWIN_ROWS, removed=KEYS[:100])
    assert index.keys() == {*KEYS[100:], *TWINS}
    assert len(index) == 50
    for keys, _ in index.search(np.concatenate([ROWS[:5], QUERIES]), 120):
        assert set(keys) == {*KEYS[100:], *TWINS}


def finds_a_row_that_comes_back(home: Home) -> None:
    index = filled(home)
    index.apply([], ROWS[:0], removed=KEYS)
    assert len(index) == 0
    assert index.search(QUERIES[:1], 3)[0][0] == []
    index.apply(KEYS[:50], ROWS[:50])
    ((keys, _),) = index.search(ROWS[:1], 500)
    assert sorted(keys) == sorted(KEYS[:50])


def takes_a_key_that_is_there_and_one_that_is_not(home: Home) -> None:
    index = filled(home)
    before = index.gather(KEYS)
    index.apply([KEYS[0], "new", "new"], ROWS[:3], removed=["unknown"])
    assert index.keys() == {*KEYS, "new"}
    np.testing.assert_array_equal(index.gather(KEYS), before)
    np.testing.assert_allclose(index.gather(["new"]), ROWS[1:2], atol=0.01)


def keeps_its_own_rows(home: Home) -> None:
    index = home.open(SPACE)
    rows = ROWS.copy()
    index.apply(KEYS, rows)
    before = index.search(QUERIES, 20)
    rows[:] = 0
    index.gather(KEYS)[:] = 0
    assert same(index.search(QUERIES, 20), before)


def gathers_rows_in_the_order_of_the_keys(home: Home) -> None:
    index = filled(home)
    picks = [5, 3, 3, 119, 0]
    gathered = index.gather([KEYS[i] for i in picks])
    assert gathered.dtype == np.float32
    np.testing.assert_allclose(gathered, ROWS[picks], atol=0.01)  # int8 rounds most, by 1 / 254
    assert index.gather([]).shape == (0, WIDTH)


def says_which_key_is_not_there(home: Home) -> None:
    index = filled(home)
    index.apply([], ROWS[:0], removed=KEYS[:1])
    for unknown in ("unknown", KEYS[0]):
        with pytest.raises(KeyError, match=unknown):
            index.gather([KEYS[1], unknown])


BAD_ROWS: dict[str, Any] = {
    "NaN": np.where(np.arange(WIDTH) == 3, np.nan, ROWS[:2]).astype(np.float32),
    "inf": np.where(np.arange(WIDTH) == 3, np.inf, ROWS[:2]).astype(np.float32),
    "wide": np.ones((2, WIDTH + 1), np.float32),
    "narrow": np.ones((2, WIDTH - 1), np.float32),
    "flat": np.ones(2 * WIDTH, np.float32),
    "few": np.ones((1, WIDTH), np.float32),
    "whole numbers": np.ones((2, WIDTH), np.int64),
    "texts": np.full((2, WIDTH), "1"),
}


def refuses_bad_rows_and_writes_nothing(home: Home) -> None:
    index = filled(home)
    for rows in BAD_ROWS.values():
        with pytest.raises(ShapeError, match="rows must"):
            index.apply(["bad", "worse"], rows, removed=KEYS[:5])
        assert index.keys() == set(KEYS)


def refuses_bad_queries(home: Home) -> None:
    index = filled(home)
    for queries in (np.ones((1, WIDTH + 1), np.float32), np.full((1, WIDTH), np.nan, np.float32)):
        with pytest.raises(ShapeError, match="queries must"):
            index.search(queries, 3)
    for k in (0, -1, 1.5):
        with pytest.raises(ConfigError, match="k must"):
            index.search(QUERIES, k)  # type: ignore[arg-type]  # wrong on purpose


def holds_the_same_rows_when_opened_again(home: Home) -> None:
    if not home.lasts:
        pytest.skip("keeps nothing beyond its life")
    index = filled(home)
    index.apply(TWINS, TWIN_ROWS, removed=KEYS[:20])
    before, rows = index.search(QUERIES, 20), index.gather(TWINS)
    index.close()
    again = home.open(SPACE)
    assert again.keys() == {*KEYS[20:], *TWINS}
    assert same(again.search(QUERIES, 20), before)
    np.testing.assert_array_equal(again.gather(TWINS), rows)


def lasts_when_apply_returns(home: Home) -> None:
    if not home.lasts:
        pytest.skip("keeps nothing beyond its life")
    filled(home).apply([], ROWS[:0], removed=KEYS[:20])
    assert home.open(SPACE).keys() == set(KEYS[20:])  # with the first still open


def holds_no_rows_of_another_space(home: Home) -> None:
    filled(home)
    other = home.open("two")
    assert other.keys() == frozenset()
    other.apply(TWINS, TWIN_ROWS)
    assert set(other.search(ROWS[:1], 500)[0][0]) == set(TWINS)
    if home.lasts:
        assert home.open(SPACE).keys() == set(KEYS)


def reads_and_asks_nothing_where_it_is_at_hand(home: Home) -> None:
    index = filled(home)
    index.search(QUERIES, 3)
    if index.is_at_hand:
        assert events_of(lambda: index.search(QUERIES, 3)) == []
    if home.lasts:
        index.close()
        assert not home.open(SPACE).is_at_hand  # nobody has looked at its rows yet


def events_of(call: Callable[[], object]) -> list[str]:
    """What a call asks of the system, as far as the interpreter knows: files and connections."""
    here, seen, is_on = threading.get_ident(), [], True

    def hear(event: str, _: object) -> None:
        about = event == "open" or event.startswith(("socket.", "subprocess."))
        if is_on and about and threading.get_ident() == here:
            seen.append(event)

    sys.addaudithook(hear)  # stays for good, so it is told to be quiet
    try:
        call()
    finally:
        is_on = False
    return seen


def searches_see_the_rows_before_or_after(home: Home) -> None:
    """Two sets take turns; whoever looks sees one of them whole, with its own products."""
    index = filled(home)
    sets = [KEYS[:60], KEYS[60:]]
    index.apply([], ROWS[:0], removed=sets[1])
    seen, errors = [], []
    done = threading.Event()

    def look() -> None:
        try:
            while not done.is_set():
                seen.append(index.search(QUERIES[:2], 120))
        except Exception as e:  # shown by the assertion below
            errors.append(e)

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    try:
        for turn in range(8):
            come = (turn + 1) % 2
            index.apply(sets[come], ROWS[60:] if come else ROWS[:60], removed=sets[1 - come])
    finally:
        done.set()
        for looker in lookers:
            looker.join()
    assert not errors
    assert {frozenset(keys) for answer in seen for keys, _ in answer} <= set(map(frozenset, sets))
    whole = {frozenset(keys): scores for keys, scores in index.search(QUERIES[:1], 120)}
    for (keys, scores), _ in seen:
        if frozenset(keys) in whole:
            np.testing.assert_array_equal(scores, whole[frozenset(keys)])


def fails_as_an_index_store_once_closed(home: Home) -> None:
    index = filled(home)
    index.close()
    for call in (
        lambda: index.search(QUERIES, 3),
        lambda: index.apply(TWINS, TWIN_ROWS),
        lambda: index.gather(KEYS[:1]),
        lambda: index.keys(),
        lambda: len(index),
    ):
        with pytest.raises(IndexStoreError, match="must be open"):
            call()


def has_the_width_it_was_opened_with(home: Home) -> None:
    index = home.open(SPACE)
    assert index.width == WIDTH
    assert index.is_exact in (True, False)


CONTRACT = [
    returns_min_k_and_len_keys_best_first,  # 1
    returns_one_answer_for_each_query,
    an_empty_index_finds_nothing,
    gives_products_rounded_once,
    finds_the_best,
    orders_ties_by_key,
    answers_a_query_the_same_alone_and_among_others,
    answers_the_same_twice,
    finds_what_was_added_and_not_what_was_removed,  # 2
    finds_a_row_that_comes_back,
    takes_a_key_that_is_there_and_one_that_is_not,
    keeps_its_own_rows,
    gathers_rows_in_the_order_of_the_keys,  # 3
    says_which_key_is_not_there,
    refuses_bad_rows_and_writes_nothing,  # 4
    refuses_bad_queries,
    holds_the_same_rows_when_opened_again,  # 5
    lasts_when_apply_returns,
    holds_no_rows_of_another_space,
    searches_see_the_rows_before_or_after,  # 6
    fails_as_an_index_store_once_closed,  # 7
    reads_and_asks_nothing_where_it_is_at_hand,  # 8
    has_the_width_it_was_opened_with,
]
