"""A small MCP server over streamable HTTP with sessions, as of 2025-11-25, that can misbehave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from tests.mcp_peer import entry


class HttpPeer:
    """What the server has seen, and how it is to answer."""

    def __init__(self) -> None:
        self.entries = [entry("echo"), entry("headers"), entry("hang")]
        self.sessions: set[str] = set()
        self.n_sessions = 0
        self.requests: list[tuple[dict[str, str], dict[str, Any]]] = []
        """Headers and message of each POST."""
        self.answer: Response | None = None
        """Given to every POST in place of what it asks for."""
        self._streams: list[asyncio.Queue[str]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        routes = [Route("/mcp", self._handle, methods=["GET", "POST", "DELETE"])]
        self.app = Starlette(routes=routes, lifespan=self._lifespan)

    def calls(self, tool: str) -> list[dict[str, str]]:
        """Headers of the calls of a tool."""
        return [
            headers
            for headers, message in self.requests
            if message.get("method") == "tools/call" and message["params"]["name"] == tool
        ]

    def tell_change(self) -> None:
        """Say to every open stream that the list is another; from any thread."""
        assert self._loop is not None
        line = '{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}'
        for stream in self._streams:
            self._loop.call_soon_threadsafe(stream.put_nowait, line)

    @property
    def n_streams(self) -> int:
        """Streams that are open."""
        return len(self._streams)

    @asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncIterator[None]:
        self._loop = asyncio.get_running_loop()
        yield

    async def _handle(self, request: Request) -> Response:
        session = request.headers.get("mcp-session-id")
        if request.method == "DELETE":
            self.sessions.discard(session or "")
            return Response()
        if request.method == "GET":
            return StreamingResponse(self._events(), media_type="text/event-stream")
        message = await request.json()
        self.requests.append((dict(request.headers), message))
        if self.answer is not None:
            return self.answer
        method, number = message.get("method"), message.get("id")
        if method == "initialize":
            self.n_sessions += 1
            session = f"session-{self.n_sessions}"
            self.sessions.add(session)
            result: dict[str, Any] = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "peer", "version": "1"},
            }
            cookie = {"mcp-session-id": session, "set-cookie": f"who={session}"}
            return _answer(number, cookie, result=result)
        if method == "server/discover":
            return _answer(number, error={"code": -32601, "message": "no such method"})
        if session not in self.sessions:
            return Response("Session not found", 404)
        if number is None:
            return Response(status_code=202)
        if method == "tools/list":
            return _answer(number, result={"tools": self.entries})
        return await self._called(request, number, message["params"])

    async def _called(self, request: Request, number: Any, params: dict[str, Any]) -> Response:
        if params["name"] == "hang":
            await asyncio.sleep(60)
        said = params.get("arguments") if params["name"] == "echo" else dict(request.headers)
        result = {"content": [{"type": "text", "text": json.dumps(said)}]}
        return _answer(number, result=result)

    async def _events(self) -> AsyncIterator[str]:
        stream: asyncio.Queue[str] = asyncio.Queue()
        self._streams.append(stream)
        try:
            yield ": here\n\n"
            while True:
                yield f"event: message\ndata: {await stream.get()}\n\n"
        finally:
            self._streams.remove(stream)


def _answer(number: Any, headers: dict[str, str] | None = None, **body: Any) -> Response:
    return JSONResponse({"jsonrpc": "2.0", "id": number, **body}, headers=headers)
