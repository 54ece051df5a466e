"""The tools of servers, asked for once: a session for each, closed again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from toolheads.catalogue import Source
from toolheads.errors import ToolheadsError
from toolheads.sources.mcp.lists import Listing
from toolheads.sources.mcp.servers import McpSettings, to_server
from toolheads.sources.mcp.session import Session

_MOST_AT_ONCE = 8


async def list_server(name: str, source: Source, *, settings: McpSettings | None = None) -> Listing:
    """Start or reach a server, list its tools, and end the session.

    Raises:
        ConfigError: If the source breaks a rule or refers to a variable that is not set.
        McpError: If the server cannot be reached, or does not list its tools in time.
    """
    session = Session(to_server(name, source), settings or McpSettings())
    try:
        return await session.open()
    finally:
        await session.close()


async def list_servers(
    sources: Mapping[str, Source], *, settings: McpSettings | None = None
) -> dict[str, Listing | ToolheadsError]:
    """List the tools of several servers, some at once.

    Returns:
        For each source, in their order, its tools or why there are none.
    """
    places = asyncio.Semaphore(_MOST_AT_ONCE)

    async def listed(name: str, source: Source) -> Listing | ToolheadsError:
        async with places:
            try:
                return await list_server(name, source, settings=settings)
            except ToolheadsError as e:
                return e

    answers = await asyncio.gather(*(listed(name, source) for name, source in sources.items()))
    return dict(zip(sources, answers, strict=True))
