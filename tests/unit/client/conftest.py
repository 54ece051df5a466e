"""Tests of the client run a server, which needs its libraries."""

from __future__ import annotations

from importlib.util import find_spec

NEEDED = ("starlette", "uvicorn", "mcp", "prometheus_client", "jsonschema", "httpx")

collect_ignore_glob = [] if all(map(find_spec, NEEDED)) else ["test_*.py"]
"""Nothing, where the extra [serve] is installed."""
