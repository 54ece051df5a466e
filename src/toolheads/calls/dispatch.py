"""Calling a tool of whatever kind: checks the arguments, picks the caller, keeps the limits."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from toolheads.calls.arguments import ArgumentChecker
from toolheads.calls.caller import Caller, Sources
from toolheads.calls.result import CallResult, failure, text_block
from toolheads.domain import Tool
from toolheads.errors import ConfigError, ToolheadsError

_MOST_SHOWN_SCHEMA = 60_000
"""Characters; a longer schema is not put into an answer."""


@dataclass(frozen=True)
class CallSettings:
    """Limits of calls."""

    timeout_s: float = 60.0
    """Longest time for one call, waiting for a free place included."""
    concurrency: int = 16
    """Most calls in flight for one source, >= 1; more wait."""

    def __post_init__(self) -> None:
        if not (self.timeout_s > 0 and math.isfinite(self.timeout_s)):
            msg = f"calls.timeout_s must be > 0 and finite, got {self.timeout_s}"
            raise ConfigError(msg)
        if self.concurrency < 1:
            msg = f"calls.concurrency must be >= 1, got {self.concurrency}"
            raise ConfigError(msg)


class Calls:
    """Calls tools. Used from one event loop."""

    def __init__(
        self,
        sources: Sources,
        callers: Mapping[str, Caller],
        *,
        settings: CallSettings | None = None,
    ) -> None:
        """Join callers.

        Args:
            sources: Entries of `sources.json`, by the name of the source.
            callers: Who calls the tools of a kind: `{"mcp": …, "openapi": …}`.
            settings: Limits.
        """
        self._sources = sources
        self._callers = dict(callers)
        self._settings = settings or CallSettings()
        self._places: dict[str | None, asyncio.Semaphore] = {}
        self._arguments = ArgumentChecker()

    def use(self, sources: Sources) -> None:
        """Take over other sources, as after a sync."""
        self._sources = sources
        for caller in self._callers.values():
            caller.use(sources)

    async def call(
        self,
        tool: Tool | None,
        arguments: Mapping[str, Any] | None = None,
        *,
        name: str = "",
        timeout_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> CallResult:
        """Call a tool. Raises nothing for what arguments or a backend do: each is an outcome.

        Args:
            tool: The tool; None when it was looked up and not found.
            arguments: JSON values; None for none.
            name: What the tool was looked up by, for the error of one that was not found.
            timeout_s: Seconds, at most those of the settings; None for those.
            headers: Sent to the backend with this call alone.

        Returns:
            The result. One that failed, other than by time, ends with the tool's schema.
        """
        start = time.perf_counter()
        limit_s = self._settings.timeout_s
        if timeout_s is not None:
            limit_s = min(limit_s, max(timeout_s, 0.001))
        try:
            async with asyncio.timeout(limit_s):
                result = await self._checked(tool, arguments, name, limit_s, start, headers)
        except TimeoutError:
            result = failure("timeout", f"the tool must answer within {limit_s:g} s, got no answer")
        except (ToolheadsError, OSError) as e:
            result = failure("protocol_error", str(e) or type(e).__name__)
        if tool is not None and result.outcome in ("tool_error", "protocol_error", "refused"):
            result = replace(result, content=(*result.content, *_schema_block(tool)))
        return replace(result, took_ms=(time.perf_counter() - start) * 1e3)

    async def close(self) -> None:
        """Close every caller, each one whatever another does."""
        await asyncio.gather(
            *(caller.close() for caller in self._callers.values()), return_exceptions=True
        )

    async def _checked(
        self,
        tool: Tool | None,
        arguments: Any,
        name: str,
        limit_s: float,
        start: float,
        headers: Mapping[str, str] | None,
    ) -> CallResult:
        if tool is None:
            return failure("unknown_tool", f"name must be that of a tool, got {name!r:.200}")
        caller = self._callers.get(_kind(tool))
        if caller is None:
            kinds = " or ".join(self._callers) or "none"
            msg = f"{tool.id!r:.200} must be of kind {kinds} to be called, got {_kind(tool)!r:.40}"
            return failure("unknown_tool", msg)
        if tool.server not in self._sources:
            msg = f"{tool.id!r:.200} must be of a configured source, got {tool.server!r:.80}"
            return failure("unknown_tool", msg)
        given = {} if arguments is None else arguments
        if problem := await asyncio.to_thread(self._arguments.problem, tool, given):
            return failure("refused", problem)
        places = self._places.setdefault(tool.server, asyncio.Semaphore(self._settings.concurrency))
        async with places:
            left_s = max(limit_s - (time.perf_counter() - start), 0.001)
            return await caller.call(tool, given, timeout_s=left_s, headers=headers)


def _kind(tool: Tool) -> str:
    kind = tool.extra.get("kind")
    return kind if isinstance(kind, str) else ""


def _schema_block(tool: Tool) -> list[dict[str, Any]]:
    """The schema of a tool's arguments as a text block; nothing if it has none."""
    if tool.input_schema is None:
        return []
    schema = json.dumps(tool.input_schema, ensure_ascii=False, default=dict)
    if len(schema) > _MOST_SHOWN_SCHEMA:
        schema = f"{len(schema):,} characters, too long to show"
    return [text_block(f"Input schema of {tool.name}: {schema}")]
