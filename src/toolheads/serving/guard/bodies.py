"""Bodies: of a limited size however they are sent, and strict JSON before anyone looks at them."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolheads.serving.api_error import ApiError
from toolheads.serving.strict_json import parse_json

JSON = "toolheads.json"
"""Where a scope has the JSON value of its body; absent without a body."""

_JSON_TYPE = "application/json"


class Bodies:
    """Reads the body of a request, checks and parses it, and hands it on unchanged.

    Args:
        app: What is guarded.
        max_bytes: Largest body.
        max_url_bytes: Longest path with its parameters.
        max_levels: Deepest nesting.
        mcp_path: Where a body must be one JSON-RPC message.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        max_bytes: int,
        max_url_bytes: int,
        max_levels: int,
        mcp_path: str,
    ) -> None:
        self.app, self.max_bytes, self.max_url_bytes = app, max_bytes, max_url_bytes
        self.max_levels, self.mcp_path = max_levels, mcp_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        url_bytes = len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"])
        if url_bytes > self.max_url_bytes:
            msg = f"the URL must have at most {self.max_url_bytes} bytes, got {url_bytes}"
            raise ApiError("url_too_long", msg)
        headers = Headers(scope=scope)
        body = await self._body(headers, receive)
        if body:
            media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
            if media_type != _JSON_TYPE:
                msg = f"Content-Type must be {_JSON_TYPE}, got {media_type[:80] or 'none'!r}"
                raise ApiError("unsupported_media_type", msg)
            scope[JSON] = parse_json(body, max_levels=self.max_levels)
            if scope["path"] == self.mcp_path and not isinstance(scope[JSON], dict):
                msg = "the body must be one JSON-RPC message, an object, got another value"
                raise ApiError("bad_request", msg)
        await self.app(scope, _Replay(body, receive), send)

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        declared = headers.get("content-length", "")
        if declared.isdigit() and int(declared[:20]) > self.max_bytes:
            raise self._too_large()
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            part = message.get("body", b"")
            size += len(part)
            if size > self.max_bytes:
                raise self._too_large()
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)

    def _too_large(self) -> ApiError:
        # What is left of the body is not read, so the connection cannot be used again.
        msg = f"the body must have at most {self.max_bytes:,} bytes, got more"
        return ApiError("body_too_large", msg, {"Connection": "close"})


class _Replay:
    """Gives the body once more, then what the connection has to say."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        message: dict[str, Any] = {"type": "http.request", "body": self._body, "more_body": False}
        self._body = None
        return message
