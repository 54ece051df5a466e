import threading
from collections.abc import Callable

import numpy as np
import pytest
from tests.hash_encoder import HashEncoder
from tests.unit.decide.made import BINARY, GivenScorer, bound, names, picker, tool

from toolheads.decide import (
    Absent,
    Ambiguous,
    Bind,
    Duplicate,
    Picker,
    PickerSettings,
    SelectionError,
    by_embedding,
)
from toolheads.domain import Hit, Tool
from toolheads.embedder import Embedder
from toolheads.errors import ConfigError, ShapeError
from toolheads.scorers.bm25 import BM25Scorer
from toolheads.scorers.dense import DenseScorer

TWO = [tool("one"), tool("two", "b")]
SAME = [[1, 0], [1, 0], [1, 0]]


def test_a_leader_at_the_floor_with_a_gap_of_exactly_the_margin_is_bound():
    decision = picker(TWO, [0.5, 0.375]).resolve("x")
    assert isinstance(decision, Bind)
    assert (decision.tool.name, decision.hit.score) == ("one", 0.5)


def test_a_leader_a_hair_under_the_floor_is_absent_and_named_as_the_nearest():
    decision = picker(TWO, [np.nextafter(np.float32(0.5), np.float32(0)), 0.25]).resolve("x")
    assert isinstance(decision, Absent)
    assert decision.nearest is not None
    assert decision.nearest.tool.name == "one"
    assert decision.hits == ()


def test_a_gap_under_the_margin_is_ambiguous():
    decision = picker(TWO, [0.875, 0.875 - 0.1249]).resolve("x")
    assert isinstance(decision, Ambiguous)
    assert names(decision.hits) == ["one", "two"]


def test_a_runner_up_just_under_the_floor_makes_a_tie_all_the_same():
    one = picker(TWO, [0.5, 0.4921875])
    assert isinstance(one.resolve("x"), Ambiguous)
    assert names(one.shortlist("x", 5)) == ["one", "two"]


def test_margin_zero_binds_even_equal_scores_to_the_first_of_the_catalogue():
    one = picker(TWO, [0.875, 0.875], BINARY.changed(margin=0.0))
    assert names(one.resolve("x").hits) == ["one"]


def test_scores_are_compared_in_32_bits():
    settings = PickerSettings()
    assert isinstance(picker(TWO, [0.9, 0.85], settings).resolve("x"), Ambiguous)
    assert isinstance(picker(TWO[:1], [0.825], settings).resolve("x"), Bind)


def test_a_twin_on_the_same_server_is_a_duplicate_however_far_down():
    tools = [tool("one"), tool("b", "b"), tool("c", "c"), tool("d", "d"), tool("copy")]
    rows = [[1, 0], [0, 1], [0, 1], [0, 1], [1, 0]]
    one = picker(tools, [0.875, 0.75, 0.75, 0.75, 0.0625], rows=rows)
    decision = one.resolve("x")
    assert isinstance(decision, Duplicate)
    assert names(decision.hits) == ["one", "copy"]
    assert names(one.shortlist("x", 9)) == ["one", "b", "c", "d", "copy"]


@pytest.mark.parametrize(
    ("threshold", "is_twin"),
    [(0.75, True), (float(np.nextafter(np.float32(0.75), np.float32(1))), False)],
)
def test_a_similarity_of_exactly_the_threshold_makes_a_duplicate(threshold, is_twin):
    tools = [tool("one"), tool("two")]
    settings = BINARY.changed(duplicate_threshold=threshold)
    one = picker(tools, [0.875, 0.5], settings, rows=[[1, 0], [0.75, 0.4375**0.5]])
    assert isinstance(one.resolve("x"), Duplicate) == is_twin
    assert len(one.near_duplicates([("a", "one"), ("a", "two")])) == is_twin


def test_a_twin_on_another_server_is_no_duplicate():
    tools = [tool("one"), tool("one", "b")]
    assert isinstance(picker(tools, [0.875, 0.8125], rows=SAME[:2]).resolve("x"), Ambiguous)
    assert isinstance(picker(tools, [0.875, 0.5], rows=SAME[:2]).resolve("x"), Bind)


def test_tools_of_no_server_are_each_others_mates():
    tools = [Tool("1", "one"), Tool("2", "two")]
    assert isinstance(picker(tools, [0.875, 0.5], rows=SAME[:2]).resolve("x"), Duplicate)


def test_a_duplicate_is_told_before_a_tie():
    one = picker([tool("one"), tool("two")], [0.875, 0.875], rows=SAME[:2])
    assert isinstance(one.resolve("x"), Duplicate)


def test_answers_name_at_least_two_and_at_most_top_k_tools():
    tools = [tool(name, name) for name in "abcd"]
    scores = [0.875, 0.859375, 0.84375, 0.828125]
    for top_k, named in [(1, 2), (2, 2), (3, 3), (10, 4)]:
        one = picker(tools, scores, BINARY.changed(top_k=top_k))
        assert len(one.resolve("x").hits) == named
        assert len(one.shortlist("x", 10)) == 4


