from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.catalogue import api_name, source_name, tool_id
from toolheads.errors import ConfigError

NAMES = st.text(st.sampled_from("ab_-/%2F é"), min_size=1, max_size=6)


def test_an_id_is_server_and_name():
    assert tool_id("time", "get_current_time") == "time/get_current_time"
    assert tool_id(None, "get_current_time") == "get_current_time"


def test_two_sources_never_make_one_id():
    assert tool_id("a", "b/c") == "a/b/c"
    assert tool_id("a/b", "c") == "a%2Fb/c"
    assert tool_id("a%2Fb", "c") == "a%252Fb/c"


@given(st.tuples(NAMES, NAMES), st.tuples(NAMES, NAMES))
def test_ids_are_injective(one, other):
    assert (tool_id(*one) == tool_id(*other)) == (one == other)


def test_a_plain_id_stays_readable():
    assert api_name("github/create_issue") == "github__create_issue"


@pytest.mark.parametrize(
    "hard", ["a/b__c", "a_/b", "time/get.now", "時計/今", "a/" + "b" * 64, "a b/c", ""]
)
def test_an_id_that_does_not_fit_gets_a_name_that_every_provider_takes(hard):
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", api_name(hard))
    assert re.search(r"___[a-z2-7]{20}$", api_name(hard))


def test_a_name_cannot_be_made_to_look_like_that_of_another_tool():
    forged = api_name("a/b__c").replace("__", "/")
    assert api_name(forged) != api_name("a/b__c")


@given(st.lists(st.text(st.sampled_from("ab_-/.é"), max_size=70), max_size=20, unique=True))
def test_names_for_providers_are_injective(ids):
    names = [api_name(one) for one in ids]
    assert len(set(names)) == len(ids)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)


@pytest.mark.parametrize("bad", ["", "  ", "a\nb", "a" * 129, "a\ud800", "\u2028"])
def test_a_source_needs_a_name_that_can_be_printed(bad):
    with pytest.raises(ConfigError, match="a source's name must be 1 to 128 printable"):
        source_name(bad)
