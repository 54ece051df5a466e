"""The plain data everything speaks about: tools, queries, hits. Knows no file, array or model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Tool:
    """One item that can be found."""

    id: str
    """Stable id, unique within a corpus."""
    name: str
    """Name on its server; never empty."""
    server: str | None = None
    """The server that offers it; None when it belongs to none."""
    description: str = ""
    input_schema: Mapping[str, Any] | None = None
    """JSON Schema of the arguments; None when unknown."""
    extra: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """Fields this package has no name for (annotations, category, …); kept on a round trip."""

    @property
    def identity(self) -> tuple[str | None, str]:
        """(server, name). A pair, since any joined string can be made by two pairs."""
        return self.server, self.name


@dataclass(frozen=True)
class Query:
    """One text that asks, with what is known about its answer."""

    id: str
    text: str
    relevance: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    """tool_id → graded relevance >= 0; > 0 is relevant, absent is unjudged."""
    split: str = "test"
    """`train`, `val` or `test`."""
    negatives: tuple[str, ...] = ()
    """Ids of curated hard negatives."""
    teacher_scores: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    """tool_id → score of a stronger model, any scale, higher is better."""
    extra: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """Fields this package has no name for; kept on a round trip."""

    @property
    def relevant(self) -> tuple[str, ...]:
        """Ids of the relevant tools, in file order."""
        return tuple(tool_id for tool_id, grade in self.relevance.items() if grade > 0)


@dataclass(frozen=True)
class Hit:
    """One found tool with its score; higher is better."""

    tool: Tool
    score: float

    @property
    def tool_id(self) -> str:
        """Id of the tool."""
        return self.tool.id
