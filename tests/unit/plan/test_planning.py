from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.plan.catalogues import LIBRARY, Script, numbered, tool

from toolheads.domain import Tool
from toolheads.errors import ConfigError
from toolheads.plan import ESTIMATE, PlanSettings, plan_catalogue, render

LARGE = [
    Tool(
        f"s{i % 50}/thing_{i}",
        f"thing_{i}",
        f"s{i % 50}",
        f"Does thing number {i} for a shop, with all that belongs to it and more.",
        {"type": "object", "properties": {"order": {"type": "string", "description": "Which"}}},
    )
    for i in range(5000)
]


def planned(tools, **options):
    return plan_catalogue(tools, **options)


def test_a_few_tools_are_shown_at_once_whatever_is_asked():
    plan = planned(LIBRARY, query="pay")
    assert (plan.strategy, plan.retrieval, plan.menu) == ("one_shot", None, None)
    assert plan.prompt_tokens == plan.schema_tokens == ESTIMATE(render(LIBRARY, "xml_schema"))


def test_more_tools_are_retrieved():
    plan = planned(numbered(40), query="thing number 7", k=3)
    assert plan.strategy == "retrieve"
    assert plan.retrieval.tools[0].name == "thing_7"
    assert plan.prompt_tokens == ESTIMATE(render(plan.retrieval.tools, "xml_schema"))


def test_without_a_query_it_is_said_what_the_largest_tools_would_take():
    tools = [*numbered(40), tool("large", "word " * 200)]
    plan = planned(tools, k=1)
    assert (plan.strategy, plan.retrieval) == ("retrieve", None)
    assert plan.prompt_tokens == ESTIMATE(render(tools[-1:], "xml_schema"))


def test_many_tools_get_a_menu_that_is_measured():
    plan = planned(numbered(70), query="thing number 7", context_tokens=8000)
    assert plan.strategy == "two_stage"
    assert (plan.menu_size, len(plan.menu.menu.splitlines())) == (70, 70)
    assert plan.menu_tokens == ESTIMATE(plan.selection_messages[0]["content"])
    assert plan.fits
    assert plan.prompt_tokens >= plan.menu_tokens


def test_what_nothing_matches_is_not_retrieved():
    plan = planned(numbered(40), query="明天的天气")
    assert (plan.strategy, plan.retrieval, plan.menu_size) == ("two_stage", None, 40)
    assert plan.reason.endswith(
        "nothing matches the query, so that no tools can be retrieved for it"
    )


def test_a_large_catalogue_within_a_budget_is_retrieved_if_the_best_fit():
    plan = planned(numbered(70), query="thing number 7", budget_tokens=500, k=3)
    assert plan.strategy == "retrieve"
    assert "the best 3 take" in plan.reason
    assert [row.value for row in plan.evidence][:2] == [12.70, 31.19]  # of the strategy it is


def test_what_fits_the_budget_must_fit_the_context_too():
    plan = planned(numbered(70), query="thing 7", budget_tokens=1000, context_tokens=100)
    assert plan.strategy == "retrieve_then_menu"
    assert not plan.fits
    assert "more than 50% of the context of 100" in plan.reason


@pytest.mark.parametrize("query", ["number 4321 for a shop", None, "明天的天气"])
def test_five_thousand_tools_fit_a_context_of_32k(query):
    """A menu of them all takes four times the context."""
    plan = planned(LARGE, context_tokens=32_768, query=query)
    assert plan.strategy == "retrieve_then_menu"
    assert plan.fits
    assert plan.prompt_tokens <= 32_768 / 2
    assert plan.menu_size == 64
    if query:
        assert ESTIMATE(plan.selection_messages[0]["content"]) == plan.menu_tokens
    if query and query.isascii():
        assert plan.retrieval.tools[0].name == "thing_4321"
        assert "thing_4321" in plan.menu.names or "s21__thing_4321" in plan.menu.names


def test_the_menu_that_is_retrieved_runs_both_stages():
    plan = planned(LARGE, context_tokens=32_768, query="thing_4321")
    (name,) = [name for name, item in plan.menu.names.items() if item.name == "thing_4321"]
    result = plan.menu.run("thing_4321", Script(name, f'{{"name": "{name}", "arguments": {{}}}}'))
    assert (result.selected.name, result.calls[0].is_valid) == ("thing_4321", True)


