"""The streams of a session: checked on their way in, and known to have ended when they have.

Above: `session`. Below: the SDK's transports over stdio and streamable HTTP.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, cast

import anyio
import mcp_types as types
from mcp.client._transport import ReadStream, TransportStreams, WriteStream
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from toolheads.data.jsonl import shown
from toolheads.sources.mcp.door import mended_page
from toolheads.sources.mcp.http import http_client
from toolheads.sources.mcp.servers import McpServer
from toolheads.sources.mcp.stderr import StderrTail

_MOST_EVENT_BYTES = 64 * 2**20
"""Bytes of one message over HTTP; a page of long schemas is above the SDK's 1 MiB."""


@dataclass
class Watch:
    """What is noticed of the streams of one session."""

    on_end: Callable[[], None]
    """Called when the server has ended the connection."""
    on_lost: Callable[[], None]
    """Called when the server says that it does not know the session any more."""
    reasons: list[str] = field(default_factory=list)
    """Why entries of the last list were left out; who asks for a list empties it."""
    stderr: StderrTail | None = None
    junk: str = ""
    """The last thing that came in and was no message."""


@asynccontextmanager
async def watched_transport(server: McpServer, watch: Watch) -> AsyncIterator[TransportStreams]:
    """Start or reach a server.

    Raises:
        OSError: If a command cannot be started.
    """
    if server.url is not None:
        async with (
            http_client(server.headers, on_session_lost=watch.on_lost) as client,
            streamable_http_client(
                server.url, http_client=client, max_sse_event_size=_MOST_EVENT_BYTES
            ) as streams,
        ):
            yield _watched(streams, watch)
        return
    watch.stderr = StderrTail()
    parameters = StdioServerParameters(
        command=server.command or "",
        args=list(server.args),
        env=dict(server.env),
        cwd=server.cwd,
        encoding_error_handler="replace",  # bytes that are no text cost a character, no session
    )
    try:
        async with stdio_client(parameters, errlog=watch.stderr.stream) as streams:
            watch.stderr.close()
            yield _watched(streams, watch)
    finally:
        watch.stderr.close()


def _watched(streams: TransportStreams, watch: Watch) -> TransportStreams:
    read, write = streams
    listings: set[Any] = set()
    return _Read(read, watch, listings), _Write(write, listings)


class _Write:
    """Notes which requests ask for a list of tools."""

    def __init__(self, inner: WriteStream[SessionMessage], listings: set[Any]) -> None:
        self._inner, self._listings = inner, listings

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        if isinstance(message, types.JSONRPCRequest) and message.method == "tools/list":
            self._listings.add(message.id)
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def close(self) -> None:
        cast("Any", self._inner).close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


class _Read:
    """Mends lists of tools, and notes the end of the stream."""

    def __init__(
        self,
        inner: ReadStream[SessionMessage | Exception],
        watch: Watch,
        listings: set[Any],
    ) -> None:
        self._inner, self._watch, self._listings = inner, watch, listings

    @property
    def last_context(self) -> Any:
        """The context of the sender, where the transport keeps it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        try:
            item = await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._watch.on_end()
            raise
        if isinstance(item, ValidationError):
            text = item.errors(include_url=False)[0].get("input")
            item = _salvaged(item, text)
            if isinstance(item, Exception):
                self._watch.junk = shown(text[:100] if isinstance(text, str) else text)
        if isinstance(item, Exception):
            return item
        message = item.message
        if isinstance(message, types.JSONRPCResponse) and message.id in self._listings:
            self._listings.discard(message.id)
            message.result, reasons = mended_page(message.result)
            self._watch.reasons += reasons
        elif isinstance(message, types.JSONRPCError):
            self._listings.discard(message.id)
        return item

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


def _salvaged(error: ValidationError, text: Any) -> SessionMessage | Exception:
    """A message that the SDK could not read for a lone surrogate in it, with U+FFFD for that."""
    if not isinstance(text, str) or "\\u" not in text:
        return error
    try:
        plain = json.dumps(json.loads(text), ensure_ascii=False)
        clean = plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(clean, by_name=False))
    except (ValueError, RecursionError):
        return error
