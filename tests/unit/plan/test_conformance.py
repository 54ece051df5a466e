"""Behaviour of other software, case by case, where the environment names a folder of cases.

Cases that are known to differ are listed in docs/compatibility.md, with what happens instead.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.unit.plan.catalogues import Script, tool

from toolheads.errors import ConfigError
from toolheads.plan import (
    COMPATIBLE_ESTIMATE,
    Format,
    TwoStage,
    advise,
    fit_to_budget,
    menu_line,
    okapi_scores,
    okapi_text,
    plan_catalogue,
    read_selection,
    retrieve,
)

FOLDER = os.environ.get("TOOLHEADS_CONFORMANCE", "")
pytestmark = pytest.mark.skipif(not FOLDER, reason="TOOLHEADS_CONFORMANCE names no folder")

SELECTIONS_THAT_DIFFER = {
    "get weather": "get_weather",
    "send_email, then get_weather": None,
    "weather_alerts or get_weather": None,
    "I cannot get that": None,
    "None of the tools fit; send_email is not suitable": None,
    "sometimes": None,
    "sendemail": "send_email",
    "GetWeather": "get_weather",
    "ReadFile": "read_file",
    "read file": "read_file",
    "None of read_file, list_dir fit": None,
    "list_dir read_file": None,
}
PLANS_THAT_DIFFER = {
    "over-budget-query-too-small": ("retrieve_then_menu", False),
    "context-small-budget-query": ("retrieve_then_menu", False),
}


def cases(name):
    if not FOLDER:
        return []
    whole = json.loads((Path(FOLDER) / f"{name}.json").read_text("utf-8"))
    return [(whole, case) for case in whole["cases"]]


def tools_of(listed):
    return [
        tool(
            name, description, [(p, said) for p, said, _ in ps], required=[p for p, _, r in ps if r]
        )
        for name, description, ps in listed
    ]


def conf_lines(name, item):
    required = item.input_schema.get("required", [])
    lines = [f"{name}: {item.description}"]
    for key, about in item.input_schema["properties"].items():
        lines.append(f"  {key}{'' if key in required else '?'}: {about.get('description', '')}")
    return "\n".join(lines)


def refused(call, case):
    """Whether a case that is to be refused is; the call's value else."""
    if "error" not in case:
        return call()
    with pytest.raises(ConfigError):
        call()
    return None


@pytest.mark.parametrize(("_", "case"), cases("token_estimate"))
def test_tokens_are_estimated_alike(_, case):
    assert COMPATIBLE_ESTIMATE(case["text"]) == case["tokens"]


@pytest.mark.parametrize(("_", "case"), cases("tool_text"))
def test_the_text_of_a_tool_is_the_same(_, case):
    (item,) = tools_of([[case["name"], case["description"], case["params"]]])
    assert okapi_text(item) == case["text"]


@pytest.mark.parametrize(("whole", "case"), cases("bm25_scores"))
def test_scores_are_the_same(whole, case):
    scores = okapi_scores(case.get("docs", whole["docs"]), case["query"])
    assert scores == pytest.approx(case["scores"], abs=1e-9)


@pytest.mark.parametrize(("whole", "case"), cases("bm25_retrieve"))
def test_the_same_tools_are_retrieved(whole, case):
    options = {key: case[key] for key in ("k", "keep") if key in case}
    tools = tools_of(whole["catalogs"][case["catalog"]])
    scorer = case.get("method", "okapi")
    found = refused(lambda: retrieve(tools, case["query"], scorer=scorer, **options), case)
    if found:
        assert [t.name for t in found.tools] == case["selected"]
        assert [t.name for t, _ in found.ranked] == [name for name, _ in case["ranked"]]
        scores = [score for _, score in found.ranked]
        assert scores == pytest.approx([score for _, score in case["ranked"]], abs=1e-9)


@pytest.mark.parametrize(("_", "case"), cases("catalogue_advice"))
def test_sizes_give_the_same_advice(_, case):
    limits = {name: case[name] for name in ("context_tokens", "budget_tokens")}
    advice = advise(case["n_tools"], case["schema_tokens"], **limits)
    rows = [[row.source, row.value] for row in advice.evidence]
    assert (advice.strategy, rows) == (case["strategy"], case["evidence"])


