"""How an MCP server is reached, with the environment put in, and how long it may take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from toolheads.catalogue import Source, expand
from toolheads.catalogue.sources_file import checked_source
from toolheads.data.jsonl import shown
from toolheads.errors import ConfigError


@dataclass(frozen=True)
class McpSettings:
    """Limits of what a server may take."""

    start_timeout_s: float = 30.0
    """Longest time from starting a server, or connecting to it, to the end of the handshake."""
    list_timeout_s: float = 30.0
    """Longest time for all pages of its list of tools."""
    most_tools: int = 10_000
    """Tools of one server; what is listed beyond them is left out."""

    def __post_init__(self) -> None:
        for name in ("start_timeout_s", "list_timeout_s"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                msg = f"mcp.{name} must be > 0 and finite, got {value}"
                raise ConfigError(msg)
        if self.most_tools < 1:
            msg = f"mcp.most_tools must be >= 1, got {self.most_tools}"
            raise ConfigError(msg)


@dataclass(frozen=True)
class McpServer:
    """One server: a command that speaks over its standard input and output, or a URL."""

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The command or the URL without query and credentials, for errors."""
        if self.url is None:
            return f"command {shown(self.command)}"
        bare = self.url.partition("?")[0].partition("#")[0]
        scheme, separator, rest = bare.partition("://")
        host, slash, path = rest.partition("/")
        return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


def to_server(name: str, source: Source, *, headers: Mapping[str, str] | None = None) -> McpServer:
    """Read a source of a catalogue.

    Args:
        name: The source.
        source: Its entry in `sources.json`.
        headers: Sent over those of the source; nothing for a command.

    Raises:
        ConfigError: If the source breaks a rule, is of another kind, or refers to a variable that
            is not set.
    """
    checked_source(name, source)
    if source["kind"] != "mcp":
        msg = f"kind of source {shown(name)} must be mcp, got {source['kind']}"
        raise ConfigError(msg)
    values = expand(dict(source), user=f"source {shown(name)}")
    url = values.get("url")
    if url is None:
        return McpServer(
            name,
            command=values["command"],
            args=tuple(values.get("args") or ()),
            env=values.get("env") or {},
            cwd=values.get("cwd"),
        )
    if not url.startswith(("http://", "https://")):
        msg = f"url of source {shown(name)} must begin with http:// or https://, got {shown(url)}"
        raise ConfigError(msg)
    own = values.get("headers") or {}
    given = {key.lower() for key in headers or {}}
    kept = {key: value for key, value in own.items() if key.lower() not in given}
    return McpServer(name, url=url, headers=kept | dict(headers or {}))
