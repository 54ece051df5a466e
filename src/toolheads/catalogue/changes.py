"""Changing a catalogue: one source at a time, under a lock, each file whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from toolheads.catalogue.sources_file import (
    Source,
    checked_source,
    read_sources,
    write_sources,
)
from toolheads.data.datasets import TOOLS_FILE
from toolheads.data.jsonl import LineError, parse_object, shown, to_line
from toolheads.data.records import from_tool, to_tool
from toolheads.domain import Tool
from toolheads.durable import write_whole
from toolheads.errors import ConfigError, DataError, Fault, import_extra

LOCK_FILE = ".lock"
LOCK_TIMEOUT_S = 60.0
"""How long a change waits for others; each takes well below a second."""


@dataclass(frozen=True)
class Changes:
    """What became of the tools of one source; ids."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


def change(
    folder: str | os.PathLike[str],
    name: str,
    tools: Sequence[Tool],
    *,
    source: Source | None,
    dry_run: bool = False,
) -> Changes:
    """Replace the tools of one source, and nothing else.

    Lines of other sources stay as they are to the byte, those that cannot be read included.
    Nothing is written where nothing changes. Several changes at once, from any process, wait for
    each other.

    Args:
        folder: The catalogue; made if need be.
        name: The source; `server` of each tool.
        tools: All tools that the source has now.
        source: How it is reached, kept for the next time; None for a source that is there
            already. If it is gone, nothing changes.
        dry_run: Say what would change and write nothing.

    Raises:
        ConfigError: If the source breaks a rule, or one of that name is of another kind.
        DataError: If a tool is of another source, an id is there twice, also among the tools of
            other sources, a tool cannot be written, or a file of the catalogue cannot be read.
        OSError: If a file cannot be written; the old ones are left.
    """
    root = Path(folder)
    if source is not None:
        checked_source(name, source)
    lines = _new_lines(name, tools)
    with _locked(root, dry_run=dry_run):
        sources = read_sources(root)
        if source is None and (source := sources.get(name)) is None:
            return Changes()
        _refuse_other_kind(name, sources.get(name), source)
        file = _ToolsFile(root / TOOLS_FILE)
        changes = file.replace(name, lines)
        if dry_run:
            return changes
        if sources.get(name) != source:  # first: a source without its tools is mended by a sync
            write_sources(root, sources | {name: source})
        if changes or not file.exists:
            file.write()
    return changes


def drop(folder: str | os.PathLike[str], name: str, *, dry_run: bool = False) -> Changes:
    """Remove a source and its tools.

    Raises:
        ConfigError: If there is no such source.
        DataError: If a file of the catalogue cannot be read.
        OSError: If a file cannot be written.
    """
    root = Path(folder)
    with _locked(root, dry_run=dry_run or not root.is_dir()):
        sources = read_sources(root)
        file = _ToolsFile(root / TOOLS_FILE)
        changes = file.replace(name, {})
        if name not in sources and not changes:
            known = ", ".join(map(shown, sources)) or "none"
            msg = f"the source must be one of {root}: {known}, got {shown(name)}"
            raise ConfigError(msg)
        if dry_run:
            return changes
        if changes:
            file.write()
        if name in sources:  # last: what is left of a kill in between can be dropped again
            write_sources(root, {n: s for n, s in sources.items() if n != name})
    return changes


def _refuse_other_kind(name: str, old: Source | None, new: Source) -> None:
    if old is not None and old["kind"] != new["kind"]:
        msg = (
            f"source {shown(name)} must stay of kind {old['kind']}, got {new['kind']}; choose "
            "another name or drop it first"
        )
        raise ConfigError(msg)


def _new_lines(name: str, tools: Sequence[Tool]) -> dict[str, bytes]:
    lines: dict[str, bytes] = {}
    faults: list[Fault] = []
    refuse: Callable[[str], None] = lambda reason: faults.append(Fault(name, 0, reason))  # noqa: E731
    for tool in tools:
        if tool.server != name:
            refuse(f"{shown(tool.id)} must be of this source, got {shown(tool.server)}")
        if tool.id in lines:
            refuse(f"duplicate id {shown(tool.id)}")
        try:
            lines[tool.id] = to_line(from_tool(tool))
            to_tool(parse_object(lines[tool.id]))  # what could not be read back is not written
        except LineError as e:
            refuse(f"{shown(tool.id)}: {e}")
    if faults:
        msg = f"the tools of source {shown(name)} must be fit to be written"
        raise DataError(msg, faults)
    return lines


@dataclass
class _Line:
    content: bytes
    tool: Tool | None
    """None for a line that is bad, or whose id was there before."""


@dataclass
class _ToolsFile:
    """The lines of a tools file; those of one source can be replaced."""

    path: Path
    exists: bool = field(init=False)
    lines: list[_Line] = field(init=False)

    def __post_init__(self) -> None:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            self.exists, self.lines = False, []
            return
        except OSError as e:
            msg = f"{self.path} must be readable, got: {e.strerror or e}"
            raise DataError(msg, [Fault(str(self.path), 0, str(e))]) from e
        self.exists = True
        content = content.removeprefix(b"\xef\xbb\xbf")
        self.lines = [_Line(line, _parsed(line)) for line in content.split(b"\n") if line.strip()]

    def replace(self, server: str, new: Mapping[str, bytes]) -> Changes:
        """Put the new lines of a source in the place of its old ones, added ones at the end."""
        kept: list[_Line] = []
        changed: list[str] = []
        same: list[str] = []
        removed: list[str] = []
        left = dict(new)
        for line in self.lines:
            tool = line.tool
            if tool is None or tool.server != server:
                if tool is not None and tool.id in new:
                    msg = (
                        f"{shown(tool.id)} of source {shown(server)} must have an id of its own, "
                        f"got that of a tool of source {shown(tool.server)}"
                    )
                    raise DataError(msg)
                kept.append(line)
            elif (content := left.pop(tool.id, None)) is None:
                if tool.id not in new:  # else: the second line of one id
                    removed.append(tool.id)
            elif content == line.content or content == to_line(from_tool(tool)):
                same.append(tool.id)
                kept.append(line)
            else:
                changed.append(tool.id)
                kept.append(_Line(content, tool))
        kept += [_Line(content, None) for content in left.values()]
        self.lines = kept
        return Changes(tuple(left), tuple(changed), tuple(dict.fromkeys(removed)), tuple(same))

    def write(self) -> None:
        write_whole(self.path, b"".join(line.content + b"\n" for line in self.lines))


def _parsed(line: bytes) -> Tool | None:
    try:
        return to_tool(parse_object(line))
    except LineError:
        return None


@contextmanager
def _locked(folder: Path, *, dry_run: bool) -> Iterator[None]:
    if dry_run:  # writes nothing, so that it works on a folder that only others may write to
        yield
        return
    filelock = import_extra("filelock", user="catalogue", extra="ingest")
    folder.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(folder / LOCK_FILE, timeout=LOCK_TIMEOUT_S)
    try:
        lock.acquire()
    except filelock.Timeout as e:
        msg = (
            f"{folder} must be free to change within {LOCK_TIMEOUT_S:.0f} s, got none: another "
            "process holds it"
        )
        raise ConfigError(msg) from e
    try:
        yield
    finally:
        lock.release()
