"""The words that keyword reranking compares: the package's search terms, or plain ASCII words."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Literal

from toolheads.domain import Tool
from toolheads.lexical import STOP_WORDS, field_terms, folded_term, query_terms

_ASCII_RUN = re.compile(r"[a-z][a-z0-9_]*")

Words = Literal["search", "ascii"]
ToolWords = Callable[[Tool], frozenset[str]]
QueryWords = Callable[[str], frozenset[str]]


def tool_search_words(tool: Tool) -> frozenset[str]:
    """Distinct search terms of server, name, description and parameters; English is folded."""
    return frozenset(field_terms(tool, "text", stem="light"))


def query_search_words(text: str) -> frozenset[str]:
    """Distinct search terms of a query, stop words only if it has nothing else."""
    return frozenset(folded_term(term, "light") for term in query_terms(text))


def ascii_words(text: str | None, stop_words: Collection[str] = STOP_WORDS) -> list[str]:
    """Words of ASCII letters, digits and underscores that start with a letter, with repeats.

    Words of one character and stop words are left out. Letters of other scripts cut words.
    """
    if not text:
        return []
    return [w for w in _ASCII_RUN.findall(text.lower()) if len(w) > 1 and w not in stop_words]


def with_parts(words: list[str], stop_words: Collection[str] = STOP_WORDS) -> list[str]:
    """Words, then the parts between underscores of each that has any; parts may be one letter."""
    parts = [part for word in words if "_" in word for part in word.split("_")]
    return words + [part for part in parts if part and part not in stop_words]


def word_functions(
    words: Words, stop_words: Collection[str] | None = None
) -> tuple[ToolWords, QueryWords]:
    """The distinct words of a tool, and those of a query.

    Args:
        words: `search` for those of `tool_search_words` and `query_search_words`; `ascii` for
            `ascii_words` with their parts, of a tool those of name and description alone.
        stop_words: Of ASCII words; None takes the package's list.
    """
    if words == "search":
        return tool_search_words, query_search_words
    stop = STOP_WORDS if stop_words is None else stop_words

    def of_text(text: str) -> frozenset[str]:
        return frozenset(with_parts(ascii_words(text, stop), stop))

    return (lambda tool: of_text(f"{tool.name} {tool.description}")), of_text
