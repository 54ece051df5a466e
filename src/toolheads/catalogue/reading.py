"""A catalogue as it is read: what is good, and what was left out and why."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from toolheads.catalogue.sources_file import SOURCES_FILE, Source, read_sources
from toolheads.data.datasets import TOOLS_FILE
from toolheads.data.files import scan_file
from toolheads.data.jsonl import to_line, whole_file_error
from toolheads.data.records import from_tool, to_tool
from toolheads.domain import Tool
from toolheads.errors import DataError, Fault


@dataclass(frozen=True)
class Catalogue:
    """Tools that are served together, and where they come from."""

    tools: tuple[Tool, ...]
    """In file order, each id once."""
    sources: Mapping[str, Source]
    """Name → how it is reached; `Tool.server` is such a name."""
    faults: tuple[Fault, ...] = ()
    """Lines that were left out, and a `sources.json` that could not be read."""
    line_keys: tuple[bytes, ...] = ()
    """Of the line of each tool, see `read_catalogue`; empty for tools that come from no file."""

    @cached_property
    def digest(self) -> str:
        """See `tools_digest`."""
        return tools_digest(self.tools)


def tools_digest(tools: Iterable[Tool]) -> str:
    """sha256 of a set of tools, 64 hex digits; their order does not matter."""
    return joined_digest(tool_digest(tool) for tool in tools)


def tool_digest(tool: Tool) -> bytes:
    """sha256 of one tool, 32 bytes."""
    return hashlib.sha256(to_line(from_tool(tool))).digest()


def joined_digest(digests: Iterable[bytes]) -> str:
    """`tools_digest` of a set of tools, from the `tool_digest` of each."""
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()


def read_catalogue(
    where: str | os.PathLike[str],
    *,
    allow_empty: bool = False,
    known: Mapping[bytes, Tool] | None = None,
) -> Catalogue:
    """Read a catalogue; a bad line costs that line, a duplicate id the later one.

    Args:
        where: Its folder, or a tools file alone.
        allow_empty: Whether a file without any good line is a catalogue of no tools.
        known: Key of a line → its tool, as `line_keys` of an earlier reading gave them: these
            lines are not read again, and give the same objects.

    Raises:
        DataError: If there is no tools file, it cannot be read, or `allow_empty` is off and it
            holds no tool.
    """
    path = Path(where)
    folder = path if path.is_dir() else None
    file = path / TOOLS_FILE if folder else path
    scan = scan_file(file, to_tool, allow_empty=True, known=known)
    faults = scan.faults
    if not scan.items and not allow_empty:
        if not faults:
            raise whole_file_error(file, "the file must have at least one tool, got none")
        msg = f"{file} must have a line without faults, got none"
        raise DataError(msg, faults)
    sources: Mapping[str, Source] = {}
    if folder:
        try:
            sources = read_sources(folder)
        except DataError as e:
            faults = [*faults, *(e.faults or (Fault(str(folder / SOURCES_FILE), 0, str(e)),))]
    return Catalogue(tuple(scan.items), sources, tuple(faults), tuple(scan.keys))
