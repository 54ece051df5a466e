"""What a tool is called where people read it."""

from __future__ import annotations

from toolheads.catalogue import tool_id
from toolheads.domain import Tool


def shown_name(tool: Tool) -> str:
    """`server/name`, or `name` alone."""
    return tool_id(tool.server, tool.name)
