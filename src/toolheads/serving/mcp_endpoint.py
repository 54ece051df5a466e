"""MCP over streamable HTTP, without sessions that a server would have to keep.

Every request is answered by itself, with plain JSON, so that any replica can answer any of them.
A client of the handshake protocol is given a session id all the same: it sends it back, which is
how its calls are linked to its searches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from toolheads.serving.access import Asker
from toolheads.serving.api_error import ApiError
from toolheads.serving.guard.bodies import JSON
from toolheads.serving.late_mcp import LateSessions
from toolheads.serving.service import ToolService
from toolheads.serving.sessions import MCP_SESSION, asker_of, new_session

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


class McpEndpoint:
    """The ASGI app behind `/mcp`.

    Args:
        service: The use cases.
        version: Of the package.
    """

    def __init__(self, service: ToolService, *, version: str) -> None:
        self.sessions = LateSessions(lambda: _sessions(service, version))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request."""
        if scope["method"] != "POST":
            msg = f"the method must be POST, got {scope['method'][:20]}"
            raise ApiError("method_not_allowed", msg, {"Allow": "POST"})
        if JSON not in scope:
            raise ApiError("invalid_json", "the body must be a JSON-RPC message, got nothing")
        is_handshake = scope[JSON].get("method") == "initialize"
        await self.sessions.handle_request(
            scope, receive, _named_session(send) if is_handshake else send
        )


def _sessions(service: ToolService, version: str) -> StreamableHTTPSessionManager:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from toolheads.serving.mcp_tools import mcp_server

    return StreamableHTTPSessionManager(
        mcp_server(service, _asker, version=version),
        json_response=True,
        stateless=True,
        max_request_body_size=service.settings.max_body_bytes,
    )


def _named_session(send: Send) -> Send:
    """Give the answer to a handshake the name of a session."""

    async def named(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 200:
            header = (MCP_SESSION.encode(), new_session().encode())
            message = {**message, "headers": [*message.get("headers", ()), header]}
        await send(message)

    return named


def _asker(ctx: ServerRequestContext[Any, Any]) -> Asker:
    request = ctx.request
    if not isinstance(request, Request):
        msg = "a message over HTTP has its request"
        raise TypeError(msg)
    return asker_of(request, "mcp")
