"""Views: several texts of one tool or one query, each with a name that weights refer to."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolheads.domain import Tool
from toolheads.errors import ConfigError
from toolheads.texts.clauses import split_clauses
from toolheads.texts.formats import TextSettings, format_query, format_tool
from toolheads.texts.words import identifier_words

TOOL_VIEWS = ("text", "name", "summary")
"""Views of a tool: the whole text, its name as words, the first sentence of its description."""

QUERY_VIEWS = ("text", "clause")
"""Views of a query: the whole text, and its clauses, of which the best one counts."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s|(?<=[。！？])|\n")  # noqa: RUF001


def tool_view_texts(tool: Tool, views: Sequence[str], settings: TextSettings) -> list[str]:
    """Write one text for each named view of a tool; never an empty text.

    A tool without description has its name for a summary.
    """
    return [_tool_view(tool, view, settings) for view in views]


def query_view_texts(text: str, settings: TextSettings, *, with_clauses: bool) -> list[str]:
    """Write the texts of one query: the whole first, then its clauses, if it has several."""
    clauses = split_clauses(text) if with_clauses else []
    return [format_query(t, settings) for t in (text, *clauses)]


def first_sentence(description: str) -> str:
    """The first sentence of a description, on one line; empty if there is none."""
    for sentence in _SENTENCE_END.split(description):
        if sentence.strip():
            return " ".join(sentence.split())
    return ""


def _tool_view(tool: Tool, view: str, settings: TextSettings) -> str:
    if view == "text":
        return format_tool(tool, settings)
    if view == "name":
        return identifier_words(tool.name)
    if view == "summary":
        return first_sentence(tool.description) or identifier_words(tool.name)
    msg = f"a tool view must be one of {', '.join(TOOL_VIEWS)}, got {view!r}"
    raise ConfigError(msg)
