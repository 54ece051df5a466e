"""A file of tools in one of the shapes they come in, and the same file with fewer of them."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolheads.data import read_tools, write_tools
from toolheads.data.files import OnFaults
from toolheads.data.jsonl import LineError, parse_object, shown, whole_file_error
from toolheads.data.records import RecordError, to_tool
from toolheads.domain import Tool
from toolheads.durable import write_whole
from toolheads.errors import DataError, Fault
from toolheads.sources.lists import from_anthropic, from_mcp, from_openai

MOST_BYTES = 256 * 2**20
"""A larger JSON file is refused: it is read as a whole."""

_LISTS: Mapping[str, tuple[str, Callable[..., list[Tool]]]] = {
    "openai": ("parameters", from_openai),
    "anthropic": ("input_schema", from_anthropic),
    "mcp": ("inputSchema", from_mcp),
}
"""Shape → the field that has the schema, and what reads a list."""


@dataclass(frozen=True)
class CatalogueFile:
    """Tools, and what their file had besides."""

    shape: str
    """`jsonl`, `records` (the same objects in one JSON list), `openai`, `anthropic` or `mcp`."""
    tools: tuple[Tool, ...]
    entries: Mapping[str, Mapping[str, Any]]
    """tool_id → the object it was read from; empty for `jsonl`."""
    around: Mapping[str, Any] | None = None
    """The object that holds the list as its `tools`; None where the list is the file."""

    def write(self, path: str | os.PathLike[str], tools: Sequence[Tool]) -> None:
        """Write some of the tools, in the shape they came in, whole or not at all.

        Args:
            path: The file to write.
            tools: Tools of this file; the schema of one may differ from what it was.

        Raises:
            DataError: If there is no tool to write.
            OSError: If it cannot be written.
        """
        if self.shape == "jsonl":
            write_tools(path, [_as_one_schema(tool) for tool in tools])
            return
        was = {tool.id: tool for tool in self.tools}
        listed = [self._entry(tool, was[tool.id]) for tool in tools]
        whole = listed if self.around is None else {**self.around, "tools": listed}
        text = json.dumps(whole, indent=2, ensure_ascii=False)
        write_whole(path, text.encode("utf-8", "surrogatepass"), b"\n")

    def _entry(self, tool: Tool, was: Tool) -> Mapping[str, Any]:
        entry = self.entries[tool.id]
        if tool.input_schema == was.input_schema:
            return entry
        if self.shape == "records":
            name = "input_schema" if "input_schema" in entry else "inputSchema"
            return {**entry, name: tool.input_schema}
        name, _ = _LISTS[self.shape]
        if isinstance(entry.get("function"), Mapping):
            return {**entry, "function": {**entry["function"], name: tool.input_schema}}
        return {**entry, name: tool.input_schema}


def read_catalogue_file(
    path: str | os.PathLike[str], *, skip_bad: bool = False, on_faults: OnFaults | None = None
) -> CatalogueFile:
    """Read the tools of a file.

    Args:
        path: JSONL as `read_tools` reads it; or JSON, a list of tools or an object with one under
            `tools`, as they are sent to OpenAI or Anthropic, as an MCP server lists them, or as
            the lines of the JSONL are.
        skip_bad: Carry on without the tools that have faults.
        on_faults: Told what `skip_bad` left out.

    Raises:
        DataError: If the file cannot be read, a tool has a fault and `skip_bad` is off, or no tool
            is left.
    """
    found = _json_of(Path(path))
    if found is None:
        tools = read_tools(path, skip_bad=skip_bad, on_faults=on_faults)
        return CatalogueFile("jsonl", tuple(tools), {})
    listed = found["tools"] if isinstance(found, Mapping) else found
    if not isinstance(listed, list) or not listed:
        raise whole_file_error(Path(path), f"its tools must be a list, got {shown(listed)}")
    shape = _shape_of(Path(path), listed)
    if shape == "records":
        read: list[Tool] = _records(Path(path), listed, skip_bad=skip_bad, on_faults=on_faults)
    else:
        read = _LISTS[shape][1](listed, skip_bad=skip_bad, on_faults=on_faults)
    if not read:
        raise whole_file_error(Path(path), "the file must have a tool without faults, got none")
    key = "id" if shape == "records" else "name"
    entries: dict[str, Mapping[str, Any]] = {}
    for entry in listed:
        if isinstance(entry, Mapping):
            inner = entry.get("function", entry) if shape == "openai" else entry
            entries.setdefault(str(inner.get(key)), entry)
    around = found if isinstance(found, Mapping) else None
    return CatalogueFile(shape, tuple(read), entries, around)


def _json_of(path: Path) -> list[Any] | Mapping[str, Any] | None:
    """A JSON file whole; None for lines of JSON, and for what `read_tools` has the words for."""
    try:
        with path.open("rb") as file:
            start = file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
            if not start.startswith((b"[", b"{")) or path.stat().st_size > MOST_BYTES:
                return None
            file.seek(0)
            whole = file.read()
    except OSError:
        return None
    try:
        found = json.loads(whole.decode("utf-8-sig"))
    except (ValueError, RecursionError) as e:
        if start.startswith(b"["):
            raise whole_file_error(path, f"the file must be JSON: {e!s:.200}") from e
        return None
    is_list = isinstance(found, list) or (isinstance(found, dict) and "tools" in found)
    return found if is_list else None


def _shape_of(path: Path, listed: Sequence[Any]) -> str:
    shapes = dict.fromkeys(shape for entry in listed if (shape := _entry_shape(entry)))
    if len(shapes) > 1:
        raise whole_file_error(path, f"its tools must be of one shape, got {' and '.join(shapes)}")
    return next(iter(shapes), "mcp")


def _entry_shape(entry: Any) -> str | None:
    """The shape that one entry tells; None where it fits several."""
    if not isinstance(entry, Mapping):
        return None
    if "id" in entry:
        return "records"
    if "function" in entry or "parameters" in entry:
        return "openai"
    if "inputSchema" in entry:
        return "mcp"
    return "anthropic" if "input_schema" in entry else None


def _records(
    path: Path, listed: Sequence[Any], *, skip_bad: bool, on_faults: OnFaults | None
) -> list[Tool]:
    tools: dict[str, Tool] = {}
    faults: list[Fault] = []
    for number, entry in enumerate(listed, 1):
        try:
            # Written and read as a line, so that what a line may not hold is refused here too.
            tool = to_tool(parse_object(json.dumps(entry).encode()))
        except RecordError as e:
            faults += [Fault(f"{path}: tool", number, reason) for reason in e.reasons]
            continue
        except LineError as e:
            faults.append(Fault(f"{path}: tool", number, str(e)))
            continue
        if tool.id in tools:
            faults.append(Fault(f"{path}: tool", number, f"duplicate id {shown(tool.id)}"))
        else:
            tools[tool.id] = tool
    if faults and not skip_bad:
        msg = f"{path} must have no fault, got {len(faults)}; mend them or skip them (--skip-bad)"
        raise DataError(msg, faults)
    if faults and on_faults:
        on_faults(faults)
    return list(tools.values())


def _as_one_schema(tool: Tool) -> Tool:
    """A tool that came as `inputSchema` goes out as such, with the schema that it has now."""
    if "inputSchema" not in tool.extra or tool.extra["inputSchema"] == tool.input_schema:
        return tool
    return dataclasses.replace(tool, extra={**tool.extra, "inputSchema": tool.input_schema})
