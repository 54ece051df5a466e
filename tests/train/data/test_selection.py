from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from toolheads.data import Dataset  # noqa: E402
from toolheads.domain import Query, Tool  # noqa: E402
from toolheads.errors import ConfigError, DataError  # noqa: E402
from toolheads_train.data.selection import (  # noqa: E402
    QueryVectors,
    Selection,
    ValidationSettings,
    select,
    without_near_vectors,
)

pytestmark = pytest.mark.train

WORDS = (
    *("alpine", "brass", "cedar", "delta", "ember", "fjord", "gravel"),
    *("harbor", "island", "jungle", "kettle", "lantern", "meadow", "nickel"),
    *("orchard", "pebble", "quartz", "ribbon", "saddle", "timber", "umbrella"),
    *("valley", "willow", "yarrow", "zephyr"),
)


def text(i):
    """Sentences that share few words."""
    return " ".join(WORDS[(i * step + step) % len(WORDS)] for step in (3, 7, 11)) + f" {i}"


def dataset(name, n=40, *, tools=10, split="train", start=0):
    made = tuple(Tool(f"{name}:{i}", f"tool_{i}", description=text(i)) for i in range(tools))
    queries = tuple(
        Query(f"{name}-{i}", f"{name} {text(start + i)}", {f"{name}:{i % tools}": 1}, split)
        for i in range(n)
    )
    return Dataset(name, made, queries, {})


def chosen(
    given, *, train=None, exclude=(), label_free=None, overlap=None, most=None, **val
) -> Selection:
    return select(
        given,
        train=train,
        exclude=exclude,
        label_free=label_free,
        validation=ValidationSettings(**{"by": "query", "share": 0.3, "min_queries": 1, **val}),
        overlap=overlap or {},
        min_jaccard=0.8,
        max_queries=most,
        seed=0,
    )


def ids(queries):
    return {query.id for query in queries}


def test_validation_by_query_takes_its_share_and_shares_nothing_with_training():
    one = chosen([dataset("a", 100)]).datasets[0]
    assert 15 <= len(one.validation) <= 45
    assert not ids(one.train) & ids(one.validation)


def test_validation_by_tool_holds_its_tools_out():
    one = chosen([dataset("a", 100)], by="tool").datasets[0]
    seen = {tool for query in one.train for tool in query.relevant}
    held = {tool for query in one.validation for tool in query.relevant}
    assert held
    assert not seen & held


def test_validation_by_data_set_holds_whole_sets_out():
    picked = chosen([dataset("a"), dataset("b")], by="dataset", share=0.01, datasets=("b",))
    train, held = picked.datasets
    assert (held.dataset.name, len(held.train), len(held.validation)) == ("b", 0, 40)
    assert (len(train.train), len(train.validation)) == (40, 0)


def test_queries_of_split_val_validate_and_do_not_train():
    a = dataset("a", 20)
    val = dataset("a", 10, split="val", start=50).queries
    both = Dataset("a", a.tools, (*a.queries, *(q for q in val)), {})
    one = chosen([both], by="given").datasets[0]
    assert len(one.validation) == 10
    assert len(one.train) == 20


def test_a_training_query_that_is_a_test_query_but_for_its_wording_is_dropped_and_counted():
    a, b = dataset("a", 30), dataset("b", 2, split="test")
    leaks = (
        Query("t0", "Please, " + a.queries[0].text.upper() + "!", {"b:0": 1}, "test"),
        Query("t1", a.queries[1].text + " ", {"b:0": 1}, "test"),
    )
    picked = chosen([a, Dataset("b", b.tools, leaks, {})])
    one = picked.datasets[0]
    assert not {"a-0", "a-1"} & (ids(one.train) | ids(one.validation))
    assert picked.counts["equal to a test query"] == 2


def test_a_test_query_of_an_excluded_data_set_is_guarded_too():
    a = dataset("a", 30)
    leak = Query("t0", a.queries[3].text, {"b:0": 1}, "test")
    picked = chosen([a, Dataset("b", dataset("b").tools, (leak,), {})], exclude=("b",))
    assert picked.counts["equal to a test query"] == 1


def test_a_validation_set_that_shares_a_query_with_a_test_set_is_refused():
    a = dataset("a", 20, split="val")
    leak = Query("t0", a.queries[0].text, {"b:0": 1}, "test")
    with pytest.raises(DataError, match="must share no query with a test set, got 1 shared"):
        chosen([a, Dataset("b", dataset("b").tools, (leak,), {})], by="given")


def test_a_training_query_near_a_validation_query_is_dropped():
    words = "move every old invoice of last month into the archive folder"
    train = Query("near", words + " now", {"a:0": 1}, "train")
    val = Query("v", words, {"a:1": 1}, "val")
    a = dataset("a", 20)
    picked = chosen([Dataset("a", a.tools, (*a.queries, train, val), {})], by="given")
    assert "near" not in ids(picked.datasets[0].train)
    assert picked.counts["near a validation query"] == 1


def test_tools_of_another_test_set_neither_train_nor_make_pairs():
    overlap = {"a": {"a:0": ("other:x",)}, "c": {"c:1": ("other:y",)}}
    catalogue = Dataset("c", dataset("c").tools, (), {})
    picked = chosen([dataset("a", 40), catalogue], overlap=overlap)
    one = picked.datasets[0]
    assert all("a:0" not in q.relevant for q in (*one.train, *one.validation))
    ((_, tools),) = picked.catalogues
    assert [tool.id for tool in tools][:2] == ["c:0", "c:2"]
    assert picked.counts["tool of a test set"] == 5


