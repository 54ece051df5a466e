"""Lists of tools in pages. A cursor says after which id to go on, so it outlives any change."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Collection, Sequence
from typing import Any

from toolheads.domain import Tool
from toolheads.serving.api_error import ApiError
from toolheads.serving.records import full_record, listed_record
from toolheads.serving.settings import ServeSettings


class ToolPages:
    """Cuts pages out of a list of tools.

    Args:
        settings: Sizes of pages.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._tools: Sequence[Tool] = ()
        self._ids: list[str] = []

    def page(
        self,
        tools: Sequence[Tool],
        *,
        sources: Collection[str] | None,
        cursor: str | None,
        limit: int | None,
        server: str | None,
        is_full: bool,
    ) -> dict[str, Any]:
        """One page.

        Args:
            tools: All tools, by id.
            sources: Servers that the client may use; None for all.
            cursor: `next_cursor` of the page before; None begins.
            limit: Most tools; None takes the setting.
            server: Only tools of this one.
            is_full: Whether schemas are given.

        Raises:
            ApiError: `invalid_argument`, for a cursor that is none or a limit out of range.
        """
        most = self._settings.max_page_tools
        if limit is not None and not 1 <= limit <= most:
            msg = f"limit must be between 1 and {most}, got {limit}"
            raise ApiError("invalid_argument", msg)
        size = limit or min(self._settings.page_tools, most)
        if tools is not self._tools:
            self._tools, self._ids = tools, [tool.id for tool in tools]
        start = 0 if cursor is None else bisect_right(self._ids, _after(cursor))
        is_all = sources is None and server is None
        rest = [
            tool
            for tool in (tools[start : start + size + 1] if is_all else tools[start:])
            if (sources is None or tool.server in sources) and server in (None, tool.server)
        ]
        total = len(tools) if is_all else _count(tools, sources, server)
        shown = rest[:size]
        record = full_record if is_full else listed_record
        return {
            "tools": [record(tool) for tool in shown],
            "total": total,
            "next_cursor": _cursor(shown[-1].id) if len(rest) > size else None,
        }


def _count(tools: Sequence[Tool], sources: Collection[str] | None, server: str | None) -> int:
    return sum(
        (sources is None or tool.server in sources) and server in (None, tool.server)
        for tool in tools
    )


def _cursor(tool_id: str) -> str:
    return base64.urlsafe_b64encode(tool_id.encode()).decode().rstrip("=")


def _after(cursor: str) -> str:
    try:
        data = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return base64.b64decode(data, altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError) as e:
        msg = f"cursor must be a next_cursor of this list, got {cursor[:80]!r}"
        raise ApiError("invalid_argument", msg) from e
