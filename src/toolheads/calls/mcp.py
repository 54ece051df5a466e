"""Calling the tools of MCP servers through sessions that stay open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolheads.calls.caller import Sources
from toolheads.calls.result import CallResult, failure
from toolheads.domain import Tool
from toolheads.errors import ConfigError, SourceError

if TYPE_CHECKING:
    from toolheads.sources.mcp.sessions import McpSessions

_MOST_SHOWN = 300


class McpCaller:
    """Calls tools of kind `mcp`. See `toolheads.calls.caller.Caller`.

    Headers of a call reach servers behind a URL only, in a session that no other headers share.
    """

    def __init__(self, sessions: McpSessions) -> None:
        """Use sessions, which `close` closes."""
        self._sessions = sessions

    async def call(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> CallResult:
        """Call a tool; see `toolheads.calls.caller.Caller`."""
        start = time.perf_counter()
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._sessions.call(
                    tool.server or "", tool.name, arguments, headers=headers
                )
        except TimeoutError:
            return failure("timeout", f"the tool must answer within {timeout_s:g} s, got no answer")
        except SourceError as e:
            return failure("protocol_error", str(e), http_status=getattr(e, "http_status", None))
        except ConfigError as e:
            return failure("protocol_error", str(e))
        content = tuple(
            block.model_dump(by_alias=True, mode="json", exclude_none=True)
            for block in answer.content
        )
        took_ms = (time.perf_counter() - start) * 1e3
        if not answer.is_error:
            return CallResult("ok", content, answer.structured_content, took_ms=took_ms)
        texts = [block["text"] for block in content if isinstance(block.get("text"), str)]
        said = " ".join(" ".join(texts).split())[:_MOST_SHOWN]
        return failure(
            "tool_error",
            said or "the tool says that it failed, and not why",
            content=content,
            structured=answer.structured_content,
        )

    def use(self, sources: Sources) -> None:
        """Take over other sources; see `toolheads.calls.caller.Caller`."""
        self._sessions.use(sources)

    async def close(self) -> None:
        """End the sessions; see `toolheads.calls.caller.Caller`."""
        await self._sessions.close()
