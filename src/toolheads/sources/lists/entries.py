"""Lists of tools entry by entry: each is checked, and a bad one is named with its place."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from toolheads.catalogue.names import tool_id
from toolheads.data.files import OnFaults
from toolheads.data.jsonl import LineError, parse_object, shown, to_line
from toolheads.data.records import from_tool, to_tool
from toolheads.domain import Tool
from toolheads.errors import DataError, Fault

MOST_TOOL_BYTES = 256 * 1024
"""A longer tool is a fault: no model could be shown it."""

_log = logging.getLogger(__name__)

Read = Callable[[Mapping[str, Any], str | None], Tool]
"""(entry, source) → tool."""


class EntryError(ValueError):
    """Why an entry is no tool."""


def read_entries(
    entries: Any,
    read: Read,
    *,
    kind: str,
    source: str | None,
    skip_bad: bool,
    on_faults: OnFaults | None,
) -> list[Tool]:
    """Read a list.

    Args:
        entries: Objects, or models of an SDK that can be dumped as such.
        read: Reads one entry, or raises an `EntryError`.
        kind: Name of the list, for faults.
        source: `server` of each tool; None for none.
        skip_bad: Leave out bad entries; the later one of two with the same name is one.
        on_faults: Told what was left out; without it their number is logged.

    Raises:
        DataError: If an entry is bad and `skip_bad` is off, or if it is no list.
    """
    if isinstance(entries, str | bytes | Mapping) or not isinstance(entries, Iterable):
        msg = f"a list of {kind} tools must be a list, got {shown(entries)}"
        raise DataError(msg)
    tools: dict[str, Tool] = {}
    faults: list[Fault] = []
    for number, entry in enumerate(entries, 1):
        try:
            tool = _checked(read(as_object(entry), source))
        except (EntryError, LineError) as e:
            faults.append(Fault(f"{kind} tools", number, str(e)))
            continue
        if tool.id in tools:
            reason = f"name must be there once, got {shown(tool.name)} again"
            faults.append(Fault(f"{kind} tools", number, reason))
        else:
            tools[tool.id] = tool
    if faults and not skip_bad:
        msg = f"a list of {kind} tools must be without faults"
        raise DataError(msg, faults)
    if faults and on_faults:
        on_faults(faults)
    elif faults:
        _log.warning("%d of %s tools left out, first: %s", len(faults), kind, faults[0])
    return list(tools.values())


def as_object(entry: Any) -> Mapping[str, Any]:
    """An entry as an object; a model of pydantic is dumped under its names on the wire.

    Raises:
        EntryError: If it is neither.
    """
    if isinstance(entry, Mapping):
        return entry
    if callable(dump := getattr(entry, "model_dump", None)):
        dumped: Any = dump(mode="json", by_alias=True, exclude_none=True)
        if isinstance(dumped, Mapping):
            return dumped
    msg = f"a tool must be an object, got {shown(entry)}"
    raise EntryError(msg)


def made(
    entry: Mapping[str, Any],
    *,
    source: str | None,
    schema_field: str,
    extra: Mapping[str, Any],
) -> Tool:
    """A tool of an entry's `name`, `description` and schema.

    Raises:
        EntryError: If one of them is not what it must be.
    """
    name = entry.get("name")
    if not isinstance(name, str) or not name.strip():
        msg = f"name must be text that is not empty, got {shown(name)}"
        raise EntryError(msg)
    description = entry.get("description")
    if description is not None and not isinstance(description, str):
        msg = f"description of {shown(name)} must be a string, got {shown(description)}"
        raise EntryError(msg)
    schema = entry.get(schema_field)
    if schema is not None and not isinstance(schema, Mapping):
        msg = f"{schema_field} of {shown(name)} must be an object, got {shown(schema)}"
        raise EntryError(msg)
    return Tool(
        id=tool_id(source, name),
        name=name,
        server=source,
        description=description or "",
        input_schema=None if schema is None else dict(schema),
        extra=dict(extra),
    )


def rest(entry: Mapping[str, Any], *known: str) -> dict[str, Any]:
    """Fields that this package has no name for."""
    return {name: value for name, value in entry.items() if name not in known}


def _checked(tool: Tool) -> Tool:
    """The tool as a catalogue would read it back: JSON, of a size, without lone surrogates."""
    return to_tool(parse_object(to_line(from_tool(tool)), most_bytes=MOST_TOOL_BYTES))
