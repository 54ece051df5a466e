"""Runs the `Caller` contract against every adapter, and against callers broken on purpose."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests import mcp_peer
from tests.contract.caller import (
    CONTRACT,
    Setup,
    sentence_1_every_failure_is_an_outcome,
    sentence_2_a_call_is_sent_at_most_once,
    sentence_3_a_cancelled_call_leaves_the_backend_usable,
    sentence_4_headers_of_one_call_are_not_sent_with_another,
)
from tests.unit.calls.api_server import ApiServer

from toolheads.domain import Tool
from toolheads.errors import SourceError
from toolheads.sources.openapi.operation import Operation


def openapi_setup(stack: ExitStack, _folder: Path, wrap=lambda caller: caller) -> Setup:
    pytest.importorskip("httpx")
    from toolheads.calls.openapi import OpenApiCaller

    api = stack.enter_context(ApiServer())
    with ApiServer() as gone:
        sources = {
            "api": {"kind": "openapi", "spec": "x.json", "base_url": api.url},
            "gone": {"kind": "openapi", "spec": "x.json", "base_url": gone.url},
        }

    def tool(path: str, source: str = "api") -> Tool:
        extra = {"kind": "openapi", "http": Operation("GET", path).to_extra()}
        return Tool(f"{source}{path}", path, source, extra=extra)

    failing = [tool(path) for path in ("/status/500", "/redirect", "/broken")]
    return Setup(
        make=lambda: wrap(OpenApiCaller(sources)),
        good=tool("/cookie"),
        failing=(*failing, tool("/echo", "gone"), tool("/echo", "nobody")),
        hanging=tool("/hang"),
        n_received=lambda: len(api.seen),
        headers_received=lambda: api.seen[-1]["headers"],
    )


def mcp_setup(_stack: ExitStack, folder: Path) -> Setup:
    pytest.importorskip("mcp")
    from toolheads.calls.mcp import McpCaller
    from toolheads.sources.mcp.sessions import McpSessions

    log = folder / "calls.log"
    sources = {
        "peer": mcp_peer.command(log=str(log)),
        "gone": {"kind": "mcp", "command": str(folder / "no-such-command")},
    }

    def tool(name: str, source: str = "peer") -> Tool:
        return Tool(f"{source}/{name}", name, source, extra={"kind": "mcp"})

    return Setup(
        make=lambda: McpCaller(McpSessions(sources)),
        good=tool("echo"),
        failing=(tool("fail"), tool("nobody"), tool("crash"), tool("echo", "gone")),
        hanging=tool("hang"),
        n_received=lambda: len(log.read_text().splitlines()) if log.exists() else 0,
        headers_received=None,
    )


@pytest.mark.parametrize("setup", [openapi_setup, mcp_setup])
@pytest.mark.parametrize("sentence", CONTRACT)
def test_every_caller_keeps_every_sentence(setup, sentence, tmp_path):
    with ExitStack() as stack:
        sentence(setup(stack, tmp_path))


class Wrapped:
    """Passes everything on; each caller below spoils one thing."""

    def __init__(self, inner):
        self.inner = inner

    async def call(self, tool, arguments, *, timeout_s, headers=None):
        return await self.inner.call(tool, arguments, timeout_s=timeout_s, headers=headers)

    def use(self, sources):
        self.inner.use(sources)

    async def close(self):
        await self.inner.close()


class Raising(Wrapped):
    async def call(self, *args, **more):
        result = await super().call(*args, **more)
        if result.is_error:
            raise SourceError(result.error)
        return result


class Retrying(Wrapped):
    async def call(self, *args, **more):
        result = await super().call(*args, **more)
        return await super().call(*args, **more) if result.is_error else result


class Sticky(Wrapped):
    headers = None

    async def call(self, tool, arguments, *, timeout_s, headers=None):
        self.headers = headers or self.headers
        return await super().call(tool, arguments, timeout_s=timeout_s, headers=self.headers)


class Wedged(Wrapped):
    """Keeps its one place when a call is cancelled."""

    def __init__(self, inner):
        super().__init__(inner)
        self.places = asyncio.Semaphore(1)

    async def call(self, *args, **more):
        if self.places.locked():
            raise SourceError("no place is free")
        await self.places.acquire()
        result = await super().call(*args, **more)
        self.places.release()
        return result


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (Raising, sentence_1_every_failure_is_an_outcome),
        (Retrying, sentence_2_a_call_is_sent_at_most_once),
        (Wedged, sentence_3_a_cancelled_call_leaves_the_backend_usable),
        (Sticky, sentence_4_headers_of_one_call_are_not_sent_with_another),
    ],
)
def test_a_caller_that_breaks_a_sentence_is_caught(broken, sentence, tmp_path):
    with ExitStack() as stack, pytest.raises((AssertionError, SourceError)):
        sentence(openapi_setup(stack, tmp_path, broken))
