"""MCP servers as sources of tools: reading configs, listing, keeping sessions, following changes.

Imports the SDK, so entry points import this room late (extra `mcp`).
"""

from toolheads.sources.mcp.config import ClientConfig, read_client_config, server_argument
from toolheads.sources.mcp.follow import ListFollower
from toolheads.sources.mcp.listing import list_server, list_servers
from toolheads.sources.mcp.lists import Listing
from toolheads.sources.mcp.servers import McpServer, McpSettings
from toolheads.sources.mcp.session import McpError, Session
from toolheads.sources.mcp.sessions import McpSessions

__all__ = [
    "ClientConfig",
    "ListFollower",
    "Listing",
    "McpError",
    "McpServer",
    "McpSessions",
    "McpSettings",
    "Session",
    "list_server",
    "list_servers",
    "read_client_config",
    "server_argument",
]
