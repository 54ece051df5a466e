"""Which requests belong together, as far as HTTP tells."""

from __future__ import annotations

import secrets
from typing import Literal

from starlette.requests import Request

from toolheads.serving.access import Asker
from toolheads.serving.guard.credentials import ACCESS

MCP_SESSION = "mcp-session-id"
"""Header that MCP clients send back as they got it. Any replica takes any value: it names what
belongs together, and nothing is stored under it that an answer depends on."""

SESSION = "x-session-id"
"""Header in which other clients name their session."""

_MOST_CHARS = 200


def asker_of(request: Request, via: Literal["rest", "mcp"]) -> Asker:
    """Who asks. A client that names no session is known by its address and program."""
    headers = request.headers
    session = headers.get(SESSION) or headers.get(MCP_SESSION)
    if not session:
        address = request.client.host if request.client else ""
        session = f"{address} {headers.get('user-agent', '')}"
    return Asker(request.scope[ACCESS], session[:_MOST_CHARS], via)


def new_session() -> str:
    """A name for a session that begins."""
    return secrets.token_hex(16)
