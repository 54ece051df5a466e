"""What needs the MCP SDK, made when it is needed: to load it takes longer than all the rest.

A server of OpenAPI tools whose clients use REST never loads it. Loading runs in a thread, so that
searches go on meanwhile; who asks first waits for it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from starlette.types import Receive, Scope, Send

from toolheads.calls import CallResult
from toolheads.calls.mcp import McpCaller
from toolheads.catalogue import Source
from toolheads.domain import Tool

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from toolheads.sources.mcp import McpSessions

_LOOK_S = 1.0


class LateMcpCaller:
    """Calls tools of MCP servers, and follows their lists. See `toolheads.calls.caller.Caller`.

    Used from one event loop.

    Args:
        sources: Entries of `sources.json`; those of other kinds are left alone.
    """

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._sources = sources
        self._sessions: McpSessions | None = None
        self._caller: McpCaller | None = None

    async def call(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> CallResult:
        """Call a tool; see `toolheads.calls.caller.Caller`."""
        _, caller = await self._made()
        return await caller.call(tool, arguments, timeout_s=timeout_s, headers=headers)

    def use(self, sources: Mapping[str, Source]) -> None:
        """Take over other sources; see `toolheads.calls.caller.Caller`."""
        self._sources = sources
        if self._caller is not None:
            self._caller.use(sources)

    async def follow(self, folder: str | os.PathLike[str]) -> None:
        """Write the tools of each server to a catalogue as its list changes, until cancelled."""
        while not any(source["kind"] == "mcp" for source in self._sources.values()):
            await asyncio.sleep(_LOOK_S)
        sessions, _ = await self._made()
        from toolheads.sources.mcp import ListFollower

        await ListFollower(folder, sessions).run()

    async def close(self) -> None:
        """End the sessions; see `toolheads.calls.caller.Caller`."""
        if self._caller is not None:
            await self._caller.close()

    async def _made(self) -> tuple[McpSessions, McpCaller]:
        if self._sessions is None or self._caller is None:
            sessions_of = await asyncio.to_thread(_load_sessions)
            if self._sessions is None or self._caller is None:  # nobody else was quicker
                self._sessions = sessions_of(self._sources)
                self._caller = McpCaller(self._sessions)
        return self._sessions, self._caller


class LateSessions:
    """The sessions of MCP clients over HTTP, made when the first of them asks.

    Args:
        make: Makes them, in a thread.
    """

    def __init__(self, make: Callable[[], StreamableHTTPSessionManager]) -> None:
        self._make = make
        self._is_asked, self._is_over = asyncio.Event(), asyncio.Event()
        self._made: asyncio.Future[StreamableHTTPSessionManager] | None = None

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Answer until the block ends."""
        self._made = asyncio.get_running_loop().create_future()
        # A task of its own: what keeps sessions must be left in the task that it was entered in.
        keeper = asyncio.create_task(self._keep(self._made))
        try:
            yield
        finally:
            self._is_over.set()
            self._is_asked.set()
            await keeper

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request, while `run` runs."""
        if self._made is None:
            raise RuntimeError("sessions must run to take a request")
        self._is_asked.set()
        manager = await asyncio.shield(self._made)
        await manager.handle_request(scope, receive, send)

    async def _keep(self, made: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        await self._is_asked.wait()
        if self._is_over.is_set():
            return
        try:
            manager = await asyncio.to_thread(self._make)
        except Exception as e:  # whoever asks is told, now and later
            made.set_exception(e)
            return
        async with manager.run():
            made.set_result(manager)
            await self._is_over.wait()


def _load_sessions() -> type[McpSessions]:
    from toolheads.sources.mcp import McpSessions

    return McpSessions
