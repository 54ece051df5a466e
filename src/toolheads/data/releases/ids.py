"""Ids of tools that a release names by server and name only."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from toolheads.domain import Tool


def server_and_name(server: str, name: str) -> str:
    """`server/name`; a slash of the server is escaped, so that two pairs never make one id."""
    return f"{server.replace('%', '%25').replace('/', '%2F')}/{name}"


class ToolsById:
    """Tools in the order they came, each id once.

    A tool that comes again is left out. Another tool of the same id is kept as `id#2`.
    """

    def __init__(self, left_out: Counter[str]) -> None:
        self._left_out = left_out
        self._by_id: dict[str, Tool] = {}
        self._copies: Counter[str] = Counter()

    def add(self, tool: Tool) -> str:
        """Take a tool; gives the id it is kept under."""
        earlier = self._by_id.get(tool.id)
        if earlier is not None and _same(earlier, tool):
            self._left_out["tools that were there before"] += 1
            return tool.id
        if earlier is not None:
            self._copies[tool.id] += 1
            tool = replace(tool, id=f"{tool.id}#{self._copies[tool.id] + 1}")
        self._by_id[tool.id] = tool
        return tool.id

    def tools(self) -> list[Tool]:
        """All of them."""
        return list(self._by_id.values())


def _same(one: Tool, other: Tool) -> bool:
    return (one.description, one.input_schema) == (other.description, other.input_schema)
