"""What a need can come to: one tool, duplicates, several, none. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from toolheads.domain import Hit, Tool


@dataclass(frozen=True)
class Bind:
    """The need names one tool."""

    outcome: ClassVar[str] = "bind"
    hit: Hit
    """The tool, with its score in units of `PickerSettings.score_unit`."""

    @property
    def tool(self) -> Tool:
        """The tool."""
        return self.hit.tool

    @property
    def hits(self) -> tuple[Hit, ...]:
        """The tool alone."""
        return (self.hit,)

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return _to_json(self.outcome, self.hits)


@dataclass(frozen=True)
class Duplicate:
    """The need names a tool that its own server offers more than once."""

    outcome: ClassVar[str] = "duplicate"
    hits: tuple[Hit, ...]
    """The leader first, then its duplicates by rank."""

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return _to_json(self.outcome, self.hits)


@dataclass(frozen=True)
class Ambiguous:
    """The need names several tools, and nothing says which."""

    outcome: ClassVar[str] = "ambiguous"
    hits: tuple[Hit, ...]
    """By rank."""

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return _to_json(self.outcome, self.hits)


@dataclass(frozen=True)
class Absent:
    """No tool does what the need asks. An answer, not an error."""

    outcome: ClassVar[str] = "absent"
    nearest: Hit | None = None
    """The best of the tools that do not do; None where nothing is ranked at all. To be shown to
    people, not to be called."""

    @property
    def hits(self) -> tuple[Hit, ...]:
        """None."""
        return ()

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        nearest = None if self.nearest is None else _hit(self.nearest)
        return _to_json(self.outcome, ()) | {"nearest": nearest}


Decision = Bind | Duplicate | Ambiguous | Absent


@dataclass(frozen=True)
class Pair:
    """Two tools that are nearly the same, in the order of the catalogue."""

    first: Tool
    second: Tool
    similarity: float
    """In [-1, 1]."""

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        both = [_tool(tool) for tool in (self.first, self.second)]
        return {"tools": both, "similarity": self.similarity}


def _to_json(outcome: str, hits: tuple[Hit, ...]) -> dict[str, Any]:
    return {"outcome": outcome, "tools": [_hit(hit) for hit in hits]}


def _hit(hit: Hit) -> dict[str, Any]:
    return _tool(hit.tool) | {"score": hit.score}


def _tool(tool: Tool) -> dict[str, Any]:
    return {"id": tool.id, "server": tool.server, "name": tool.name}
