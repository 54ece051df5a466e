"""MCP over stdin and stdout, for a client that starts the server. Nothing else is printed."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import anyio

from toolheads.calls import Calls
from toolheads.retrieval import Retriever
from toolheads.serving.access import EVERYONE, Asker
from toolheads.serving.aids import Aids
from toolheads.serving.companions import Companion, beside
from toolheads.serving.service import ToolService
from toolheads.serving.sessions import new_session
from toolheads.serving.settings import ServeSettings
from toolheads.usage import UsageRecorder

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext


def run_stdio(
    retriever: Retriever,
    calls: Calls,
    *,
    settings: ServeSettings | None = None,
    usage: UsageRecorder | None = None,
    heads: str = "",
    companions: Sequence[Companion] = (),
    aids: Aids | None = None,
    on_signal: Callable[[], None] = lambda: None,
) -> None:
    """Serve one client until it closes stdin.

    Args:
        retriever: Finds tools.
        calls: Calls them; closed at the end.
        settings: Limits.
        usage: Takes events; None records nothing.
        heads: sha256 of the heads that rank, for the usage log.
        companions: Run beside it, from its start to its end.
        aids: Thresholds of decisions and a chat model; None takes what comes with the heads.
        on_signal: Called on SIGTERM; it must end the process, since a read of stdin cannot be
            interrupted.
    """
    # Here, since the SDK takes long to load and not every server needs it, see `late_mcp`.
    from mcp.server.stdio import stdio_server

    from toolheads.serving.mcp_tools import mcp_server

    asker = Asker(EVERYONE, new_session(), "stdio")

    def asker_of(_: ServerRequestContext[Any, Any]) -> Asker:
        return asker

    async def serve() -> None:
        service = ToolService(
            retriever,
            calls,
            settings=settings or ServeSettings(),
            usage=usage,
            heads=heads,
            aids=aids,
        )
        server = mcp_server(service, asker_of, version=version("toolheads"))
        try:
            async with beside(companions), stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())
        finally:
            with anyio.CancelScope(shield=True):
                await service.close()

    if threading.current_thread() is threading.main_thread():
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGTERM, lambda *_: on_signal())
    anyio.run(serve)
