"""A client of a toolheads server: `Client`, and `AsyncClient` with the same methods to await.

Needs httpx (extra `client`), imported when a client is made.
"""

from toolheads.client.answers import (
    CallAnswer,
    FoundTool,
    RankedTool,
    Ranking,
    SearchAnswer,
    ServerHealth,
    ToolRecord,
)
from toolheads.client.clients import AsyncClient, Client

__all__ = [
    "AsyncClient",
    "CallAnswer",
    "Client",
    "FoundTool",
    "RankedTool",
    "Ranking",
    "SearchAnswer",
    "ServerHealth",
    "ToolRecord",
]
