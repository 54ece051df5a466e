"""Catalogues as one JSON array of tools, as hosts of the Model Context Protocol keep them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from toolheads.data.jsonl import MOST_LEVELS, shown
from toolheads.domain import Tool
from toolheads.errors import DataError, Fault

_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint")
_KNOWN = ("id", "server", "name", "description", "input_schema", "inputSchema")
_OPENING = re.compile(r"[\[{]")


def read_tools_json(text: str, *, path: str = "tools") -> tuple[Tool, ...]:
    """Read tools from a JSON array.

    Each has `server`, `name` and `description`, and may have `input_schema` or `inputSchema`, and
    `annotations` with hints that are true, false, null or absent. Server and name may occur twice.
    Ids are `server/name` unless given; a later tool with an id that is taken gets a number.

    Args:
        text: The JSON.
        path: What errors call it.

    Raises:
        DataError: If it is no JSON array, with every fault of every tool.
    """
    try:
        entries = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as e:
        raise _whole(path, f"it must be JSON, got {e}") from e
    if not isinstance(entries, list):
        raise _whole(path, f"it must be a JSON array of tools, got {shown(entries)}")
    if len(_OPENING.findall(text)) > MOST_LEVELS and _levels(entries) > MOST_LEVELS:
        raise _whole(path, f"it must have at most {MOST_LEVELS} levels, got more")
    faults: list[Fault] = []
    tools: list[Tool] = []
    taken: set[str] = set()
    for number, entry in enumerate(entries, 1):
        reasons = _reasons(entry)
        faults += [Fault(path, 0, f"tool {number}: {reason}") for reason in reasons]
        if not reasons:
            tools.append(_tool(entry, taken))
            taken.add(tools[-1].id)
    if faults:
        msg = f"{path} must have no fault, got {len(faults)}"
        raise DataError(msg, faults)
    return tuple(tools)


def _reasons(entry: object) -> list[str]:
    if not isinstance(entry, Mapping):
        return [f"a tool must be an object, got {shown(entry)}"]
    reasons = [
        f"{name} must be a string, got {shown(entry.get(name))}"
        if name in entry
        else f"{name} is missing"
        for name in ("server", "name", "description")
        if not isinstance(entry.get(name), str)
    ]
    if "id" in entry and not (isinstance(entry["id"], str) and entry["id"].strip()):
        reasons.append(f"id must be a string that is not blank, got {shown(entry['id'])}")
    if "input_schema" in entry and "inputSchema" in entry:
        reasons.append("only one of input_schema and inputSchema must be given, got both")
    if "annotations" in entry:
        hints = entry["annotations"]
        if not isinstance(hints, Mapping):
            reasons.append(f"annotations must be an object, got {shown(hints)}")
        else:
            reasons += [
                f"{name} must be true, false or null, got {shown(hints[name])}"
                for name in _HINTS
                if hints.get(name) is not None and type(hints[name]) is not bool
            ]
    return reasons


def _tool(entry: Mapping[str, Any], taken: set[str]) -> Tool:
    schema = entry.get("input_schema", entry.get("inputSchema"))
    plain = entry.get("id") or f"{entry['server']}/{entry['name']}"
    unique, count = plain, 1
    while unique in taken:
        count += 1
        unique = f"{plain}#{count}"
    return Tool(
        id=unique,
        name=entry["name"],
        server=entry["server"],
        description=entry["description"],
        input_schema=schema if isinstance(schema, Mapping) else None,
        extra={name: value for name, value in entry.items() if name not in _KNOWN},
    )


def _levels(value: object) -> int:
    levels, layer = 0, [value]
    while layer:
        levels += 1
        inner: list[object] = []
        for one in layer:
            if isinstance(one, Mapping):
                inner += one.values()
            elif isinstance(one, list):
                inner += one
        layer = inner
    return levels


def _no_constant(name: str) -> NoReturn:
    msg = f"{name} is no JSON number"
    raise ValueError(msg)


def _whole(path: str, reason: str) -> DataError:
    return DataError(f"{path} cannot be read", [Fault(path, 0, reason)])
