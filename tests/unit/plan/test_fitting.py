from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.plan.catalogues import LIBRARY, numbered, tool

from toolheads.errors import ConfigError
from toolheads.plan import ESTIMATE, fit_to_budget, render

FORM = "json_schema_openai"


def size(tools, count=ESTIMATE):
    return count(render(tools, FORM)) if tools else 0


def properties_of(item):
    return item.input_schema["properties"]


WHOLE = size(LIBRARY)


def test_what_fits_is_left_as_it_is():
    fit = fit_to_budget(LIBRARY, FORM, WHOLE)
    assert (fit.fits, fit.tools, fit.dropped) == (True, tuple(LIBRARY), ())
    assert len(fit.steps) == 2


def test_the_longest_optional_description_goes_first():
    fit = fit_to_budget(LIBRARY, FORM, WHOLE - 1)
    (item,) = fit.dropped
    assert (item.tool_id, item.parameter, item.kind) == ("borrow_book", "days", "description")
    assert item.tokens == WHOLE - fit.tokens_after
    properties = properties_of(fit.tools[0])
    assert "description" not in properties["days"]
    assert "description" in properties["isbn"]  # required


def test_the_tools_that_were_given_stay_as_they_are():
    fit_to_budget(LIBRARY, FORM, 1)
    assert size(LIBRARY) == WHOLE


def test_then_tools_go_from_the_end():
    fit = fit_to_budget(LIBRARY, FORM, WHOLE // 2)
    assert fit.fits
    assert list(fit.kept) == [t.id for t in LIBRARY[: len(fit.kept)]]
    kinds = [item.kind for item in fit.dropped]
    assert kinds == sorted(kinds)  # descriptions before the tail
    assert fit.tokens_after == WHOLE - sum(item.tokens for item in fit.dropped)


def test_with_a_query_descriptions_go_before_any_tool():
    fit = fit_to_budget(LIBRARY, FORM, WHOLE - 1, query="borrow")
    assert len(fit.kept) == len(LIBRARY)
    assert fit.dropped[0].parameter == "reader"  # of the tool that is needed least and has one


def test_with_a_query_the_tools_it_needs_least_go_first():
    fit = fit_to_budget(LIBRARY, FORM, 150, query="pay a fine")
    assert fit.fits
    assert "pay_fine" in fit.kept
    assert fit.dropped[-1].kind == "rank"


def test_what_still_fits_comes_back():
    """`ping` goes first, as it ranks last; once a large tool has gone too there is room for it."""
    tools = [
        tool("fine", "Pay a fine"),
        tool("large", "Pay " + "many words " * 60),
        tool("ping"),
    ]
    budget = size([tools[0], tools[2]])
    fit = fit_to_budget(tools, FORM, budget, query="pay a fine")
    assert fit.kept == ("fine", "ping")
    assert [item.tool_id for item in fit.dropped] == ["large"]
    assert any(step.startswith("brought back 1 smaller tools") for step in fit.steps)


def test_descriptions_come_back_to_the_tools_that_are_needed_most():
    tools = [
        tool("fine", "Pay a fine", [("reader", "Who pays it, by the number of the card")]),
        tool("large", "Lend " + "many words " * 60),
    ]
    fit = fit_to_budget(tools, FORM, size(tools[:1]), query="pay a fine")
    assert fit.tools == (tools[0],)
    assert [item.tool_id for item in fit.dropped] == ["large"]


def test_a_query_that_matches_nothing_says_so():
    fit = fit_to_budget(LIBRARY, FORM, 150, query="明天的天气")
    assert "from the end of the list, since nothing matches the query" in fit.steps[2]


def test_kept_tools_stay_and_are_trimmed():
    fit = fit_to_budget(LIBRARY, FORM, 1, keep=["PayFine", "ping"], query="book")
    assert fit.kept == ("pay_fine", "ping")
    assert "description" not in properties_of(fit.tools[0])["reader"]
    assert not fit.fits
    assert "over the budget of 1" in fit.steps[-1]


def test_the_last_tool_stays():
    fit = fit_to_budget(LIBRARY, FORM, 1)
    assert (fit.kept, fit.fits) == (("borrow_book",), False)


def test_a_format_without_parameters_trims_none():
    fit = fit_to_budget(LIBRARY, "names", ESTIMATE(render(LIBRARY, "names")) - 1)
    assert {item.kind for item in fit.dropped} == {"tail"}


def test_no_tools_fit():
    fit = fit_to_budget([], FORM, 1)
    assert (fit.fits, fit.tokens_before, fit.tokens_after, len(fit.steps)) == (True, 0, 0, 2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"budget_tokens": 0}, "budget_tokens must be a whole number >= 1, got 0"),
        ({"keep": ["ghost"]}, "keep must name one tool of the catalogue each, got 'ghost'"),
        ({"format_id": "nope"}, "format_id must be one of"),
        ({"scorer": "nope", "query": "x"}, "scorer must be one of"),
    ],
)
def test_what_breaks_a_rule_is_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        fit_to_budget(**{"tools": LIBRARY, "format_id": FORM, "budget_tokens": 9} | options)


def test_a_fit_is_json():
    whole = json.loads(json.dumps(fit_to_budget(LIBRARY, FORM, 200, query="book").to_json()))
    assert whole["fits"]
    assert set(whole["dropped"][0]) == {"tool_id", "kind", "reason", "tokens", "parameter"}


def by_threes(text):
    """A tokenizer whose tokens reach over the borders of tools, as a byte-pair encoding's may."""
    return (len(text) + 2) // 3


QUERIES = st.sampled_from([None, "pay a fine", "book", "zebra"])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, WHOLE + 50), QUERIES, st.sets(st.sampled_from([t.id for t in LIBRARY])))
@pytest.mark.parametrize("count", [ESTIMATE, by_threes], ids=["estimate", "tokenizer"])
def test_a_fit_keeps_its_word(count, budget, query, keep):
    fit = fit_to_budget(LIBRARY, FORM, budget, query=query, keep=sorted(keep), tokenizer=count)
    assert fit.tokens_after == size(fit.tools, count)
    assert fit.fits == (fit.tokens_after <= budget)
    assert keep <= set(fit.kept)
    assert fit.tools
    gone = {item.tool_id for item in fit.dropped if item.parameter is None}
    assert gone | set(fit.kept) == {t.id for t in LIBRARY}
    assert not gone & set(fit.kept)
    if not fit.fits:  # nothing more could go
        assert set(fit.kept) == (keep or set(fit.kept))
        assert len(fit.kept) == max(1, len(keep))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, WHOLE), st.sampled_from(["pay a fine", "book", "borrow"]))
def test_with_a_query_no_tool_is_out_that_would_fit(budget, query):
    fit = fit_to_budget(LIBRARY, FORM, budget, query=query)
    trimmed = {item.tool_id: item for item in fit.dropped if item.parameter}
    for item in fit.dropped:
        if item.parameter is None and fit.fits and item.tool_id not in trimmed:
            back = [t for t in LIBRARY if t.id == item.tool_id]
            assert size([*fit.tools, *back]) > budget


def test_thousands_of_tools_are_made_to_fit_in_a_moment():
    """Each step writes one tool again, and not all of them."""
    tools = numbered(3000, "Does thing number {i}. " + "word " * 30)
    fit = fit_to_budget(tools, FORM, 2000, query="thing number 7")
    assert fit.fits
    assert "thing_7" in fit.kept