def test_a_retrieved_menu_has_as_many_lines_as_fit():
    settings_ = PlanSettings(menu_tools=1000)
    plan = planned(LARGE, context_tokens=4000, query="shop", settings=settings_)
    assert plan.fits
    assert 10 < plan.menu_size < 1000
    assert len(plan.retrieval.tools) == plan.menu_size
    assert plan.menu_tokens <= 2000 < plan.menu_tokens + 60  # one more line is too many


def test_a_menu_without_a_query_fits_whichever_tools_are_in_it():
    tools = [*numbered(100), *(tool(f"long_{i}", "word " * 60) for i in range(20))]
    plan = planned(tools, budget_tokens=400)
    assert plan.strategy == "retrieve_then_menu"
    assert plan.fits
    assert plan.menu_size < 10  # of the long ones, though many more of the others would fit


def test_a_definition_that_does_not_fit_is_told():
    tools = [*numbered(70), tool("large", "word " * 2000)]
    plan = planned(tools, budget_tokens=2000)
    assert not plan.fits
    assert plan.reason.endswith(" 2,554, more than the budget of 2,000")


def test_kept_tools_are_retrieved_in_any_case():
    plan = planned(numbered(40), query="number 7", k=2, keep=["thing_9"])
    assert "thing_9" in [t.name for t in plan.retrieval.tools]


def test_kept_tools_are_in_a_menu_that_is_cut():
    plan = planned(LARGE, context_tokens=1000, query="a shop", keep=["thing_4000"])
    assert plan.strategy == "retrieve_then_menu"
    assert plan.menu_size < 40  # of 64 that were retrieved
    assert next(iter(plan.menu.names.values())).name == "thing_4000"


def test_a_kept_tool_that_is_not_there_is_refused_whatever_the_plan():
    with pytest.raises(ConfigError, match="keep must name one tool of the catalogue each"):
        planned(LIBRARY, keep=["ghost"])


def test_a_blank_query_is_none():
    plan = planned(numbered(40), query="  ")
    assert (plan.strategy, plan.retrieval) == ("retrieve", None)


def test_k_is_looked_at_only_when_tools_are_retrieved():
    assert planned(LIBRARY, k=0).strategy == "one_shot"
    with pytest.raises(ConfigError, match="k must be a whole number >= 1, got 0"):
        planned(numbered(40), k=0, query="x")
    with pytest.raises(ConfigError, match="k must be a whole number >= 1, got 0"):
        planned(numbered(40), k=0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tools": []}, "tools must hold at least one tool, got none"),
        ({"format_id": "nope"}, "format_id must be one of json_schema_openai"),
        ({"format_id": "names_descriptions"}, "format_id must be one of json_schema_openai"),
        ({"budget_tokens": -1}, "budget_tokens must be a whole number >= 0, got -1"),
        ({"context_tokens": 1.5}, r"context_tokens must be a whole number >= 0, got 1\.5"),
        ({"tools": [LIBRARY[0], LIBRARY[0]]}, "got 'borrow_book' twice"),
    ],
)
def test_what_breaks_a_rule_is_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        planned(**{"tools": LIBRARY} | options)


def test_a_plan_is_json():
    plan = planned(LARGE[:100], context_tokens=1000, query="thing_7")
    whole = json.loads(json.dumps(plan.to_json()))
    assert whole["strategy"] == "retrieve_then_menu"
    assert whole["retrieval"]["selected"][0] == "s7/thing_7"
    assert whole["selection_messages"][0]["role"] == "system"


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 90),
    st.none() | st.integers(0, 9000),
    st.none() | st.integers(0, 5000),
    st.sampled_from([None, "thing number 3", "zebra"]),
)
def test_a_plan_that_says_it_fits_does(n, context, budget, query):
    plan = planned(numbered(n), context_tokens=context, budget_tokens=budget, query=query)
    limits = [*([context / 2] if context else []), *([budget] if budget else [])]
    assert plan.fits == all(plan.prompt_tokens <= limit for limit in limits)
    if plan.selection_messages:
        assert ESTIMATE(plan.selection_messages[0]["content"]) <= plan.prompt_tokens
    if plan.strategy == "retrieve" and plan.retrieval:
        assert ESTIMATE(render(plan.retrieval.tools, "xml_schema")) == plan.prompt_tokens
