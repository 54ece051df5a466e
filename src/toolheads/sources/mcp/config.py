"""Config files of MCP clients: `mcpServers` as most write them, `servers` as VS Code does.

Nothing is expanded here: a source keeps `${VAR}` as the file has it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolheads.catalogue import Source, source_name
from toolheads.catalogue.sources_file import source_faults
from toolheads.data.jsonl import shown
from toolheads.errors import ConfigError, Fault

_STDIO = frozenset({"stdio", "local"})
_HTTP = frozenset({"http", "streamable-http", "streamable_http", "streamablehttp"})
_URL_FIELDS = ("url", "httpUrl", "serverUrl")
_COMMENT_OR_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMA_OR_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|,(?=\s*[}\]])', re.DOTALL)


@dataclass(frozen=True)
class ClientConfig:
    """What one config file says."""

    sources: Mapping[str, Source]
    skipped: tuple[str, ...] = ()
    """Names of servers that are switched off."""
    faults: Mapping[str, Fault] | None = None
    """Name → why a server cannot be used; the others can."""


def read_client_config(path: Path) -> ClientConfig:
    """Read a config file of an MCP client; comments and trailing commas are allowed.

    Raises:
        ConfigError: If the file as a whole cannot be used.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else e
        msg = f"config must be a file that can be read, got {path}: {reason}"
        raise ConfigError(msg) from e
    entries = _entries(path, _parsed(path, text))
    sources: dict[str, Source] = {}
    skipped: list[str] = []
    faults: dict[str, Fault] = {}
    for name, entry in entries.items():
        if isinstance(entry, Mapping) and (entry.get("disabled") is True or _is_off(entry)):
            skipped.append(name)
            continue
        try:
            sources[name] = to_source(name, entry)
        except ConfigError as e:
            faults[name] = Fault(str(path), 0, str(e))
    return ClientConfig(sources, tuple(skipped), faults)


def to_source(name: str, entry: Any) -> Source:
    """Read one server of a config file.

    Raises:
        ConfigError: If it breaks a rule, or is reached in a way that is not supported.
    """
    source_name(name)
    about = f"server {shown(name)}"
    if not isinstance(entry, Mapping):
        msg = f"{about} must be an object, got {shown(entry)}"
        raise ConfigError(msg)
    urls = [entry[field] for field in _URL_FIELDS if entry.get(field) is not None]
    kind = entry.get("type") or entry.get("transport") or ("http" if urls else "stdio")
    if kind == "sse":
        msg = (
            f"{about} must speak stdio or streamable HTTP, got sse, which the protocol gave up; "
            "most such servers also answer at /mcp with type http"
        )
        raise ConfigError(msg)
    if not isinstance(kind, str) or kind.lower() not in _STDIO | _HTTP:
        msg = f"type of {about} must be stdio, http or streamable-http, got {shown(kind)}"
        raise ConfigError(msg)
    if entry.get("envFile") is not None:
        msg = f"{about} must have its variables in env, got envFile {shown(entry['envFile'])}"
        raise ConfigError(msg)
    if kind.lower() in _HTTP:
        given: dict[str, Any] = {"url": urls[0] if urls else None, "headers": entry.get("headers")}
    else:
        given = {field: entry.get(field) for field in ("command", "args", "env", "cwd")}
    source = {"kind": "mcp"} | {field: value for field, value in given.items() if value is not None}
    if faults := source_faults(name, source):
        raise ConfigError("; ".join(faults))
    return source


def server_argument(text: str) -> tuple[str, Source]:
    """Read `NAME=URL` or `NAME=COMMAND ARGUMENTS…` of the command line.

    Raises:
        ConfigError: If it is neither.
    """
    name, equals, where = text.partition("=")
    if not equals or not where.strip():
        msg = f"server must be NAME=URL or NAME=COMMAND, got {shown(text)}"
        raise ConfigError(msg)
    name, where = name.strip(), where.strip()
    if where.startswith(("http://", "https://")):
        return name, to_source(name, {"url": where})
    try:
        command, *args = shlex.split(where)
    except ValueError as e:
        msg = f"server {shown(name)} must be a command as a shell reads it, got {shown(where)}: {e}"
        raise ConfigError(msg) from e
    return name, to_source(name, {"command": command, "args": args})


def _parsed(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        pass
    except RecursionError as e:
        msg = f"config must be a JSON object, got one nested too deep: {path}"
        raise ConfigError(msg) from e
    try:
        bare = _COMMENT_OR_STRING.sub(lambda m: m[0] if m[0].startswith('"') else " ", text)
        return json.loads(_COMMA_OR_STRING.sub(lambda m: m[0] if m[0] != "," else "", bare))
    except (ValueError, RecursionError) as e:
        msg = f"config must be JSON, got {path}: {e}"
        raise ConfigError(msg) from e


def _entries(path: Path, record: Any) -> dict[str, Any]:
    if isinstance(record, dict) and isinstance(record.get("mcp"), dict):  # settings of VS Code
        record = record["mcp"] | record
    groups = (
        [record[key] for key in ("mcpServers", "servers") if key in record]
        if isinstance(record, dict)
        else []
    )
    if not groups or not all(isinstance(group, dict) for group in groups):
        msg = f"config must have an object mcpServers or servers, got none in {path}"
        raise ConfigError(msg)
    entries: dict[str, Any] = {}
    for group in groups:
        if both := entries.keys() & group.keys():
            msg = f"config must name each server once, got {shown(min(both))} twice in {path}"
            raise ConfigError(msg)
        entries |= group
    return entries


def _is_off(entry: Mapping[str, Any]) -> bool:
    return entry.get("enabled") is False
