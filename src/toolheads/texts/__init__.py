"""What an encoder reads: named text formats, and the views of tools and queries built with them."""

from toolheads.texts.clauses import split_clauses
from toolheads.texts.formats import TextSettings, format_query, format_tool
from toolheads.texts.views import QUERY_VIEWS, TOOL_VIEWS, query_view_texts, tool_view_texts

__all__ = [
    "QUERY_VIEWS",
    "TOOL_VIEWS",
    "TextSettings",
    "format_query",
    "format_tool",
    "query_view_texts",
    "split_clauses",
    "tool_view_texts",
]
