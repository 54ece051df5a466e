"""The list of tools of an open session: read page by page, and followed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError

from toolheads.data.jsonl import shown
from toolheads.domain import Tool
from toolheads.errors import Fault
from toolheads.sources.mcp.door import to_faults, to_tools
from toolheads.sources.mcp.http import FAILED

_MOST_PAGES = 1000
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
"""Between two attempts to follow a list."""


@dataclass(frozen=True)
class Listing:
    """The tools of one server, and what it listed that is no tool."""

    tools: tuple[Tool, ...]
    dropped: tuple[Fault, ...] = ()


async def read_list(client: Client, server: str, reasons: list[str], *, most: int) -> Listing:
    """Read all pages of a list.

    Args:
        client: Of an open session.
        server: Name of the source.
        reasons: Where the transport notes what it leaves out; emptied first.
        most: Tools beyond these are left out.
    """
    reasons.clear()
    entries: list[dict[str, Any]] = []
    cursors: set[str] = set()
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
        entries += [
            tool.model_dump(by_alias=True, mode="json", exclude_unset=True) for tool in page.tools
        ]
        cursor = page.next_cursor
        if cursor is None or len(entries) > most:
            break
        if cursor in cursors:
            reasons.append(f"nextCursor must be new on each page, got {shown(cursor)} again")
            break
        cursors.add(cursor)
    tools, more_reasons = to_tools(server, entries, most=most)
    return Listing(tools, to_faults(server, [*reasons, *more_reasons]))


async def follow_list(client: Client, tell: Callable[[], None]) -> None:
    """Follow the list of a server of the protocol's second era, where one asks for it.

    Returns if the server has no such thing; else runs until it is cancelled.

    Args:
        client: Of an open session.
        tell: Called when the list is another, or may be.
    """
    pause_s, was_lost = _FIRST_PAUSE_S, False
    while True:
        try:
            async with client.listen(tools_list_changed=True) as events:
                if not events.honored.tools_list_changed:
                    return
                if was_lost:  # what changed meanwhile is not told again
                    tell()
                pause_s = _FIRST_PAUSE_S
                async for _ in events:
                    tell()
        except (SubscriptionLost, TimeoutError):
            pass
        except MCPError as e:
            if e.code not in (FAILED, types.CONNECTION_CLOSED):
                return
        was_lost = True
        await anyio.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
