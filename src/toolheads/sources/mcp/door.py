"""What a server lists, checked entry by entry before anything else sees it.

One entry that is junk must not cost the others: the SDK parses a page as a whole and refuses all
of it. So a page is mended here first, and says what was left out and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from toolheads.catalogue import tool_id
from toolheads.data.jsonl import LineError, parse_object, shown, to_line
from toolheads.data.records import from_tool, to_tool
from toolheads.domain import Tool
from toolheads.errors import Fault

MOST_NAME_LENGTH = 256
MOST_TOOL_BYTES = 256 * 1024
"""A longer tool is left out: no model could be shown it."""

_LEGACY = "2025-11-25"
"""The strictest form of a list entry among the versions of the protocol."""

_WANTED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
_DISPENSABLE = ("title", "annotations", "outputSchema")
"""Left out of an entry when one of them is what makes it unreadable."""


class EntryError(ValueError):
    """Why an entry of a list is left out."""


def mended_page(result: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A page of `tools/list` that can be parsed, and a reason for each entry left out.

    Args:
        result: The result as the server gave it.
    """
    entries = result.get("tools")
    if not isinstance(entries, list):
        return dict(result) | {"tools": []}, [f"tools must be a list, got {shown(entries)}"]
    kept: list[dict[str, Any]] = []
    reasons: list[str] = []
    for position, entry in enumerate(entries, 1):
        try:
            kept.append(checked_entry(entry))
        except EntryError as e:
            reasons.append(f"entry {position}: {e}")
    page = dict(result) | {"tools": kept}
    cursor = page.get("nextCursor")
    if cursor is not None and not isinstance(cursor, str):
        del page["nextCursor"]
        reasons.append(f"nextCursor must be a string, got {shown(cursor)}; later pages are missing")
    return page, reasons


def checked_entry(entry: Any) -> dict[str, Any]:
    """An entry of a list with the fields that are used, fit to be parsed and to be written.

    A schema that does not say its type is taken for that of an object, and one that is not there
    for that of an object without properties.

    Raises:
        EntryError: If it cannot be used.
    """
    if not isinstance(entry, Mapping):
        msg = f"a tool must be an object, got {shown(entry)}"
        raise EntryError(msg)
    name = entry.get("name")
    if not isinstance(name, str) or not name.strip() or len(name) > MOST_NAME_LENGTH:
        msg = f"name must be 1 to {MOST_NAME_LENGTH} characters, got {shown(name)}"
        raise EntryError(msg)
    if not name.isprintable():
        msg = f"name must be printable, got {shown(name)}"
        raise EntryError(msg)
    schema = {} if entry.get("inputSchema") is None else entry["inputSchema"]
    if not isinstance(schema, Mapping):
        msg = f"inputSchema of {shown(name)} must be an object, got {shown(schema)}"
        raise EntryError(msg)
    bare = {field: entry[field] for field in _WANTED if entry.get(field) is not None}
    bare["inputSchema"] = dict(schema) if "type" in schema else {"type": "object", **schema}
    _check_json(name, bare)
    if _fault(bare) is None:
        return bare
    without = {field: value for field, value in bare.items() if field not in _DISPENSABLE}
    if (reason := _fault(without)) is not None:
        msg = f"{shown(name)}: {reason}"
        raise EntryError(msg)
    return {field: value for field, value in bare.items() if _is_fine(without, field, value)}


def to_tools(
    server: str, entries: Iterable[Mapping[str, Any]], *, most: int
) -> tuple[tuple[Tool, ...], list[str]]:
    """Tools of checked entries; the later one of two with one name is left out.

    Args:
        server: Name of the source.
        entries: As `checked_entry` gives them.
        most: Tools beyond these are left out.

    Returns:
        The tools, and a reason for each one left out.
    """
    tools: dict[str, Tool] = {}
    reasons: list[str] = []
    n_beyond = 0
    for entry in entries:
        name = entry["name"]
        if name in tools:
            reasons.append(f"name must be listed once, got {shown(name)} again")
        elif len(tools) == most:
            n_beyond += 1
        else:
            tools[name] = _to_tool(server, entry)
    if n_beyond:
        reasons.append(f"a server must list at most {most:,} tools, got {n_beyond:,} more")
    return tuple(tools.values()), reasons


def to_faults(server: str, reasons: Sequence[str]) -> tuple[Fault, ...]:
    """Reasons as faults of a server's list."""
    return tuple(Fault(server, 0, reason) for reason in reasons)


def _to_tool(server: str, entry: Mapping[str, Any]) -> Tool:
    extra: dict[str, Any] = {"kind": "mcp"}
    for field, wire in (
        ("title", "title"),
        ("annotations", "annotations"),
        ("output_schema", "outputSchema"),
    ):
        if entry.get(wire):
            extra[field] = entry[wire]
    return Tool(
        id=tool_id(server, entry["name"]),
        name=entry["name"],
        server=server,
        description=entry.get("description") or "",
        input_schema=entry["inputSchema"],
        extra=extra,
    )


def _check_json(name: str, entry: Mapping[str, Any]) -> None:
    """Refuse what a line of a catalogue could not hold: too long, too deep, NaN, surrogates."""
    try:
        line = to_line(entry)
        parse_object(line, most_bytes=MOST_TOOL_BYTES)
        if isinstance(entry.get("description", ""), str):
            to_tool(from_tool(_to_tool("server", entry)))
    except (LineError, RecursionError) as e:
        msg = f"{shown(name)}: {e}"
        raise EntryError(msg) from e


def _fault(entry: Mapping[str, Any]) -> str | None:
    """Why the SDK would refuse an entry; None if it would not."""
    try:
        validate_server_result("tools/list", _LEGACY, {"tools": [entry]})
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"][2:])
        return f"{place or 'the entry'}: {first['msg']}"
    return None


def _is_fine(without: Mapping[str, Any], field: str, value: Any) -> bool:
    return field in without or _fault({**without, field: value}) is None
