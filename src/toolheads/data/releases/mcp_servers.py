"""Releases of MCP servers' tools: LiveMCPBench with its tasks, and MCP-Zero's catalogue."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from toolheads.data.releases.documentation import typed_parameter
from toolheads.data.releases.ids import ToolsById, server_and_name
from toolheads.data.releases.release import Converted
from toolheads.data.releases.rows import read_json, whole_text, whole_value
from toolheads.domain import Query, Tool
from toolheads.errors import DataError

MCP_ZERO_FILE = "mcp_tools_with_embedding.json"
_LIVE_TOOLS = ("tools/tools.json", "tools/LiveMCPTool/tools.json")
_LIVE_TASKS = ("tasks/tasks.json", "annotated_data/all_annotations.json")
_NUMBER = re.compile(r"^\s*\d+\s*[.)]\s*")


def convert_livemcpbench(folder: Path) -> Converted:
    """Read LiveMCPBench, in the layout of the Hub or of its repository.

    A task names its tools without their server: every tool of a name is relevant. A task none of
    whose tools is in the catalogue is left out.

    Raises:
        DataError: If the files are not the release's.
    """
    left_out: Counter[str] = Counter()
    kept = ToolsById(left_out)
    by_name: dict[str, list[str]] = {}
    path = _first_of(folder, _LIVE_TOOLS)
    for entry in _objects(read_json(path, list), path, ("name", "tools")):
        for key, listing in _items(entry["tools"], path):
            for one in _objects(listing.get("tools"), path, ("name",)):
                tool_id = kept.add(_live_tool(one, str(entry["name"]), key))
                by_name.setdefault(str(one["name"]), []).append(tool_id)
    queries = []
    path = _first_of(folder, _LIVE_TASKS)
    for task in _objects(read_json(path, list), path, ("task_id", "Question")):
        names = _named_tools(task, path)
        left_out["names of tools that no server has"] += sum(name not in by_name for name in names)
        relevant = [tool_id for name in names for tool_id in by_name.get(name, ())]
        if not relevant:
            left_out["tasks without a tool of the catalogue"] += 1
            continue
        queries.append(
            Query(
                id=str(task["task_id"]),
                text=whole_text(str(task["Question"])),
                relevance=dict.fromkeys(relevant, 1),
                extra={"category": str(task.get("category") or "")},
            )
        )
    return Converted(kept.tools(), queries, +left_out)


def convert_mcp_zero(folder: Path) -> Converted:
    """Read MCP-Zero's catalogue of servers; it has no queries. Its vectors are dropped.

    Raises:
        DataError: If the file is not the release's.
    """
    left_out: Counter[str] = Counter()
    kept = ToolsById(left_out)
    path = _first_of(folder, (MCP_ZERO_FILE, f"MCP-tools/{MCP_ZERO_FILE}"))
    for server in _objects(read_json(path, list), path, ("server_name", "tools")):
        about = {
            name: whole_text(value)
            for name in ("server_description", "server_summary")
            if isinstance(value := server.get(name), str) and value
        }
        for one in _objects(server["tools"], path, ("name",)):
            kept.add(_mcp_zero_tool(one, str(server["server_name"]), about))
    return Converted(kept.tools(), [], +left_out)


def _live_tool(one: dict[str, Any], server: str, key: str) -> Tool:
    schema = one.get("inputSchema")
    annotations = one.get("annotations")
    return Tool(
        id=server_and_name(key, whole_text(str(one["name"]))),
        name=whole_text(str(one["name"])),
        server=whole_text(server),
        description=whole_text(str(one.get("description") or "")),
        input_schema=whole_value(schema) if isinstance(schema, dict) else None,
        extra={"annotations": whole_value(annotations)} if annotations else {},
    )


def _mcp_zero_tool(one: dict[str, Any], server: str, about: dict[str, str]) -> Tool:
    given = one.get("parameter")
    listed = {
        whole_text(str(name)): typed_parameter(whole_text(str(text)))
        for name, text in (given.items() if isinstance(given, dict) else ())
    }
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: made for name, (made, _) in listed.items()},
    }
    if required := [name for name, (_, is_required) in listed.items() if is_required]:
        schema["required"] = required
    name = whole_text(str(one["name"]))
    return Tool(
        id=server_and_name(whole_text(server), name),
        name=name,
        server=whole_text(server),
        description=whole_text(str(one.get("description") or "")),
        input_schema=schema,
        extra=dict(about),
    )


def _named_tools(task: dict[str, Any], path: Path) -> list[str]:
    """Names of a numbered list, each once."""
    metadata = task.get("Annotator Metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("Tools"), str):
        msg = (
            f"task {task['task_id']!r} of {path} must list its tools under Annotator Metadata, "
            f"got {metadata!r:.60}"
        )
        raise DataError(msg)
    names = (_NUMBER.sub("", line).strip() for line in metadata["Tools"].splitlines())
    return list(dict.fromkeys(name for name in names if name))


def _first_of(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    msg = f"{folder} must hold {' or '.join(names)}, got neither"
    raise DataError(msg)


def _objects(value: Any, path: Path, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """A list of objects that each have these fields."""
    if not isinstance(value, list):
        msg = f"{path} must hold a list of objects with {', '.join(names)}, got {value!r:.60}"
        raise DataError(msg)
    for one in value:
        if not isinstance(one, dict) or any(one.get(name) in (None, "") for name in names):
            msg = f"{path} must hold objects with {', '.join(names)}, got {one!r:.80}"
            raise DataError(msg)
    return value


def _items(value: Any, path: Path) -> list[tuple[str, dict[str, Any]]]:
    if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
        msg = f"{path} must map a server's key to its listing under tools, got {value!r:.60}"
        raise DataError(msg)
    return list(value.items())
