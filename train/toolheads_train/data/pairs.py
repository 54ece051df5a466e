"""Label-free pairs: from a tool catalogue alone, texts that ask and the tools that they ask for.

The first sentence of a description says in a few words what a tool is for, much as a person asks
for it. It becomes the query; the text of the tool without that sentence becomes the positive.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from toolheads.domain import Tool
from toolheads.texts import TextSettings, format_query, format_tool
from toolheads.texts.formats import schema_parameters
from toolheads.texts.views import first_sentence

MIN_SENTENCE = 15
"""Fewest characters of a first sentence; a shorter one ("Get item.") asks for nothing certain."""


@dataclass(frozen=True)
class Pair:
    """One query that nobody wrote, and the text that it was cut out of."""

    tool: Tool
    """The tool both texts are of."""
    query_text: str
    """What the encoder reads for the query: the first sentence of the description."""
    tool_text: str
    """What the encoder reads for the tool: its text without that sentence."""


def label_free_pairs(
    tools: Sequence[Tool], settings: TextSettings, *, skip: Collection[str] = ()
) -> list[Pair]:
    """Cut a query out of each tool that has a sentence to spare.

    A tool is left out if its first sentence is too short, or if nothing but its name would
    remain and it has no server either. Of tools that would have one and the same remaining text
    only the first is kept: as negatives of each other they would teach nothing but noise.

    Args:
        tools: The catalogue.
        settings: How tools and queries are written for the encoder.
        skip: Ids of tools to leave out, such as those of another data set's test.

    Returns:
        Pairs in the order of the tools.
    """
    skipped = frozenset(skip)
    pairs: dict[str, Pair] = {}
    for tool in tools:
        pair = None if tool.id in skipped else _pair(tool, settings)
        if pair is not None:
            pairs.setdefault(pair.tool_text, pair)
    return list(pairs.values())


def _pair(tool: Tool, settings: TextSettings) -> Pair | None:
    sentence = first_sentence(tool.description)
    if len(sentence) < MIN_SENTENCE:
        return None
    # Wherever the sentence stands, it goes: a text that still holds it is found by copying.
    rest = " ".join(" ".join(tool.description.split()).replace(sentence, " ").split())
    has_parameters = any(True for _ in schema_parameters(tool.input_schema))
    if not rest and not has_parameters and not tool.server:
        return None
    remaining = replace(tool, description=rest)
    return Pair(tool, format_query(sentence, settings), format_tool(remaining, settings))