@pytest.mark.parametrize(("whole", "case"), cases("plan_catalogue"))
def test_the_plan_is_the_same(whole, case, record_property):
    listed = whole["office"]
    if case["n"] != "office":
        listed = [[f"tool_{i}", f"Tool number {i}.", [["x", "", True]]] for i in range(case["n"])]
    names = ("context_tokens", "budget_tokens", "query", "k", "format_id")
    options = {name: case[name] for name in names if name in case}
    options |= {"scorer": "okapi", "tokenizer": COMPATIBLE_ESTIMATE}
    plan = refused(lambda: plan_catalogue(tools_of(listed), **options), case)
    if plan is None:
        return
    assert plan.schema_tokens == case["schema_tokens"]
    if case["id"] in PLANS_THAT_DIFFER:
        record_property("differs", case["id"])
        assert (plan.strategy, plan.fits) == PLANS_THAT_DIFFER[case["id"]]
        return
    retrieved = plan.retrieval and [t.name for t in plan.retrieval.tools]
    found = (plan.strategy, plan.n_tools, plan.context_tokens, retrieved)
    assert found == (case["strategy"], case["n_tools"], case["context"], case["retrieved"])
    assert (plan.selection_messages is not None) == case["has_selection_prompt"]


@pytest.mark.parametrize(("_", "case"), cases("menu_line"))
def test_menu_lines_are_the_same_and_one_line_each(_, case, record_property):
    if "\n" in case["line"]:
        record_property("differs", case["description"])
    line = menu_line("t", case["description"])
    assert (line, menu_line("t")) == (" ".join(case["line"].split("\n")), case["names_only_line"])


@pytest.mark.parametrize(("_", "case"), cases("parse_selection"))
def test_replies_are_read_alike_or_better(_, case, record_property):
    if case["reply"] in SELECTIONS_THAT_DIFFER:
        record_property("differs", case["reply"])
    expected = SELECTIONS_THAT_DIFFER.get(case["reply"], case["expected"])
    assert read_selection(case["names"], case["reply"]).name == expected


@pytest.mark.parametrize(("whole", "case"), cases("two_stage"))
def test_two_stages_come_to_the_same(whole, case, record_property):
    if case["id"] in ("refusal-names-tool", "substring", "twin"):
        record_property("differs", case["id"])
    chat = Script(*case["replies"])
    result = TwoStage(tools_of(whole["office"])).run(case["request"], chat)
    if case["id"] in ("refusal-names-tool", "substring"):
        assert result.selection_failed
        return
    calls = result.calls and [[c.name, dict(c.arguments), c.is_valid] for c in result.calls]
    expected = case["parsed"]
    if case["id"] == "twin":  # it was not shown
        expected = [[name, arguments, False] for name, arguments, _ in expected]
    assert (result.selected and result.selected.name) == case["selected"]
    assert (list(calls) if calls is not None else None) == expected
    assert result.reply == case["reply"]
    options = [{"max_tokens": most, "temperature": t} for _, most, t in chat.asked]
    assert options == case["call_args"]


@pytest.mark.parametrize(("whole", "case"), cases("fit_to_budget"))
def test_the_same_is_left_out(whole, case, record_property):
    form = Format("conf_lines", conf_lines) if case["format"] == "conf_lines" else case["format"]
    tools = tools_of(whole["catalogs"][case["catalog"]])
    options = {"query": case.get("query"), "keep": case.get("keep", ()), "scorer": "okapi"}
    options["tokenizer"] = COMPATIBLE_ESTIMATE
    fit = refused(lambda: fit_to_budget(tools, form, case["budget"], **options), case)
    if fit is None:
        return
    assert (fit.fits, fit.tokens_before) == (case["fits"], case["tokens_before"])
    if case.get("query"):  # descriptions go first, and what is small comes back
        if fit.dropped:
            record_property("differs", f"{case['catalog']} within {case['budget']}")
        assert len(fit.kept) >= len(case["kept"])
        return
    dropped = [
        {
            "tool": item.tool_id,
            **({"param": item.parameter} if item.parameter else {}),
            "reason": item.kind,
            "tokens": item.tokens,
        }
        for item in fit.dropped
    ]
    assert (list(fit.kept), fit.tokens_after) == (case["kept"], case["tokens_after"])
    assert (dropped, len(fit.steps)) == (case["dropped"], case["n_steps"])
