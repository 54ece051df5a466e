"""The fields of a tool, and a query, as lists of terms."""

from __future__ import annotations

from collections.abc import Iterator

from toolheads.domain import Tool
from toolheads.lexical.settings import FIELDS, Stem, check_choice
from toolheads.lexical.stemming import folded_term
from toolheads.texts.formats import schema_parameters
from toolheads.texts.words import search_terms

_STOP_WORDS = (
    "a an and are as at be but by can could d did do does for from had has have he her his how i "
    "if in into is it its just ll m me my no not of on or our please re s she should so some t "
    "than that the their them then there these they this to us ve was we were what when where "
    "which who will with would you your"
)

STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English words that say nothing of what is asked for. A query of nothing else keeps them."""


def field_parts(tool: Tool, field: str) -> Iterator[tuple[str, bool]]:
    """List the texts of one field of a tool, each with whether its stop words count.

    Stop words stay in names alone: there are tools called `who` and `at`. In the prose they
    would only make long descriptions longer.

    Args:
        tool: Any tool.
        field: One of `FIELDS`.
    """
    if field in ("server", "text"):
        yield tool.server or "", True
    if field in ("name", "text"):
        yield tool.name, True
    if field in ("description", "text"):
        yield tool.description, False
    if field in ("parameters", "text"):
        for name, description in schema_parameters(tool.input_schema):
            yield name, True
            yield description, False


def field_terms(tool: Tool, field: str, *, stem: Stem = "none") -> list[str]:
    """The terms of one field of a tool, with repeats.

    Raises:
        ConfigError: If `field` is none of `FIELDS`.
    """
    check_choice(field, FIELDS, "field")
    return [
        folded_term(term, stem)
        for text, keeps_stop_words in field_parts(tool, field)
        for term in search_terms(text, with_singles=True)
        if keeps_stop_words or term not in STOP_WORDS
    ]


def query_terms(text: str) -> list[str]:
    """The terms of a query, with repeats and not yet folded, stop words only if nothing else."""
    terms = search_terms(text, with_singles=False)
    return [t for t in terms if t not in STOP_WORDS] or terms
