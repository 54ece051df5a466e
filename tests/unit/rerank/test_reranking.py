import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.rerank.catalogues import GARDEN, made

from toolheads.domain import Tool
from toolheads.errors import ConfigError
from toolheads.rerank import Reranker, RerankSettings, rerank


def user(content):
    return {"role": "user", "content": content}


def test_by_default_every_tool_is_listed_as_it_is():
    chosen = rerank(GARDEN, "prune_tree")
    assert chosen.tools == tuple(GARDEN)
    assert (chosen.report.method, chosen.report.reason) == ("off", None)


def test_keyword_lists_the_tools_that_share_words_first():
    chosen = rerank(GARDEN, "cut the branches of the tree", "keyword", top_n=2)
    assert chosen.names[0] == "prune_tree"
    assert len(chosen.tools) == 2
    assert chosen.report.matched


def test_fifteen_tools_are_chosen_unless_told_otherwise():
    assert len(rerank(made(*[(f"t{i}", "") for i in range(20)]), "x", "keyword").tools) == 15


@pytest.mark.parametrize("top_n", [0, -3])
def test_without_room_only_named_and_pinned_tools_are_listed(top_n):
    chosen = rerank(GARDEN, "prune_tree", "keyword", top_n=top_n, pinned=["mow_lawn"])
    assert chosen.names == ("prune_tree", "mow_lawn")
    assert chosen.report.matched


def test_named_tools_come_first_then_pinned_ones_in_catalogue_order():
    chosen = rerank(
        GARDEN,
        "mow_lawn, then prune_tree",
        "keyword",
        top_n=1,
        pinned=["order_compost", "list_beds"],
    )
    assert chosen.names[:4] == ("mow_lawn", "prune_tree", "list_beds", "order_compost")
    assert len(chosen.names) == 5
    assert chosen.report.named == ("mow_lawn", "prune_tree")
    assert chosen.report.pinned == ("list_beds", "order_compost")


def test_a_tool_that_is_named_and_pinned_is_listed_once():
    chosen = rerank(GARDEN, "prune_tree", "keyword", top_n=0, pinned=["prune_tree", "mow_lawn"])
    assert chosen.names == ("prune_tree", "mow_lawn")


def test_a_pin_is_a_name_or_an_id_and_an_unknown_one_is_reported():
    tools = [Tool("a/run", "run", "a"), Tool("b/run", "run", "b"), Tool("b/stop", "stop", "b")]
    by_id = rerank(tools, "", "keyword", top_n=0, pinned=["b/run", "ghost", "b/run"])
    by_name = rerank(tools, "", "keyword", top_n=0, pinned=["run"])
    assert (by_id.ids, by_id.report.unknown_pins) == (("b/run",), ("ghost",))
    assert by_name.ids == ("a/run", "b/run")


def test_two_tools_of_one_name_are_two_tools():
    tools = [Tool("a/run", "run", "a"), Tool("b/run", "run", "b")]
    chosen = rerank(tools, "run", "keyword", settings=RerankSettings(mentions="none"))
    assert chosen.ids == ("a/run", "b/run")
    assert chosen.report.listed == ("a/run", "b/run")


def test_a_message_that_matches_nothing_says_so():
    chosen = rerank(GARDEN, "quantum chromodynamics", "keyword", top_n=3)
    assert not chosen.report.matched
    assert chosen.names == ("plant_seeds", "water_bed", "prune_tree")
    assert "nothing matched the message" in list(chosen.report.lines())


def test_a_follow_up_that_says_nothing_is_ranked_with_what_was_said_before():
    messages = [user("mow the lawn"), user("what about the compost"), user("yes, go on")]
    chosen = rerank(GARDEN, messages, "keyword", top_n=1)
    assert chosen.report.text == "yes, go on\nwhat about the compost"
    assert chosen.names == ("order_compost",)


def test_looking_back_can_be_switched_off_and_finds_no_more_than_there_is():
    messages = [user("mow the lawn"), user("yes, go on")]
    off = RerankSettings(method="keyword", lookback=0)
    assert rerank(GARDEN, messages, settings=off).report.text == "yes, go on"
    unknown = rerank(GARDEN, [user("xyz"), user("yes, go on")], "keyword")
    assert unknown.report.text == "yes, go on"


def test_a_report_is_json_and_says_what_happened():
    report = rerank(GARDEN, "prune_tree", "keyword", top_n=1, pinned=["mow_lawn", "ghost"]).report
    assert json.loads(json.dumps(report.to_json()))["listed"] == list(report.listed)
    assert list(report.lines()) == [
        "3 of 8 tools by keyword",
        "named: prune_tree",
        "pinned: mow_lawn",
        "unknown pins: ghost",
    ]


def test_no_tools_are_no_error():
    for method in ("off", "keyword", "llm", "heads"):
        assert rerank([], "x", method, pinned=["y"]).tools == ()


@given(st.text(), st.integers(-1, 10), st.sampled_from(["off", "keyword", "llm", "heads"]))
def test_any_message_gives_tools_of_the_catalogue_each_once(message, top_n, method):
    chosen = rerank(GARDEN, message, method, top_n=top_n)
    assert set(chosen.ids) <= {tool.id for tool in GARDEN}
    assert len(set(chosen.ids)) == len(chosen.ids)
    assert method == "off" or len(chosen.tools) <= max(top_n, 0) + len(chosen.report.named)


def test_one_reranker_answers_as_often_as_it_is_asked():
    reranker = Reranker(GARDEN, RerankSettings(method="keyword", top_n=1))
    assert reranker.rerank("lawn").names == ("mow_lawn",)
    assert reranker.rerank("compost", pinned=["list_beds"]).names == ("list_beds", "order_compost")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "keywords"}, "got 'keywords'; did you mean keyword?"),
        ({"mentions": "x"}, "mentions must be one of identifiers, words, none, got 'x'"),
        ({"top_n": 1.5}, "top_n must be a whole number, got 1.5"),
        ({"top_n": True}, "top_n must be a whole number, got True"),
        ({"lookback": "1"}, "lookback must be a whole number, got '1'"),
        ({"pinned": "list_beds"}, "pinned must be a list of names, got 'list_beds'"),
        ({"pinned": [1]}, "pinned must be a list of names"),
        ({"floor": float("nan")}, "floor must be None or finite, got nan"),
    ],
)
def test_settings_keep_their_rules(settings, message):
    with pytest.raises(ConfigError) as raised:
        RerankSettings(**settings)
    assert message in str(raised.value)