def test_the_solo_rule_binds_a_leader_that_stands_alone():
    assert isinstance(picker(TWO, [0.4375, 0.125]).resolve("x"), Bind)
    assert isinstance(picker(TWO, [0.4375, 0.25]).resolve("x"), Absent)
    assert isinstance(picker(TWO, [0.25, 0.1875]).resolve("x"), Absent)  # within the margin
    off = BINARY.changed(solo_floor=0.5)
    assert isinstance(picker(TWO, [0.4375, 0.125], off).resolve("x"), Absent)


def test_the_solo_rule_binds_no_tool_that_has_a_twin():
    tools = [tool("one"), tool("two")]
    one = picker(tools, [0.4375, 0.125], rows=SAME[:2])
    assert isinstance(one.resolve("x"), Absent)
    assert one.shortlist("x", 2) == ()


def test_by_default_one_related_tool_is_not_bound_because_it_is_alone():
    assert isinstance(picker(TWO[:1], [0.625], PickerSettings()).resolve("x"), Absent)


def test_hints_break_ties_between_tools_of_one_server():
    tools = [tool("write", readOnly=False), tool("read", readOnly=True)]
    one = picker(tools, [0.875, 0.875], BINARY.changed(margin=0.0))
    assert names(one.resolve("x").hits) == ["read"]


@pytest.mark.parametrize("hint", [{"destructive": False}, {"idempotent": True}])
def test_every_hint_of_less_harm_counts(hint):
    one = picker([tool("one"), tool("two", **hint)], [0.875, 0.875])
    assert names(one.resolve("x").hits) == ["two", "one"]


def test_reading_only_counts_more_than_the_other_hints():
    tools = [
        tool("tame", destructive=False, idempotent=True),
        tool("reader", readOnly=True, destructive=True),
    ]
    assert names(picker(tools, [0.875, 0.875]).resolve("x").hits) == ["reader", "tame"]


def test_a_copycat_that_claims_to_be_harmless_does_not_get_ahead_of_another_server():
    tools = [tool("pay", "trusted"), tool("pay", "evil", readOnly=True)]
    one = picker(tools, [1.0, 1.0], BINARY.changed(margin=0.0), rows=SAME[:2])
    assert bound(one.resolve("x")).server == "trusted"


def test_in_a_tie_each_server_keeps_its_places():
    tools = [tool("a1"), tool("b1", "b", readOnly=True), tool("a2", readOnly=True)]
    assert names(picker(tools, [0.875] * 3).shortlist("x", 3)) == ["a2", "b1", "a1"]


@pytest.mark.parametrize("annotations", ["yes", None, [], {"readOnlyHint": "yes"}])
def test_what_is_no_hint_counts_as_none(annotations):
    odd = Tool("odd", "odd", "a", extra={"annotations": annotations})
    one = picker([tool("plain"), odd], [0.875, 0.875])
    assert names(one.resolve("x").hits) == ["plain", "odd"]


@pytest.mark.parametrize("score", [float("nan"), float("inf"), -float("inf"), 1e39])
def test_a_score_that_is_not_finite_is_an_error_that_names_the_tool(score):
    with pytest.raises(ShapeError, match=r"scores must be finite, got .* for tool 'b/two'"):
        picker(TWO, [0.5, score]).resolve("x")


def test_an_empty_catalogue_has_no_tool_for_any_need():
    one = picker([], [])
    assert one.resolve("x") == Absent(None)
    assert one.shortlist("x", 3) == one.near_duplicates([]) == ()


def test_a_tool_that_the_scorer_leaves_out_is_not_ranked():
    one = picker(TWO, [None, 0.75])
    assert names(one.resolve("x").hits) == ["two"]
    assert picker(TWO, [None, None]).resolve("x") == Absent(None)


def test_limit_zero_scores_nothing():
    scorer = GivenScorer([0.875, 0.5])
    one = Picker(TWO, scorer, BINARY)
    assert (one.shortlist("x", 0), scorer.asked) == ((), 0)


@pytest.mark.parametrize("limit", [-1, 1.0, True, "2"])
def test_a_limit_that_is_no_number_of_tools_is_refused(limit):
    with pytest.raises(ConfigError, match="limit must be a whole number >= 0"):
        picker(TWO, [0.5, 0.5]).shortlist("x", limit)


@pytest.mark.parametrize("need", ["", "  ", None, "\ud800"])
def test_a_need_without_words_is_refused(need):
    with pytest.raises(ConfigError, match="text must"):
        picker(TWO, [0.5, 0.5]).resolve(need)


def test_tools_of_one_id_are_refused():
    with pytest.raises(ConfigError, match="ids of their own, got 'a/one' twice"):
        picker([tool("one"), tool("one")], [0.5, 0.5])


class Careless(GivenScorer):
    extra: Callable[[list[Hit]], list[Hit]]

    def rank(self, queries, k):
        return [[*hits, *self.extra(hits)] for hits in super().rank(queries, k)]


