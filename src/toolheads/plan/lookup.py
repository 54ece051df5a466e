"""Finding a tool of a catalogue by a name that people and models write in their own way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from toolheads.data.jsonl import shown
from toolheads.domain import Tool
from toolheads.errors import ConfigError

_ENDING = re.compile(r"(request|input|args|params|call|message|msg)$")


def checked_tools(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """A catalogue whose tools can be told apart.

    Raises:
        ConfigError: If an id is there twice.
    """
    catalogue = tuple(tools)
    seen: set[str] = set()
    for tool in catalogue:
        if tool.id in seen:
            msg = f"tools must have ids of their own, got {shown(tool.id)} twice"
            raise ConfigError(msg)
        seen.add(tool.id)
    return catalogue


def squeezed(name: str) -> str:
    """Letters and digits of any script alone, without case: `read_file` and `ReadFile` agree."""
    return "".join(c for c in name.casefold() if c.isalnum())


def find_tool(tools: Iterable[Tool], name: str) -> Tool | None:
    """The tool that a name means, if it is one.

    The id or name as it is; else the one whose letters and digits are those; else the one that
    fits once an ending such as `_request` or `Args` is taken off. Two that fit are none.

    Args:
        tools: The catalogue.
        name: Such as `read_file`, `ReadFile` or `read_file_request`.
    """
    listed = list(tools)
    for exact in (
        [tool for tool in listed if tool.id == name],
        [tool for tool in listed if tool.name == name],
    ):
        if exact:
            return _only(exact)
    wanted = squeezed(name)
    for letters in dict.fromkeys([wanted, _ENDING.sub("", wanted)]):
        found = [t for t in listed if letters and letters in (squeezed(t.name), squeezed(t.id))]
        if found:
            return _only(found)
    return None


def kept_rows(tools: Sequence[Tool], keep: Iterable[str]) -> list[int]:
    """Rows of the tools that are to be kept, each once, in the order they are named.

    Raises:
        ConfigError: If a name is that of no tool, or of several.
    """
    if isinstance(keep, str):
        msg = f"keep must be several names, got the text {keep!r:.80}; put it in a list"
        raise ConfigError(msg)
    row_of = {id(tool): row for row, tool in enumerate(tools)}
    rows: list[int] = []
    for name in keep:
        if (tool := find_tool(tools, str(name))) is None:
            near = get_close_matches(str(name), [t.name for t in tools], n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            msg = f"keep must name one tool of the catalogue each, got {shown(name)}{hint}"
            raise ConfigError(msg)
        rows.append(row_of[id(tool)])
    return list(dict.fromkeys(rows))


def _only(found: Sequence[Tool]) -> Tool | None:
    return found[0] if len(found) == 1 else None
