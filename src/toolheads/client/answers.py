"""What a server answers, as plain data, checked as it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from toolheads.errors import ClientError

_Read = TypeVar("_Read")


@dataclass(frozen=True)
class ToolRecord:
    """One tool of the catalogue."""

    id: str
    api_name: str
    """A name that every model provider takes: `[A-Za-z0-9_-]{1,64}`."""
    name: str
    server: str | None
    kind: str
    """`mcp`, `openapi` or `tools`."""
    description: str
    input_schema: Mapping[str, Any] | None = None
    """JSON Schema of the arguments; None where there is none or it was not asked for."""
    input_schema_is_short: bool = False
    """Whether parts of the schema were left out."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Other fields: `annotations`, `title`, `output_schema`, `http`."""


@dataclass(frozen=True)
class FoundTool(ToolRecord):
    """One tool that a search found."""

    score: float = 0.0
    """Higher is better; comparable within one answer only."""


@dataclass(frozen=True)
class SearchAnswer:
    """The tools for one query."""

    search_id: str
    tools: tuple[FoundTool, ...]
    """Best first."""
    mode: str
    """`dense`, or `lexical` where words alone were compared."""
    reason: str | None
    """Why the answer is lexical though it should not be."""
    nothing_matches: bool
    """Whether no tool fits the query."""
    named: tuple[str, ...]
    """Ids of the tools that the query names."""
    catalogue: str
    took_ms: float


@dataclass(frozen=True)
class RankedTool:
    """One tool of a list that was given."""

    index: int
    """Its place in the list."""
    name: str
    score: float


@dataclass(frozen=True)
class Ranking:
    """A list of tools, ranked."""

    tools: tuple[RankedTool, ...]
    """Best first."""
    mode: str
    reason: str | None
    took_ms: float


@dataclass(frozen=True)
class CallAnswer:
    """What came of a call."""

    tool: str
    """Its id."""
    call_id: str
    outcome: str
    """`ok`, `tool_error`, `protocol_error`, `timeout`, `refused` or `unknown_tool`."""
    content: tuple[Mapping[str, Any], ...]
    """Content blocks as MCP has them."""
    structured: Any
    """The answer as JSON, where the tool gives one."""
    error: str | None
    search_id: str | None
    """The search that the call was linked to."""
    http_status: int | None
    took_ms: float

    @property
    def is_error(self) -> bool:
        """Whether the call did not do what it was to do."""
        return self.outcome != "ok"

    @property
    def text(self) -> str:
        """The text blocks, joined by line breaks."""
        texts = (block.get("text") for block in self.content)
        return "\n".join(text for text in texts if isinstance(text, str))


@dataclass(frozen=True)
class ServerHealth:
    """How a server is."""

    ready: bool
    mode: str
    degraded: bool
    reason: str | None
    """What is worse than it should be."""
    tools: int
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Everything else that it tells."""


@dataclass(frozen=True)
class ToolsPage:
    """Some tools of the catalogue."""

    tools: tuple[ToolRecord, ...]
    total: int
    next_cursor: str | None


def read(reader: Callable[[Any], _Read], data: Any) -> _Read:
    """Read an answer.

    Raises:
        ClientError: `bad_answer`, if it is not what a toolheads server answers.
    """
    try:
        return reader(data)
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        msg = f"the server must answer as a toolheads server does, got {data!r:.100}"
        raise ClientError(msg, code="bad_answer") from e


def to_object(data: Any) -> Mapping[str, Any]:
    """Read an answer that is given as it is."""
    if not isinstance(data, Mapping):
        raise TypeError(type(data).__name__)
    return data


def to_search(data: Any) -> SearchAnswer:
    """Read `SearchAnswer`."""
    return SearchAnswer(
        search_id=str(data["search_id"]),
        tools=tuple(_found(one) for one in data["tools"]),
        mode=str(data["mode"]),
        reason=data["reason"],
        nothing_matches=bool(data["nothing_matches"]),
        named=tuple(data.get("named", ())),
        catalogue=str(data["catalogue"]),
        took_ms=float(data["took_ms"]),
    )


def to_ranking(data: Any) -> Ranking:
    """Read `RankAnswer`."""
    tools = (RankedTool(int(t["index"]), str(t["name"]), float(t["score"])) for t in data["tools"])
    return Ranking(tuple(tools), str(data["mode"]), data["reason"], float(data["took_ms"]))


def to_call(data: Any) -> CallAnswer:
    """Read `CallAnswer`."""
    return CallAnswer(
        tool=str(data["tool"]),
        call_id=str(data["call_id"]),
        outcome=str(data["outcome"]),
        content=tuple(dict(block) for block in data["content"]),
        structured=data.get("structured"),
        error=data.get("error"),
        search_id=data.get("search_id"),
        http_status=data.get("http_status"),
        took_ms=float(data["took_ms"]),
    )


def to_tool(data: Any) -> ToolRecord:
    """Read `Tool`."""
    return ToolRecord(**_fields(data, ToolRecord))


def to_page(data: Any) -> ToolsPage:
    """Read `ToolsPage`."""
    tools = tuple(to_tool(one) for one in data["tools"])
    return ToolsPage(tools, int(data["total"]), data["next_cursor"])


def to_health(data: Any) -> ServerHealth:
    """Read `Health`."""
    names = ("ready", "mode", "degraded", "reason", "tools")
    extra = {name: value for name, value in data.items() if name not in names}
    return ServerHealth(**{name: data[name] for name in names}, extra=extra)


def to_call_id(data: Any) -> str:
    """Read the id of a call out of `FeedbackAnswer`."""
    return str(data["call_id"])


def _found(data: Any) -> FoundTool:
    return FoundTool(**_fields(data, FoundTool))


def _fields(data: Any, kind: type[ToolRecord]) -> dict[str, Any]:
    known = {name for name in kind.__dataclass_fields__ if name != "extra"}
    fields = {name: value for name, value in data.items() if name in known}
    for name in ("id", "api_name", "name", "kind", "description"):
        if not isinstance(fields[name], str):
            raise TypeError(name)
    return fields | {"extra": {name: value for name, value in data.items() if name not in known}}
