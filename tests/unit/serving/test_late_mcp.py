"""The MCP SDK is loaded when something needs it, and not before."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import mcp_peer

from toolheads.catalogue import change, read_catalogue, tool_id
from toolheads.domain import Tool
from toolheads.serving import calls_of
from toolheads.serving.late_mcp import LateSessions

ROOT = Path(__file__).parents[3]

_SERVED = """
import sys
from tests.unit.serving.servers import served

def is_loaded():
    return "mcp.server" in sys.modules or "mcp_types" in sys.modules

with served() as server:
    assert server.post("/v1/search", {"query": "send a mail"}).status_code == 200
    assert server.get("/openapi.json").status_code == 200
    print(is_loaded())
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accept = "application/json, text/event-stream"
    for _ in range(2):
        said = server.post("/mcp", message, Accept=accept)
        assert "search_tools" in said.text, said.text
    print(is_loaded())
"""


def test_a_server_that_is_asked_over_rest_alone_never_loads_the_sdk():
    done = subprocess.run(
        [sys.executable, "-c", _SERVED], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.stdout.split() == ["False", "True"], done.stderr


def test_the_command_that_serves_loads_no_sdk():
    code = (
        "import sys\nfrom toolheads.entrypoints.cli import serve\nfrom toolheads import serving\n"
        "print(any(m.partition('.')[0] in ('mcp', 'mcp_types') for m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


async def until(is_so, patience_s=20.0):
    async with asyncio.timeout(patience_s):
        while not is_so():
            await asyncio.sleep(0.05)


def test_a_server_that_joins_the_catalogue_later_is_called_and_followed(tmp_path):
    echo, more = mcp_peer.entry("echo"), mcp_peer.entry("more")
    (tmp_path / "tools.jsonl").write_text("")

    async def joined():
        calls, companions = calls_of(tmp_path)
        running = [asyncio.ensure_future(companion()) for companion in companions]
        tool = Tool(
            tool_id("peer", "echo"), "echo", "peer", "", {"type": "object"}, {"kind": "mcp"}
        )
        change(tmp_path, "peer", [tool], source=mcp_peer.command(pages=[[echo, more]]))
        await until(lambda: len(read_catalogue(tmp_path).tools) == 2)
        results = await asyncio.gather(*(calls.call(tool, {"n": n}) for n in range(3)))
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await calls.close()
        return [result.outcome for result in results]

    assert asyncio.run(joined()) == ["ok"] * 3


def test_clients_are_told_if_the_sdk_cannot_be_loaded_and_the_server_ends_well():
    def fail():
        raise ImportError("no such library")

    unused: Any = None

    async def asked_twice():
        sessions = LateSessions(fail)
        async with sessions.run():
            for _ in range(2):
                with pytest.raises(ImportError, match="no such library"):
                    await sessions.handle_request({}, unused, unused)

    asyncio.run(asked_twice())


def test_a_server_that_no_mcp_client_asks_ends_without_making_sessions():
    async def unasked():
        async with LateSessions(lambda: pytest.fail("made")).run():
            pass

    asyncio.run(asyncio.wait_for(unasked(), 5))
