"""Limits of a server that make no sense are refused."""

from __future__ import annotations

import pytest

from toolheads.errors import ConfigError
from toolheads.serving import ServeSettings


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("max_k", 0, "> 0"),
        ("deadline_s", float("nan"), "> 0"),
        ("call_timeout_s", float("inf"), "> 0"),
        ("rate_per_minute", -1.0, ">= 0"),
        ("search_workers", -2, "> 0"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(name, value, rule):
    said = rf"serve\.{name} must be {rule} and finite, got {value}"
    with pytest.raises(ConfigError, match=said):
        ServeSettings(**{name: value})


def test_the_burst_is_a_tenth_of_the_rate_unless_it_is_given():
    assert ServeSettings(rate_per_minute=600).burst == 60
    assert ServeSettings(rate_per_minute=3).burst == 1
    assert ServeSettings(rate_per_minute=3, rate_burst=7).burst == 7


@pytest.mark.parametrize("offered", [(), ("find",), ("search", "search"), ("search", "")])
def test_what_mcp_clients_are_offered_must_be_known_and_named_once(offered):
    with pytest.raises(ConfigError, match=r"mcp_tools must be of search, call, resolve"):
        ServeSettings(mcp_tools=offered)