def test_label_free_pairs_come_from_catalogues_nobody_asks_in_unless_named():
    sets = [dataset("a"), Dataset("c", dataset("c").tools, (), {}), dataset("t", split="test")]
    assert [d.name for d, _ in chosen(sets).catalogues] == ["c"]
    assert [d.name for d, _ in chosen(sets, label_free=("a",)).catalogues] == ["a"]
    assert chosen(sets, exclude=("c",)).catalogues == ()


def test_queries_that_no_tool_fits_are_left_out_and_counted():
    a = dataset("a", 20)
    none = Query("none", "something else entirely", {}, "train")
    picked = chosen([Dataset("a", a.tools, (*a.queries, none), {})])
    assert picked.counts["no relevant tool"] == 1


def test_limits_keep_a_random_part():
    picked = chosen([dataset("a", 100)], max_queries=5, most=7)
    one = picked.datasets[0]
    assert (len(one.train), len(one.validation)) == (7, 5)
    assert [q.id for q in one.train] != [f"a-{i}" for i in range(7)]


def test_a_small_validation_set_has_no_say():
    with pytest.raises(ConfigError, match="at least 500 queries, got none"):
        chosen([dataset("a", 30)], min_queries=500)


@pytest.mark.parametrize("setting", ["train", "exclude", "label_free"])
def test_an_unknown_data_set_is_named(setting):
    with pytest.raises(ConfigError, match=f"data.{setting} must name data sets of a, got 'b'"):
        chosen([dataset("a")], **{setting: ("b",)})


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_share_of_nothing_or_all_is_refused(share):
    with pytest.raises(ConfigError, match=r"validation.share must be in \(0, 1\)"):
        ValidationSettings(share=share)


def directions(n, first=0, d=64):
    """n rows of their own direction each, from the direction `first`."""
    return np.eye(d, dtype=np.float32)[first : first + n]


def near_to(row, cosine):
    """A row with a cosine to a row of `directions`, off in the last direction."""
    found = cosine * row
    found[-1] += np.sqrt(1 - cosine**2)
    return found


def guarded(one, train, validation, test, least=0.97):
    vectors = {one.datasets[0].dataset.name: QueryVectors(train, validation)}
    return without_near_vectors(one, vectors, test, min_cosine=least)


def given_validation(train=6, val=3):
    """One data set whose validation queries are of split `val`."""
    a = dataset("a", train)
    more = dataset("a", val, split="val", start=50).queries
    more = tuple(Query(f"v{i}", q.text, q.relevance, "val") for i, q in enumerate(more))
    return chosen([Dataset("a", a.tools, (*a.queries, *more), {})], by="given")


def test_training_queries_near_a_held_out_vector_are_dropped_and_counted_by_what_they_are_near():
    picked = given_validation()
    train, validation, test = directions(6), directions(3, 10), directions(2, 20)
    train[1], train[4] = near_to(test[0], 0.98), 3 * near_to(validation[2], 0.975)
    train[5] = near_to(test[1], 0.96)
    left, rows = guarded(picked, train, validation, test)
    assert [q.id for q in left.datasets[0].train] == ["a-0", "a-2", "a-3", "a-5"]
    assert rows["a"].tolist() == [0, 2, 3, 5]
    assert left.counts["near a test query (vectors)"] == 1
    assert left.counts["near a validation query (vectors)"] == 1
    assert left.near == {"a": 2}
    assert left.counts["near a test query"] == picked.counts["near a test query"]


def test_what_words_found_and_selected_is_left_as_it_was():
    picked = given_validation()
    left, _ = guarded(picked, directions(6), directions(3, 10), directions(2, 20))
    assert left.datasets == picked.datasets
    assert left.near == {}


def test_a_drawn_validation_query_near_a_test_query_goes_and_a_given_one_stays():
    drawn = chosen([dataset("a", 100)])
    one = drawn.datasets[0]
    train, validation = directions(len(one.train), d=256), directions(len(one.validation), 100, 256)
    left, _ = guarded(drawn, train, validation, validation[:1])
    assert len(left.datasets[0].validation) == len(one.validation) - 1
    assert left.counts["near a test query (vectors)"] == 1
    given = given_validation()
    left, _ = guarded(given, directions(6), directions(3, 10), directions(1, 10))
    assert len(left.datasets[0].validation) == 3


def test_a_query_near_a_dropped_validation_query_stays():
    drawn = chosen([dataset("a", 100)])
    one = drawn.datasets[0]
    train, validation = directions(len(one.train), d=256), directions(len(one.validation), 100, 256)
    test = near_to(validation[0], 0.98)[None]
    train[3] = near_to(validation[0], 0.98)
    train[3, -1] *= -1  # 0.98 from the validation query, 0.92 from the test query
    left, _ = guarded(drawn, train, validation, test)
    assert len(left.datasets[0].train) == len(one.train)


def test_equal_vectors_everywhere_are_an_error_that_says_so():
    rows = np.ones((6, 4), np.float32)
    with pytest.raises(ConfigError, match="min_cosine must leave queries for train, got none of 6"):
        guarded(given_validation(), rows, rows[:3], rows[:0])
    drawn = chosen([dataset("a", 30)])
    n, m = len(drawn.datasets[0].train), len(drawn.datasets[0].validation)
    with pytest.raises(ConfigError, match=f"must leave queries for validation, got none of {m}"):
        guarded(drawn, directions(n), np.ones((m, 64), np.float32), np.ones((1, 64), np.float32))
