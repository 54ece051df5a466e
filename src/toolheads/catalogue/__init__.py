"""The set of tools that is served, as a folder: `tools.jsonl` and the `sources.json` it came from.

Knows files and names. Where tools come from is for `toolheads.sources`, finding them for
`toolheads.retrieval`.
"""

from toolheads.catalogue.changes import Changes, change, drop
from toolheads.catalogue.environment import expand
from toolheads.catalogue.names import api_name, source_name, tool_id
from toolheads.catalogue.reading import (
    Catalogue,
    joined_digest,
    read_catalogue,
    tool_digest,
    tools_digest,
)
from toolheads.catalogue.sources_file import SOURCES_FILE, Source, read_sources

__all__ = [
    "SOURCES_FILE",
    "Catalogue",
    "Changes",
    "Source",
    "api_name",
    "change",
    "drop",
    "expand",
    "joined_digest",
    "read_catalogue",
    "read_sources",
    "source_name",
    "tool_digest",
    "tool_id",
    "tools_digest",
]
