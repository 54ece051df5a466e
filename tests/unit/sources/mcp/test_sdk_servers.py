"""Servers built with the SDK: the second era of the protocol, over stdio and HTTP."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="needs the extra [mcp]")
pytest.importorskip("uvicorn", reason="needs uvicorn")

from tests.in_thread import served
from tests.sdk_peer import sdk_server

from toolheads.sources.mcp import McpSessions

ROOT = Path(__file__).parents[4]
STDIO = {
    "kind": "mcp",
    "command": sys.executable,
    "args": ["-m", "tests.sdk_peer"],
    "cwd": str(ROOT),
}


@pytest.fixture(params=["stdio", "http"])
def source(request):
    if request.param == "stdio":
        yield STDIO
        return
    with served(sdk_server().streamable_http_app()) as url:
        yield {"kind": "mcp", "url": f"{url}/mcp"}


@asynccontextmanager
async def sessions_of(source):
    sessions = McpSessions({"sdk": source})
    try:
        yield sessions
    finally:
        await sessions.close()


def test_tools_are_listed_called_and_followed(source):
    async def scenario():
        async with sessions_of(source) as sessions:
            told: asyncio.Queue[str] = asyncio.Queue()
            sessions.on_list_changed = told.put_nowait
            first, second = (await sessions.list("sdk")).tools
            assert (first.id, first.description) == ("sdk/total", "Add numbers up.")
            assert first.input_schema["required"] == ["numbers"]
            assert first.extra["output_schema"]["type"] == "object"
            answer = await sessions.call("sdk", "total", {"numbers": [1, 2.5]})
            assert answer.structured_content == {"result": 3.5}
            answer = await sessions.call("sdk", "total", {"numbers": "x"})
            assert answer.is_error
            await asyncio.sleep(0.2)  # until the server has the subscription
            await sessions.call("sdk", second.name, {"name": "sing"})
            assert await asyncio.wait_for(told.get(), 20) == "sdk"
            names = [tool.name for tool in (await sessions.list("sdk")).tools]
            assert names == ["total", "learn", "sing"]
            assert (await sessions.call("sdk", "sing", {})).content[0].text == "sing"

    asyncio.run(scenario())
