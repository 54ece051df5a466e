"""`sources.json`: which sources a catalogue has and how each is reached.

    {"version": 1, "sources": {"time": {"kind": "mcp", "command": "mcp-server-time"}}}

A source is a JSON object with a `kind`. Fields this version does not know are kept. References to
variables (`${TOKEN}`) are stored as they are, see `toolheads.catalogue.environment`.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolheads.catalogue.names import source_name
from toolheads.data.jsonl import LineError, parse_object, shown
from toolheads.durable import write_whole
from toolheads.errors import ConfigError, DataError, Fault

SOURCES_FILE = "sources.json"
VERSION = 1
"""The form of the file that this package writes, and the only one it reads."""

Source = Mapping[str, Any]
"""One source: `kind` and what that kind needs.

* `mcp`: either `command` with optional `args`, `env` and `cwd`, or `url` with optional `headers`.
* `openapi`: `spec`, a path or URL, with optional `base_url` and `headers`.
* `tools`: `path` of a file with tools.
"""

_MOST_BYTES = 16 * 2**20
_NEEDED = {"mcp": ("command", "url"), "openapi": ("spec",), "tools": ("path",)}
"""Kind → fields of which it needs exactly one."""
_TEXTS = ("command", "url", "spec", "base_url", "path", "cwd")
_MAPS = ("env", "headers")


def read_sources(folder: Path) -> dict[str, Source]:
    """The sources of a catalogue, by name; none where the file is not there.

    Raises:
        DataError: If the file is damaged; nothing is written to it until it is mended.
    """
    path = folder / SOURCES_FILE
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as e:
        raise _damaged(path, [f"the file cannot be read: {e.strerror or e}"]) from e
    try:
        record = parse_object(content.removeprefix(b"\xef\xbb\xbf"), most_bytes=_MOST_BYTES)
    except LineError as e:
        raise _damaged(path, [str(e)]) from e
    if record.get("version") != VERSION:
        reason = f"version must be {VERSION}, got {shown(record.get('version'))}"
        raise _damaged(path, [reason])
    sources = record.get("sources")
    if not isinstance(sources, dict):
        raise _damaged(path, [f"sources must be an object, got {shown(sources)}"])
    if reasons := [r for name, source in sources.items() for r in source_faults(name, source)]:
        raise _damaged(path, reasons)
    return sources


def write_sources(folder: Path, sources: Mapping[str, Source]) -> None:
    """Write the sources whole or not at all.

    A new file is for its owner alone, since a header may hold a secret; one that is there keeps
    its mode.
    """
    path = folder / SOURCES_FILE
    record = {"version": VERSION, "sources": {name: dict(s) for name, s in sources.items()}}
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
    write_whole(path, text.encode(), mode=mode)


def checked_source(name: str, source: Source) -> Source:
    """A source whose fields keep the rules.

    Raises:
        ConfigError: If one does not.
    """
    if reasons := source_faults(name, source):
        raise ConfigError("; ".join(reasons))
    return source


def source_faults(name: str, source: Any) -> list[str]:
    """What is wrong with a source, a sentence each."""
    try:
        source_name(name)
    except ConfigError as e:
        return [str(e)]
    about = f"source {shown(name)}"
    if not isinstance(source, Mapping):
        return [f"{about} must be an object, got {shown(source)}"]
    kind = source.get("kind")
    if not isinstance(kind, str) or kind not in _NEEDED:
        return [f"kind of {about} must be one of {', '.join(_NEEDED)}, got {shown(kind)}"]
    reasons = [
        f"{field} of {about} must be text that is not empty, got {shown(source[field])}"
        for field in _TEXTS
        if source.get(field) is not None and not _is_text(source[field])
    ]
    given = [field for field in _NEEDED[kind] if source.get(field) is not None]
    if len(given) != 1:
        got = " and ".join(given) or "none"
        reasons.append(f"{about} must have one of {', '.join(_NEEDED[kind])}, got {got}")
    args = source.get("args")
    if args is not None and not (isinstance(args, list) and all(isinstance(a, str) for a in args)):
        reasons.append(f"args of {about} must be a list of strings, got {shown(args)}")
    for field in _MAPS:
        value = source.get(field)
        if value is not None and not (
            isinstance(value, Mapping) and all(isinstance(v, str) for v in value.values())
        ):
            reasons.append(f"{field} of {about} must map names to strings, got {shown(value)}")
    return reasons


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


def _damaged(path: Path, reasons: list[str]) -> DataError:
    msg = f"{path} must be readable as the sources of a catalogue; mend it or restore a copy"
    return DataError(msg, [Fault(str(path), 0, reason) for reason in reasons])
