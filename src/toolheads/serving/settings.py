"""What a server allows and for how long. Plain data."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from toolheads.errors import ConfigError

MCP_TOOLS = ("search", "call", "resolve")
"""What MCP clients can be offered: `search_tools`, `call_tool`, `resolve_tool`."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names of this machine that no other machine can connect to."""


@dataclass(frozen=True)
class ServeSettings:
    """Limits of a server, and the names it answers to."""

    max_k: int = 50
    """Largest `k` of a query."""
    max_query_chars: int = 8_000
    """Longest text of a query."""
    max_body_bytes: int = 1 << 20
    """Largest body of a request, however it is sent."""
    max_url_bytes: int = 8_192
    """Longest path with its parameters."""
    max_json_levels: int = 64
    """Deepest nesting of a body."""
    max_ranked_tools: int = 200
    """Most tools of one call of `/v1/rank`."""
    page_tools: int = 100
    """Tools of a page of `/v1/tools` unless asked otherwise."""
    max_page_tools: int = 500
    """Most tools of a page."""
    deadline_s: float = 30.0
    """Longest time for a request, reading its body included; a call has `call_timeout_s` more."""
    call_timeout_s: float = 60.0
    """Longest time for the call of a tool."""
    rate_per_minute: float = 0.0
    """Requests a minute of each key, or of each address where there are no keys; 0: no limit."""
    rate_burst: int = 0
    """Requests at once before the rate counts; 0 takes a tenth of `rate_per_minute`, at least 1."""
    mcp_tools: tuple[str, ...] = ("search", "call")
    """The tools that MCP clients are offered, of `MCP_TOOLS`, each once and at least one."""
    search_workers: int = 4
    """Threads for searches of large catalogues; those of small ones need none."""
    llm_workers: int = 4
    """Threads for reranking by a chat model; with all taken, shared words choose at once."""
    remembered_searches: int = 10_000
    """Latest searches that a call without a `search_id` is looked up in."""
    stable_sessions: bool = False
    """Whether the tools shown in a session keep their order, so that prompt caches stay valid."""
    allowed_hosts: tuple[str, ...] = ()
    """Names in the Host header besides those of this machine; `*` is any."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of web pages that may call, such as `https://app.example`."""
    drain_s: float = 20.0
    """How long requests in flight may take to end when the server is told to stop."""

    def __post_init__(self) -> None:
        known = [name for name in MCP_TOOLS if name in self.mcp_tools]
        if not known or len(known) != len(self.mcp_tools):
            msg = (
                f"serve.mcp_tools must be of {', '.join(MCP_TOOLS)}, each once, got "
                f"{', '.join(self.mcp_tools) or 'none'}"
            )
            raise ConfigError(msg)
        positive = {
            *("max_k", "max_query_chars", "max_body_bytes", "max_url_bytes", "max_json_levels"),
            *("max_ranked_tools", "page_tools", "max_page_tools", "deadline_s", "call_timeout_s"),
            *("search_workers", "llm_workers", "remembered_searches", "drain_s"),
        }
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            is_good = value > 0 if field.name in positive else value >= 0
            if not (is_good and math.isfinite(value)):
                rule = "> 0" if field.name in positive else ">= 0"
                msg = f"serve.{field.name} must be {rule} and finite, got {value}"
                raise ConfigError(msg)

    @property
    def burst(self) -> int:
        """Requests at once before the rate counts."""
        return self.rate_burst or max(1, math.ceil(self.rate_per_minute / 10))
