from __future__ import annotations

import asyncio
import json

import pytest

pytest.importorskip("mcp", reason="needs the extra [mcp]")

from tests.mcp_peer import command

from toolheads.calls.mcp import McpCaller
from toolheads.domain import Tool
from toolheads.sources.mcp import McpSessions


def called(name, arguments=None, *, timeout_s=30.0, server="peer", source=None):
    async def scenario():
        caller = McpCaller(McpSessions({"peer": source or command()}))
        try:
            tool = Tool(f"{server}/{name}", name, server, extra={"kind": "mcp"})
            return await caller.call(tool, arguments or {}, timeout_s=timeout_s)
        finally:
            await caller.close()

    return asyncio.run(scenario())


def test_an_answer_comes_back_as_the_server_gave_it():
    result = called("echo", {"a": [1, "x"]})
    assert result.outcome == "ok"
    assert result.content == ({"type": "text", "text": '{"a": [1, "x"]}'},)
    assert result.structured == {"a": [1, "x"]}
    assert result.error is None
    assert result.took_ms > 0
    json.dumps(result.content)


def test_a_tool_that_says_it_failed_is_an_error_of_the_tool():
    result = called("fail")
    assert (result.outcome, result.error) == ("tool_error", "no such city")
    assert result.content == ({"type": "text", "text": "no such city"},)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("crash", "it last wrote: out of memory"),
        ("none", "Unknown tool: none"),
    ],
)
def test_what_the_server_does_wrong_is_an_error_of_the_protocol(name, error):
    result = called(name)
    assert result.outcome == "protocol_error"
    assert error in result.error


def test_a_server_that_is_not_there_is_an_error_of_the_protocol():
    assert called("echo", source=command(exit=1, stderr="no key")).outcome == "protocol_error"
    assert "must be one of 'peer'" in called("echo", server="other").error


def test_a_variable_that_is_not_set_is_an_error_that_names_it():
    result = called("echo", source=command() | {"env": {"A": "${NO_SUCH_VARIABLE}"}})
    assert result.outcome == "protocol_error"
    assert "NO_SUCH_VARIABLE must be set" in result.error


def test_a_call_that_takes_too_long_ends_in_time():
    result = called("hang", timeout_s=1.5)
    assert result.outcome == "timeout"
    assert "within 1.5 s" in result.error


def test_other_sources_are_taken_over():
    async def scenario():
        caller = McpCaller(McpSessions({}))
        tool = Tool("peer/echo", "echo", "peer")
        before = await caller.call(tool, {}, timeout_s=30)
        caller.use({"peer": command(), "api": {"kind": "openapi", "spec": "x"}})
        after = await caller.call(tool, {}, timeout_s=30)
        await caller.close()
        return before.outcome, after.outcome

    assert asyncio.run(scenario()) == ("protocol_error", "ok")
