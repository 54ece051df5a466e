"""Runs the `VectorIndex` contract against every adapter, and against indexes broken on purpose."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.contract import index as contract
from tests.contract.index import CONTRACT, ROWS, WIDTH, Home
from tests.postgres_server import postgres_uri

from toolheads.errors import ConfigError, IndexStoreError, ShapeError
from toolheads.indexes import open_index


def numpy_home(dtype, *, in_memory):
    def at(tmp_path, opened):
        folder = None if in_memory else tmp_path
        return Home(
            lambda space: opened(
                open_index("numpy", space=space, width=WIDTH, folder=folder, dtype=dtype)
            ),
            lasts=not in_memory,
        )

    return at


def faiss_home(kind, dtype="float32", least_recall=0.9, **settings):
    def at(tmp_path, opened):
        pytest.importorskip("faiss", reason="needs the extra faiss")
        return Home(
            lambda space: opened(
                open_index(
                    kind,
                    space=space,
                    width=WIDTH,
                    folder=tmp_path,
                    dtype=dtype,
                    build_from=1,
                    build_threads=1,
                    **settings,
                )
            ),
            least_recall=least_recall,
        )

    return at


_TABLES = itertools.count()


def pgvector_home(dtype="float32", **settings):
    def at(tmp_path, opened):
        dsn, table = postgres_uri(), f"contract{next(_TABLES)}"
        return Home(
            lambda space: opened(
                open_index(
                    "pgvector",
                    space=space,
                    width=WIDTH,
                    dsn=dsn,
                    dtype=dtype,
                    table=table,
                    index_from=1,
                    **settings,
                )
            )
        )

    return at


ADAPTERS = {
    **{
        f"numpy {dtype} {place}": numpy_home(dtype, in_memory=place == "in memory")
        for dtype in ("float32", "float16", "int8")
        for place in ("in memory", "on disk")
    },
    "faiss flat": faiss_home("faiss-flat"),
    "faiss flat float16": faiss_home("faiss-flat", "float16"),
    "faiss hnsw": faiss_home("faiss-hnsw"),
    "faiss hnsw int8": faiss_home("faiss-hnsw", "int8"),
    "faiss ivf": faiss_home("faiss-ivf", least_recall=0.6, lists=4, probes=2),
    "faiss ivf float16": faiss_home("faiss-ivf", "float16", 0.6, lists=4, probes=2),
    "faiss ivfpq": faiss_home("faiss-ivfpq", least_recall=0.6, lists=4, probes=2, bits=4),
    "faiss ivfpq int8": faiss_home("faiss-ivfpq", "int8", 0.6, lists=4, probes=2, bits=4),
    "faiss ivfpq codes alone": faiss_home(
        "faiss-ivfpq", least_recall=0.3, lists=4, probes=2, bits=4, codes=4, refine=1
    ),
}
WITH_GPU = {
    "faiss ivfpq built on a GPU": faiss_home(
        "faiss-ivfpq", least_recall=0.6, lists=4, probes=2, bits=4
    ),
    "faiss cagra": faiss_home("faiss-cagra", neighbours=16),
}
POSTGRES = {
    "pgvector hnsw": pgvector_home(),
    "pgvector hnsw halfvec": pgvector_home("float16"),
    "pgvector exact": pgvector_home(hnsw=False),
    "pgvector exact halfvec": pgvector_home("float16", hnsw=False),
}
CASES = [
    *(pytest.param(make, id=name) for name, make in (ADAPTERS | WITH_GPU).items()),
    *(pytest.param(make, id=name, marks=pytest.mark.postgres) for name, make in POSTGRES.items()),
]


@pytest.fixture
def opened():
    """Closes what a test opened."""
    indexes = []

    def keep(index):
        indexes.append(index)
        return index

    yield keep
    for index in indexes:
        index.close()


@pytest.fixture
def home(make, tmp_path, opened, monkeypatch):
    """Where the indexes of a case are, on a machine with what it needs."""
    if make in WITH_GPU.values():
        pytest.importorskip("faiss", reason="needs the extra faiss")
        from tests.gpu_faiss import GpuFaiss

        monkeypatch.setitem(sys.modules, "faiss", GpuFaiss())
    return make(tmp_path, opened)


@pytest.mark.parametrize("make", CASES)
@pytest.mark.parametrize("clause", CONTRACT, ids=lambda f: f.__name__)
def test_adapter_keeps_the_contract(clause, home):
    clause(home)


@pytest.mark.parametrize("make", CASES)
def test_adapters_give_equal_scores_to_the_last_bit(home):
    index = contract.filled(home)
    plain = open_index("numpy", space="plain", width=WIDTH)
    plain.apply(contract.KEYS, index.gather(contract.KEYS))
    for one, two in zip(
        index.search(contract.QUERIES, 120), plain.search(contract.QUERIES, 120), strict=True
    ):
        assert one[0] == two[0]
        np.testing.assert_array_equal(one[1], two[1])


class Plain:
    """A dict of rows, scanned one by one; keeps the contract. Others break it."""

    width = WIDTH
    is_exact = True

    def __init__(self, kept):
        self.rows = kept
        self.lock = threading.Lock()
        self.is_open = True
        self.is_at_hand = False

    def all_rows(self):
        if not self.is_open:
            raise IndexStoreError("index must be open, got a call after close()")
        return self.rows

    def __len__(self):
        return len(self.all_rows())

    def keys(self):
        return frozenset(self.all_rows())

    def apply(self, keys, rows, removed=()):
        self.check(keys, rows)
        added: dict[str, Any] = {}
        for key, row in zip(keys, rows, strict=True):
            added.setdefault(key, self.stored(row))
        with self.lock:
            self.change(added, removed)

    def check(self, keys, rows):
        rows = np.asarray(rows)
        if rows.dtype.kind != "f" or rows.shape != (len(keys), WIDTH):
            raise ShapeError(f"rows must have shape (n, {WIDTH}), got {rows.shape}")
        if not np.isfinite(rows).all():
            raise ShapeError("rows must be finite")

    def stored(self, row):
        return row.copy()

    def change(self, added, removed):
        rows = self.all_rows()
        for key in removed:
            rows.pop(key, None)
        for key, row in added.items():
            rows.setdefault(key, row)

    def search(self, queries, k):
        queries = np.asarray(queries)
        if queries.shape[1:] != (WIDTH,) or not np.isfinite(queries).all():
            raise ShapeError(f"queries must have shape (n, {WIDTH}), got {queries.shape}")
        if not isinstance(k, int) or k < 1:
            raise ConfigError(f"k must be >= 1, got {k}")
        self.is_at_hand = True
        with self.lock:
            return [self.one(query, k, len(queries)) for query in queries]

    def one(self, query, k, _among):
        scored = sorted(
            ((self.score(query, row), key) for key, row in self.all_rows().items()), key=self.order
        )[:k]
        return [key for _, key in scored], np.array([s for s, _ in scored], np.float32)

    def score(self, query, row):
        return np.float32((query.astype(np.float64) * row).sum())

    def order(self, pair):
        return -pair[0], pair[1]

    def gather(self, keys):
        rows = self.all_rows()
        return np.array([rows[key] for key in keys], np.float32).reshape(-1, WIDTH)

    def close(self):
        self.is_open = False


def plain_home(kind):
    kept: dict[str, dict[str, Any]] = {}
    return Home(lambda space: kind(kept.setdefault(space, {})))


class WorstFirst(Plain):
    def order(self, pair):
        return pair[0], pair[1]


class Twice(Plain):
    def one(self, query, k, among):
        keys, scores = super().one(query, k, among)
        return keys[:1] + keys[:-1], np.concatenate([scores[:1], scores[:-1]])


class OneShort(Plain):
    def one(self, query, k, among):
        return super().one(query, max(1, min(k, len(self)) - 1), among)


class LastQueryLost(Plain):
    def search(self, queries, k):
        return super().search(queries, k)[:-1]


class EmptyFails(Plain):
    def one(self, query, k, among):
        keys, scores = super().one(query, k, among)
        return [keys[0], *keys[1:]], scores


class Rounded(Plain):
    """Sums in float32, as a matrix product does."""

    def score(self, query, row):
        return np.float32(np.cumsum(query * row)[-1])


class Blind(Plain):
    def order(self, pair):
        return hash(pair[1]) % 97, pair[1]

    def one(self, query, k, among):
        keys, scores = super().one(query, k, among)
        order = np.argsort(-scores)
        return [keys[i] for i in order], scores[order]


class TiesBackwards(Plain):
    def order(self, pair):
        return -pair[0], [-ord(c) for c in pair[1]]


class Neighbourly(Plain):
    def one(self, query, k, among):
        keys, scores = super().one(query, k, among)
        return keys, scores + np.float32(1e-6 * among)


class Moody(Plain):
    calls = 0

    def one(self, query, k, among):
        Moody.calls += 1
        return super().one(query * np.float32(1 + 1e-6 * Moody.calls), k, among)


class NeverRemoves(Plain):
    def change(self, added, removed):
        super().change(added, ())


class GoneForGood(Plain):
    def change(self, added, removed):
        self.gone = getattr(self, "gone", set()) | set(removed)
        super().change({k: v for k, v in added.items() if k not in self.gone}, removed)


class Overwrites(Plain):
    def change(self, added, removed):
        super().change(added, [*removed, *added])

    def apply(self, keys, rows, removed=()):
        super().apply(keys, np.asarray(rows)[::-1] if len(keys) == 3 else rows, removed)


class Picky(Plain):
    def change(self, added, removed):
        for key in removed:
            del self.rows[key]
        super().change(added, ())


class Aliased(Plain):
    def stored(self, row):
        return row


class SortsWhatItGathers(Plain):
    def gather(self, keys):
        return super().gather(sorted(keys))


class ZeroForUnknown(Plain):
    def gather(self, keys):
        rows = self.all_rows()
        return np.array([rows.get(key, np.zeros(WIDTH)) for key in keys]).reshape(-1, WIDTH)


class TakesAnyRow(Plain):
    def check(self, keys, rows):
        rows = np.asarray(rows)
        if rows.shape != (len(keys), WIDTH):
            raise ShapeError("rows must have another shape")


class RemovesBeforeItChecks(Plain):
    def apply(self, keys, rows, removed=()):
        self.change({}, removed)
        super().apply(keys, rows, removed)


class AnyK(Plain):
    def search(self, queries, k):
        return super().search(queries, max(1, int(k)))


class Forgetful(Plain):
    def close(self):
        super().close()
        self.rows.clear()


class WritesWhenClosed(Plain):
    def __init__(self, kept):
        super().__init__(dict(kept))
        self.kept = kept

    def close(self):
        super().close()
        self.kept.clear()
        self.kept.update(self.rows)


EVERY: dict[str, Any] = {}


class OneSpace(Plain):
    def __init__(self, kept):
        super().__init__(EVERY)


class InTwoSteps(Plain):
    """What is removed is gone before what is added is there."""

    def apply(self, keys, rows, removed=()):
        if removed:
            super().apply([], ROWS[:0], removed)
            time.sleep(0.01)
        super().apply(keys, rows)


class OpenForEver(Plain):
    def close(self):
        pass


class AtHandTooSoon(Plain):
    def __init__(self, kept):
        super().__init__(kept)
        self.is_at_hand = True


class ReadsAgain(Plain):
    def search(self, queries, k):
        with Path(__file__).open("rb"):
            return super().search(queries, k)


class OtherWidth(Plain):
    width = WIDTH + 1


BROKEN = {
    WorstFirst: contract.returns_min_k_and_len_keys_best_first,
    Twice: contract.returns_min_k_and_len_keys_best_first,
    OneShort: contract.returns_min_k_and_len_keys_best_first,
    LastQueryLost: contract.returns_one_answer_for_each_query,
    EmptyFails: contract.an_empty_index_finds_nothing,
    Rounded: contract.gives_products_rounded_once,
    Blind: contract.finds_the_best,
    TiesBackwards: contract.orders_ties_by_key,
    Neighbourly: contract.answers_a_query_the_same_alone_and_among_others,
    Moody: contract.answers_the_same_twice,
    NeverRemoves: contract.finds_what_was_added_and_not_what_was_removed,
    GoneForGood: contract.finds_a_row_that_comes_back,
    Overwrites: contract.takes_a_key_that_is_there_and_one_that_is_not,
    Picky: contract.takes_a_key_that_is_there_and_one_that_is_not,
    Aliased: contract.keeps_its_own_rows,
    SortsWhatItGathers: contract.gathers_rows_in_the_order_of_the_keys,
    ZeroForUnknown: contract.says_which_key_is_not_there,
    TakesAnyRow: contract.refuses_bad_rows_and_writes_nothing,
    RemovesBeforeItChecks: contract.refuses_bad_rows_and_writes_nothing,
    AnyK: contract.refuses_bad_queries,
    Forgetful: contract.holds_the_same_rows_when_opened_again,
    WritesWhenClosed: contract.lasts_when_apply_returns,
    OneSpace: contract.holds_no_rows_of_another_space,
    InTwoSteps: contract.searches_see_the_rows_before_or_after,
    OpenForEver: contract.fails_as_an_index_store_once_closed,
    AtHandTooSoon: contract.reads_and_asks_nothing_where_it_is_at_hand,
    ReadsAgain: contract.reads_and_asks_nothing_where_it_is_at_hand,
    OtherWidth: contract.has_the_width_it_was_opened_with,
}


@pytest.mark.parametrize("clause", CONTRACT, ids=lambda f: f.__name__)
def test_the_plain_index_keeps_the_contract(clause):
    clause(plain_home(Plain))


@pytest.mark.parametrize(("broken", "clause"), BROKEN.items(), ids=lambda c: c.__name__)
def test_the_contract_catches_a_broken_index(broken, clause):
    with pytest.raises((AssertionError, pytest.fail.Exception, KeyError, IndexError, TypeError)):
        clause(plain_home(broken))
