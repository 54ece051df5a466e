"""What reranking chose, and what it says about how."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from toolheads.domain import Tool
from toolheads.rerank.settings import Method


@dataclass(frozen=True)
class Report:
    """How a list of tools came about. Tools stand in it as `server/name`, or `name` alone."""

    asked: Method
    """The method that was asked for."""
    method: Method
    """The method that ran."""
    reason: str | None
    """Why it was another one; None if it was not."""
    text: str
    """What was ranked on."""
    tools: int
    """How many tools there are."""
    listed: tuple[str, ...]
    """Those that are listed, in order."""
    named: tuple[str, ...] = ()
    """Those that the message names."""
    pinned: tuple[str, ...] = ()
    """Those that are pinned and not named."""
    unknown_pins: tuple[str, ...] = ()
    """Pins that are no tool."""
    topped_up: tuple[str, ...] = ()
    """Those that keyword ranking added to what the method chose."""
    held: tuple[str, ...] = ()
    """Those that are listed because they were before, see `toolheads.rerank.Turns`."""
    matched: bool = True
    """Whether anything matched the message: a shared word, a hit above the floor, a choice of the
    model, or a name. False: the list is as good as any other."""
    notes: tuple[str, ...] = ()
    """What was sent to the chat model and what came of it, a line each."""
    reply: str | None = None
    """The beginning of what the chat model said; None if it was not asked or did not answer."""

    def lines(self) -> Iterator[str]:
        """The report for people, a line for each thing."""
        ran = self.method if self.method == self.asked else f"{self.method}, not {self.asked}"
        yield f"{len(self.listed)} of {self.tools} tools by {ran}"
        if self.reason:
            yield f"why: {self.reason}"
        for name in ("named", "pinned", "unknown_pins", "topped_up", "held"):
            if tools := getattr(self, name):
                yield f"{name.replace('_', ' ')}: {', '.join(tools)}"
        if not self.matched:
            yield "nothing matched the message"
        yield from self.notes

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self)


@dataclass(frozen=True)
class Reranked:
    """Tools for one turn, in order: those named, those pinned, those chosen."""

    tools: tuple[Tool, ...]
    report: Report

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tools; two servers may have one name."""
        return tuple(tool.name for tool in self.tools)

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the tools."""
        return tuple(tool.id for tool in self.tools)
