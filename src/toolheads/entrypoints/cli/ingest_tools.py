"""`toolheads ingest tools`: the tools of a file."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolheads.catalogue import Source, source_name, tool_id
from toolheads.data import read_tools
from toolheads.data.datasets import TOOLS_FILE
from toolheads.data.files import OnFaults
from toolheads.data.jsonl import shown, whole_file_error
from toolheads.domain import Tool
from toolheads.entrypoints.cli.catalogue_changes import (
    Listed,
    Listing,
    add_change_options,
    add_out_option,
    apply,
    warn_of_faults,
)
from toolheads.errors import ConfigError, Fault, ToolheadsError
from toolheads.sources.lists import from_anthropic, from_mcp, from_openai


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "tools",
        help="tools of a file",
        description=(
            "Take the tools of a file into a catalogue: JSONL with a tool a line (id, name, "
            "description, input_schema), or .json with a list of tools as it is sent to OpenAI or "
            "Anthropic, or as an MCP server gives it. They can be found and not called. What "
            "cannot be read is left out and told."
        ),
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="JSONL, or .json with a list")
    parser.add_argument("--name", required=True, help="name of the source")
    add_out_option(parser)
    add_change_options(parser)
    parser.set_defaults(run=_ingest)


def list_sources(sources: Mapping[str, Source], timeout_s: float) -> Listing:
    """Read files again. See `toolheads.entrypoints.cli.catalogue_changes.Lister`."""
    return {name: _listed(name, source) for name, source in sources.items()}


def _ingest(args: argparse.Namespace) -> int:
    if args.file.resolve() == (args.out / TOOLS_FILE).resolve():
        msg = f"file must not be that of the catalogue itself, got {args.file}"
        raise ConfigError(msg)
    warn_of_faults(args.out)
    source = {"kind": "tools", "path": str(args.file.resolve())}
    listing = list_sources({source_name(args.name): source}, args.timeout)
    return apply(args.out, listing, dry_run=args.dry_run, allow_empty=args.allow_empty)


def _listed(name: str, source: Source) -> Listed | ToolheadsError:
    faults: list[Fault] = []
    path = Path(source["path"])
    read = _read_list if path.suffix.lower() == ".json" else read_tools
    try:
        tools = read(path, skip_bad=True, on_faults=faults.extend)
    except ToolheadsError as e:
        return e
    return Listed(source, [_moved(name, tool) for tool in tools], [str(fault) for fault in faults])


def _read_list(path: Path, *, skip_bad: bool, on_faults: OnFaults) -> list[Tool]:
    """Read a list of tools in whichever of the three forms its entries are.

    Raises:
        DataError: If the file cannot be read or is no such list.
    """
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as e:
        reason = (e.strerror if isinstance(e, OSError) else None) or str(e)
        raise whole_file_error(path, f"the file must be JSON, got: {reason}") from e
    entries = content.get("tools") if isinstance(content, dict) else content
    if not isinstance(entries, list):
        raise whole_file_error(path, f"the file must hold a list of tools, got {shown(content)}")
    names = {name for entry in entries if isinstance(entry, dict) for name in entry}
    if names & {"function", "parameters"}:
        return from_openai(entries, skip_bad=skip_bad, on_faults=on_faults)
    if "inputSchema" in names:
        return from_mcp(entries, skip_bad=skip_bad, on_faults=on_faults)
    return from_anthropic(entries, skip_bad=skip_bad, on_faults=on_faults)


def _moved(name: str, tool: Tool) -> Tool:
    """A tool of a file as a tool of its source; its id stays unique, since it was in the file."""
    extra: dict[str, Any] = {**tool.extra, "kind": "tools"}
    if tool.server is not None and tool.server != name:
        extra["origin"] = tool.server
    return Tool(tool_id(name, tool.id), tool.name, name, tool.description, tool.input_schema, extra)
