from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("mcp", reason="needs the extra [mcp]")

from tests.mcp_peer import command, entry

from toolheads.errors import ConfigError, SourceError
from toolheads.sources.mcp import McpSettings, list_server, list_servers

QUICK_START, QUICK_LIST = McpSettings(start_timeout_s=0.5), McpSettings(list_timeout_s=0.5)


def listed(*, settings=None, **behaviour):
    return asyncio.run(list_server("peer", command(**behaviour), settings=settings))


def names(listing):
    return [tool.name for tool in listing.tools]


def test_all_pages_of_a_list_are_read():
    pages = [[entry("a"), entry("b")], [], [entry("c")]]
    assert names(listed(pages=pages)) == ["a", "b", "c"]


def test_a_list_without_an_end_ends():
    listing = listed(pages=[[entry("a")]], loop=True)
    assert names(listing) == ["a"]
    assert "nextCursor must be new on each page" in str(listing.dropped[0])


def test_junk_is_left_out_with_a_reason_and_the_rest_is_kept():
    junk = [entry("a"), 5, {"name": 5}, entry("a"), entry("b", inputSchema="x"), entry("c")]
    listing = listed(pages=[junk], long=300_000)
    assert names(listing) == ["a", "c"]
    assert [str(fault).split(":")[0] for fault in listing.dropped] == ["peer"] * 5


def test_odd_line_breaks_and_lone_surrogates_cost_no_tool():
    pages = [[entry("a", description="one\u2028two\u0085"), entry("b", description="x\ud800y")]]
    first, second = listed(pages=pages).tools
    assert first.description == "one\u2028two\u0085"
    assert second.description == "x\ufffdy"


def test_a_server_that_fails_at_its_start_shows_what_it_wrote_last():
    with pytest.raises(
        SourceError,
        match=r"must start, got: its end; it last wrote: begin \| .*no TOKEN \| bye$",
    ):
        listed(stderr="begin\n" * 9 + "no TOKEN\n\x1b bye\n", exit=3)


@pytest.mark.parametrize(
    ("hang", "rule", "settings"),
    [("start", "start", QUICK_START), ("list", "list its tools", QUICK_LIST)],
)
def test_a_server_that_hangs_is_given_up_in_time(hang, rule, settings):
    with pytest.raises(SourceError, match=f"must {rule} within 0.5 s, got no answer"):
        listed(hang=hang, settings=settings)


def test_a_server_that_ends_at_a_message_before_the_handshake_is_started_again():
    assert names(listed(strict=True))[0] == "echo"


def test_a_command_that_is_not_there_is_one_clear_error():
    source = {"kind": "mcp", "command": "/no/such"}
    with pytest.raises(SourceError, match="must start, got: No such file or directory"):
        asyncio.run(list_server("peer", source))


def test_an_answer_that_is_no_message_is_shown():
    with pytest.raises(SourceError, match="it sent what is no message: 'hello'"):
        listed(raw="hello", settings=QUICK_LIST)


def test_an_error_instead_of_a_list_is_shown():
    raw = '{"jsonrpc": "2.0", "id": {id}, "error": {"code": -32603, "message": "no database"}}'
    with pytest.raises(SourceError, match="must list its tools, got: no database"):
        listed(raw=raw)


def test_variables_are_put_in_when_the_server_is_started(monkeypatch):
    monkeypatch.setenv("PEER_TOOL", "from_the_environment")
    source = command(pages=[[entry("${PEER_TOOL}")]])
    listing = asyncio.run(list_server("peer", source))
    assert names(listing) == ["from_the_environment"]


def test_a_variable_that_is_not_set_is_named():
    source = command() | {"env": {"A": "${NO_SUCH_VARIABLE}"}}
    with pytest.raises(ConfigError, match="NO_SUCH_VARIABLE must be set in the environment for"):
        asyncio.run(list_server("peer", source))


def test_one_server_that_fails_costs_no_other():
    sources = {"bad": command(exit=1), "good": command(), "odd": {"kind": "mcp", "url": "ftp://x"}}
    answers = asyncio.run(list_servers(sources))
    assert list(answers) == ["bad", "good", "odd"]
    assert isinstance(answers["bad"], SourceError)
    assert names(answers["good"])[0] == "echo"
    assert "must begin with http:// or https://" in str(answers["odd"])
