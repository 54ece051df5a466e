"""Tools as names, and as names with the start of their descriptions."""

from __future__ import annotations

from toolheads.domain import Tool
from toolheads.errors import DataError
from toolheads.plan.formats.block import Format
from toolheads.plan.menu import menu_line


def _read_names(block: str) -> list[Tool]:
    tools = []
    for line in block.splitlines():
        if not line.startswith("- ") or not (name := line[2:].strip()):
            msg = f"a block of names must have lines `- name`, got {line!r:.80}"
            raise DataError(msg)
        tools.append(Tool(name, name))
    return tools


NAMES = Format("names", lambda name, _: menu_line(name), read=_read_names)
NAMES_DESCRIPTIONS = Format(
    "names_descriptions", lambda name, tool: menu_line(name, tool.description)
)
