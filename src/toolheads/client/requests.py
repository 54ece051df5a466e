"""Each method of the API as a request, written once for both clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

from toolheads.client import answers
from toolheads.domain import Tool

_Answer = TypeVar("_Answer")

Schemas = Literal["short", "full", "none"]


@dataclass(frozen=True)
class Prepared(Generic[_Answer]):
    """A request that is ready to be sent."""

    method: str
    path: str
    read: Callable[[Any], _Answer]
    """Reads the JSON of the answer."""
    body: Mapping[str, Any] | None = None
    parameters: Mapping[str, str] | None = None
    is_call: bool = False
    """Whether it may take as long as a tool does."""


def search(
    query: str, k: int | None, schemas: Schemas, conversation: str | None
) -> Prepared[answers.SearchAnswer]:
    """`POST /v1/search`."""
    body = _given(query=query, k=k, schemas=schemas, conversation=conversation)
    return Prepared("POST", "/v1/search", answers.to_search, body)


def rank(
    query: str, tools: Sequence[Tool | Mapping[str, Any] | str], k: int | None
) -> Prepared[answers.Ranking]:
    """`POST /v1/rank`."""
    names = [tool for tool in tools if isinstance(tool, str)]
    if names and len(names) == len(tools):
        body = _given(query=query, tool_ids=names, k=k)
    else:
        body = _given(query=query, tools=[_tool(tool) for tool in tools], k=k)
    return Prepared("POST", "/v1/rank", answers.to_ranking, body)


def rerank(
    message: str | Sequence[Mapping[str, Any]],
    method: str | None,
    top_n: int | None,
    pinned: Sequence[str] | None,
) -> Prepared[Mapping[str, Any]]:
    """`POST /v1/rerank`."""
    names = None if pinned is None else list(pinned)
    said = message if isinstance(message, str) else [dict(one) for one in message]
    body = _given(message=said, method=method, top_n=top_n, pinned=names)
    return Prepared("POST", "/v1/rerank", answers.to_object, body)


def plan(wanted: Mapping[str, Any]) -> Prepared[Mapping[str, Any]]:
    """`POST /v1/plan`."""
    return Prepared("POST", "/v1/plan", answers.to_object, _given(**wanted))


def decide(
    need: str, settings: Mapping[str, Any] | None = None, shortlist: int | None = None
) -> Prepared[Mapping[str, Any]]:
    """`POST /v1/decide`."""
    given = None if settings is None else dict(settings)
    body = _given(need=need, settings=given, shortlist=shortlist)
    return Prepared("POST", "/v1/decide", answers.to_object, body)


def call(
    name: str, arguments: Mapping[str, Any] | None, search_id: str | None
) -> Prepared[answers.CallAnswer]:
    """`POST /v1/call`."""
    body = _given(name=name, arguments=arguments, search_id=search_id)
    return Prepared("POST", "/v1/call", answers.to_call, body, is_call=True)


def feedback(
    name: str, ok: bool, search_id: str | None, error: str | None, took_ms: float | None
) -> Prepared[str]:
    """`POST /v1/feedback`."""
    body = _given(name=name, ok=ok, search_id=search_id, error=error, took_ms=took_ms)
    return Prepared("POST", "/v1/feedback", answers.to_call_id, body)


def page(
    server: str | None, *, is_full: bool, limit: int | None, cursor: str | None
) -> Prepared[answers.ToolsPage]:
    """`GET /v1/tools`."""
    given = _given(server=server, limit=limit, cursor=cursor, full="true" if is_full else None)
    parameters = {name: str(value) for name, value in given.items()}
    return Prepared("GET", "/v1/tools", answers.to_page, parameters=parameters)


def tool(name: str) -> Prepared[answers.ToolRecord]:
    """`GET /v1/tools/{name}`."""
    return Prepared("GET", f"/v1/tools/{quote(name, safe='/')}", answers.to_tool)


def health() -> Prepared[answers.ServerHealth]:
    """`GET /healthz`."""
    return Prepared("GET", "/healthz", answers.to_health)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _tool(tool: Tool | Mapping[str, Any] | str) -> dict[str, Any]:
    if isinstance(tool, str):
        return {"name": tool}
    if isinstance(tool, Tool):
        return _given(
            name=tool.name,
            server=tool.server,
            description=tool.description,
            input_schema=tool.input_schema and dict(tool.input_schema),
        )
    return dict(tool)