def test_a_scorer_that_ranks_unknown_tools_or_one_twice_is_refused():
    for extra, reason in [
        (lambda hits: hits[:1], "must rank each tool once"),
        (lambda hits: [Hit(tool("other"), 0.1)], "must rank tools of the catalogue"),
    ]:
        scorer = Careless([0.5, 0.25])
        scorer.extra = extra
        with pytest.raises(ShapeError, match=reason):
            Picker(TWO, scorer, BINARY).resolve("x")


def test_near_duplicates_are_pairs_of_entries_in_order_whatever_the_server():
    tools = [Tool("1", "r", "a"), Tool("2", "r", "b"), Tool("3", "r", "a")]
    one = picker(tools, [], rows=SAME)
    pairs = one.near_duplicates([("b", "r"), ("a", "r"), ("b", "r")])
    assert [(p.first.id, p.second.id, p.similarity) for p in pairs] == [
        ("1", "2", 1.0),
        ("1", "3", 1.0),
        ("2", "3", 1.0),
    ]
    assert len(one.near_duplicates([("a", "r")])) == 1


def test_the_first_identity_that_names_no_tool_is_told():
    with pytest.raises(SelectionError) as error:
        picker(TWO, []).near_duplicates([("a", "one"), ("x", "y"), ("z", "z")])
    assert error.value.missing == ("x", "y")


def test_get_gives_the_first_tool_of_an_identity():
    tools = [Tool("1", "r", "a", "first"), Tool("2", "r", "a", "second")]
    assert picker(tools, [0.5, 0.5]).get(("a", "r")).description == "first"
    assert picker(tools, [0.5, 0.5]).get(("a/r", "")) is None


WEATHER = Tool("1", "get_forecast", "weather", "Weather forecast for a city")
MAIL = Tool("2", "send_mail", "mail", "Send a mail to a person")


@pytest.mark.parametrize("make", [BM25Scorer, lambda: DenseScorer(Embedder(HashEncoder(64)))])
def test_a_rebuilt_picker_knows_the_new_tools_and_the_old_one_the_old(make):
    settings = PickerSettings(similarity_floor=0.1, margin=0.0, score_unit=2.0)
    old = Picker([WEATHER], make(), settings)
    new = old.rebuild([MAIL])
    assert bound(old.resolve("weather forecast")) == WEATHER
    assert bound(new.resolve("send a mail")) == MAIL
    assert new.settings == settings
    assert old.tools == (WEATHER,)


def test_a_scorer_that_is_made_anew_for_each_catalogue_needs_no_copy():
    class Once(GivenScorer):
        def __copy__(self):
            raise AssertionError

    old = Picker([TWO[0]], lambda: Once([0.875]), BINARY)
    assert bound(old.rebuild([TWO[1]]).resolve("x")) == TWO[1]


def test_a_scorer_whose_copies_may_share_a_corpus_is_not_copied():
    with pytest.raises(ConfigError, match=r"must be a call that makes one .* got scorer given"):
        picker(TWO, [0.5, 0.5]).rebuild(TWO[:1])


def test_other_settings_need_no_new_index():
    scorer = GivenScorer([0.625, 0.25])
    one = Picker(TWO, scorer, BINARY)
    strict = one.with_settings(BINARY.changed(similarity_floor=0.75))
    assert isinstance(one.resolve("x"), Bind)
    assert isinstance(strict.resolve("x"), Absent)


def test_without_rows_tools_are_compared_by_their_words():
    tools = [
        Tool("1", "mail", "a", "Send a mail"),
        Tool("2", "mail", "a", "Send a mail"),
        Tool("3", "search", "a", "Find text in files"),
    ]
    one = Picker(tools, BM25Scorer(), PickerSettings(similarity_floor=0.01))
    assert isinstance(one.resolve("mail"), Duplicate)
    assert isinstance(one.resolve("find text"), Bind)


def test_vectors_of_one_s_own_may_say_what_is_alike():
    embedder = Embedder(HashEncoder(32))
    tools = [Tool("1", "mail", "a", "Send a mail"), Tool("2", "mail", "a", "Send a mail")]
    settings = PickerSettings(similarity_floor=0.01)
    one = Picker(tools, BM25Scorer(), settings, similarity=by_embedding(embedder))
    assert isinstance(one.resolve("mail"), Duplicate)


def test_decisions_are_written_as_json():
    assert picker(TWO, [0.875, 0.25]).resolve("x").to_json() == {
        "outcome": "bind",
        "tools": [{"id": "a/one", "server": "a", "name": "one", "score": 0.875}],
    }
    absent = picker(TWO, [0.125, 0.0625]).resolve("x").to_json()
    assert (absent["outcome"], absent["tools"]) == ("absent", [])
    assert absent["nearest"]["name"] == "one"


def test_threads_may_share_a_picker():
    one = Picker([WEATHER, MAIL], BM25Scorer(), PickerSettings(similarity_floor=0.01))
    found = []
    threads = [
        threading.Thread(target=lambda n=need: found.append(bound(one.resolve(n)).id))
        for need in ["weather", "mail"] * 8
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == ["1"] * 8 + ["2"] * 8
