"""What a server does, whatever door a request came through: find, rank, call, look up.

Knows no HTTP and no MCP: plain values in, JSON values out, `ApiError` for what is refused.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from toolheads.calls import CallResult, Calls
from toolheads.domain import Tool
from toolheads.errors import ConfigError
from toolheads.retrieval import Answer, Retriever
from toolheads.serving.access import Asker
from toolheads.serving.aids import Aids
from toolheads.serving.api_error import ApiError
from toolheads.serving.choosing import Choosing
from toolheads.serving.metrics import Metrics
from toolheads.serving.pages import ToolPages
from toolheads.serving.recording import Recording
from toolheads.serving.records import FoundRecords, Schemas, full_record, given_tools
from toolheads.serving.settings import ServeSettings
from toolheads.serving.shown import ShownTools
from toolheads.serving.strict_json import sendable
from toolheads.serving.workers import Workers, ended
from toolheads.usage import UsageRecorder

_NOTHING_FITS = (
    "No tool of this catalogue fits the query. Try other words or a smaller step; if nothing "
    "fits then either, there is no such tool."
)
_RANK_WORKERS = 2

_Result = TypeVar("_Result")


class ToolService:
    """The use cases of a server. Used from one event loop.

    Args:
        retriever: Finds tools.
        calls: Calls them.
        settings: Limits.
        usage: Takes events; None records nothing.
        heads: sha256 of the heads that rank, for the usage log; empty where none do.
        aids: Thresholds of decisions, and a chat model; None takes what comes with the heads.
    """

    def __init__(
        self,
        retriever: Retriever,
        calls: Calls,
        *,
        settings: ServeSettings,
        usage: UsageRecorder | None = None,
        heads: str = "",
        aids: Aids | None = None,
    ) -> None:
        self.settings = settings
        self.metrics = Metrics(retriever.status, None if usage is None else usage.status)
        self._retriever, self._calls = retriever, calls
        self._recording = Recording(usage, heads)
        self._shown = ShownTools(settings.remembered_searches)
        self._pages = ToolPages(settings)
        self._found = FoundRecords()
        self._ranking_searches = Workers(settings.search_workers, "toolheads-search")
        self._ranking = Workers(_RANK_WORKERS, "toolheads-rank")
        self.choosing = Choosing(
            retriever,
            aids or Aids(),
            settings,
            ranking=self._ranking,
            shown=self._shown,
            recording=self._recording,
            metrics=self.metrics,
        )

    async def search(
        self,
        asker: Asker,
        query: str,
        *,
        k: int | None = None,
        schemas: Schemas = "short",
        conversation: str | None = None,
    ) -> dict[str, Any]:
        """Find tools.

        Args:
            asker: Who asks.
            query: The text.
            k: How many; None lets the cut-off decide.
            schemas: How input schemas are given.
            conversation: Keeps set and order stable over its searches.

        Returns:
            `SearchAnswer` of `serving.schemas`.
        """
        asker.access.check("search")
        start = time.perf_counter()
        if conversation is None and self.settings.stable_sessions:
            conversation = asker.session
        if conversation is not None:
            conversation = f"{asker.access.name} {conversation}"
        answer = await self._answer(asker, query, k, conversation)
        tools = [self._found.of(hit.tool, float(hit.score), schemas) for hit in answer.hits]
        search_id = secrets.token_hex(12)
        shown = [hit.tool_id for hit in answer.hits]
        self._shown.add(search_id, asker.access.name, asker.session, shown)
        seconds = time.perf_counter() - start
        self.metrics.search(answer.mode, asker.via, seconds, is_empty=answer.nothing_matches)
        self._recording.search(
            asker,
            search_id,
            query,
            shown,
            mode=answer.mode,
            catalogue=answer.catalogue,
            took_ms=seconds * 1e3,
        )
        said: dict[str, Any] = {
            "search_id": search_id,
            "mode": answer.mode,
            "reason": answer.reason,
            "nothing_matches": answer.nothing_matches,
        }
        if answer.nothing_matches:
            said["note"] = _NOTHING_FITS
        return said | {
            "named": list(answer.named),
            "tools": tools,
            "catalogue": answer.catalogue,
            "took_ms": round(seconds * 1e3, 3),
        }

    async def rank(
        self,
        asker: Asker,
        query: str,
        *,
        tools: list[Mapping[str, Any]] | None = None,
        tool_ids: list[str] | None = None,
        k: int | None = None,
    ) -> dict[str, Any]:
        """Rank tools that the client gives, or names. See `RankAnswer` of `serving.schemas`."""
        asker.access.check("search")
        start = time.perf_counter()
        if tools is not None:
            given = given_tools(tools)
        else:
            given = [self._tool(asker, name) for name in tool_ids or ()]
        places: dict[str, list[int]] = {}
        for place, tool in enumerate(given):
            places.setdefault(tool.id, []).append(place)
        distinct = [given[of_one[0]] for of_one in places.values()]
        scope = asker.access.name
        answer = await self._ranking.run(
            lambda: _refused(lambda: self._retriever.rank(query, distinct, scope=scope))
        )
        ranked = [
            {"index": place, "name": given[place].name, "score": float(hit.score)}
            for hit in answer.hits
            for place in places[hit.tool_id]
        ]
        return {
            "mode": answer.mode,
            "reason": answer.reason,
            "tools": ranked[:k],
            "took_ms": round((time.perf_counter() - start) * 1e3, 3),
        }

    async def call(
        self,
        asker: Asker,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        search_id: str | None = None,
    ) -> tuple[dict[str, Any], CallResult]:
        """Call a tool.

        Returns:
            `CallAnswer` of `serving.schemas` without `content` and `is_error`, and the result.

        Raises:
            ApiError: If the key may not, or there is no such tool for it.
        """
        asker.access.check("call")
        tool = self._tool(asker, name)
        result = await self._calls.call(
            tool, arguments, name=name, timeout_s=self.settings.call_timeout_s
        )
        call_id = secrets.token_hex(12)
        linked = self._link(asker, tool, search_id)
        kind = str(tool.extra.get("kind", "tools"))
        self.metrics.call(result.outcome, kind, result.took_ms / 1e3)
        self._recording.call(
            asker,
            tool.id,
            call_id,
            linked,
            error="" if result.outcome == "ok" else result.outcome,
            took_ms=result.took_ms,
            arguments=arguments or {},
        )
        said = {
            "tool": tool.id,
            "call_id": call_id,
            "search_id": linked,
            "outcome": result.outcome,
            "error": result.error,
            "structured": sendable(result.structured),
            "http_status": result.http_status,
            "took_ms": round(result.took_ms, 3),
        }
        return said, result

    def feedback(
        self,
        asker: Asker,
        name: str,
        *,
        ok: bool,
        search_id: str | None = None,
        error: str = "",
        took_ms: float | None = None,
    ) -> dict[str, Any]:
        """Take note of a call that the client made elsewhere. See `FeedbackAnswer`."""
        asker.access.check("feedback")
        tool = self._tool(asker, name)
        call_id = secrets.token_hex(12)
        linked = self._link(asker, tool, search_id)
        self._recording.call(
            asker,
            tool.id,
            call_id,
            linked,
            error="" if ok else error or "tool_error",
            took_ms=took_ms,
            via="feedback",
        )
        self.metrics.call("ok" if ok else "tool_error", "feedback", (took_ms or 0.0) / 1e3)
        return {"tool": tool.id, "call_id": call_id, "search_id": linked}

    def page(
        self,
        asker: Asker,
        *,
        cursor: str | None = None,
        limit: int | None = None,
        server: str | None = None,
        is_full: bool = False,
    ) -> dict[str, Any]:
        """One page of the tools that a client may see. See `ToolsPage`."""
        asker.access.check("search")
        page = self._pages.page(
            self._retriever.tools,
            sources=asker.access.sources,
            cursor=cursor,
            limit=limit,
            server=server,
            is_full=is_full,
        )
        return page | {"catalogue": self._retriever.catalogue_digest}

    def tool(self, asker: Asker, name: str) -> dict[str, Any]:
        """Everything about one tool. See `Tool` of `serving.schemas`."""
        asker.access.check("search")
        return full_record(self._tool(asker, name))

    def health(self) -> dict[str, Any]:
        """How the server is. See `Health` of `serving.schemas`."""
        status = self._retriever.status().to_json()
        return {"live": True} | status

    async def close(self) -> None:
        """Close connections to backends, and let the threads end."""
        await self._calls.close()
        for workers in (self._ranking_searches, self._ranking):
            workers.close()
        self.choosing.close()

    async def _answer(
        self, asker: Asker, query: str, k: int | None, conversation: str | None
    ) -> Answer:
        """Search: wait for the encoder without a thread, and rank in one where it takes long."""
        scope, sources = asker.access.name, asker.access.sources
        begun = _refused(lambda: self._retriever.begin(query, scope=scope))
        if begun is not None:
            await ended(begun)

        def job() -> Answer:
            return _refused(
                lambda: self._retriever.search(
                    query,
                    k,
                    scope=scope,
                    conversation=conversation,
                    deadline_s=0.0,
                    sources=sources,
                    begun=begun,
                )
            )

        return job() if self._retriever.is_light else await self._ranking_searches.run(job)

    def _tool(self, asker: Asker, name: str) -> Tool:
        tool = self._retriever.tool(name, sources=asker.access.sources)
        if tool is None:
            shown = name if len(name) <= 100 else f"{name[:99]}…"
            msg = f"name must be that of a tool, got {shown!r}; search for it first"
            raise ApiError("unknown_tool", msg)
        return tool

    def _link(self, asker: Asker, tool: Tool, search_id: str | None) -> str | None:
        return self._shown.search_of(
            tool.id, owner=asker.access.name, session=asker.session, search_id=search_id
        )


def content_of(result: CallResult) -> list[dict[str, Any]]:
    """The content blocks of a result, as they can be sent."""
    return cast("list[dict[str, Any]]", sendable([dict(block) for block in result.content]))


def _refused(job: Callable[[], _Result]) -> _Result:
    """Run a job; what it says about its input is the client's to know."""
    try:
        return job()
    except ConfigError as e:
        raise ApiError("invalid_argument", str(e).replace("text must", "query must")) from e
