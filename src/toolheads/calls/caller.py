"""The port to a backend: who can call the tools of one kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from toolheads.calls.result import CallResult
from toolheads.domain import Tool

Sources = Mapping[str, Mapping[str, Any]]
"""Name of a source → its entry in the catalogue's `sources.json`."""


class Caller(Protocol):
    """Calls the tools of one kind (`mcp`, `openapi`).

    Contract:
        1. `call` raises nothing for what a backend does or fails to do: each is an outcome.
        2. A call is sent at most once.
        3. A cancelled call leaves the backend usable for the next one.
        4. What one caller of the service left behind (cookies, headers) is never sent for another.
    """

    async def call(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> CallResult:
        """Call a tool.

        Args:
            tool: A tool of this kind.
            arguments: JSON values, checked against the tool's schema already.
            timeout_s: Seconds until the call is given up.
            headers: Sent to the backend with this call alone, over those of its source.
        """
        ...

    def use(self, sources: Sources) -> None:
        """Take over other sources, as after a sync. Calls in flight end as they began."""
        ...

    async def close(self) -> None:
        """Close connections and processes; the caller is not used afterwards."""
        ...
