"""Label-free pairs: from a tool catalogue alone, texts that ask and the tools that they ask for.

The first sentence of a description says in a few words what a tool is for, much as a person asks
for it; so do its name, and what its parameters are. Each becomes a query, and the text of the
tool without it becomes the positive.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from toolheads.domain import Tool
from toolheads.texts import TextSettings, format_query, format_tool
from toolheads.texts.formats import schema_parameters
from toolheads.texts.views import first_sentence
from toolheads.texts.words import identifier_words

PairKind = Literal["summary", "name", "parameters"]

MIN_SENTENCE = 15
"""Fewest characters of a text that asks; a shorter one ("Get item.") asks for nothing certain."""

MIN_WORDS = 2
"""Fewest words of a name that asks; one ("search") asks for nothing certain."""

MOST_PARAMETERS = 3
"""Descriptions of parameters in one query; all of them would be longer than any request."""

_NAMELESS = "tool"
"""Stands for the name of a tool without a server whose name has become the query."""


@dataclass(frozen=True)
class Pair:
    """One query that nobody wrote, and the text that it was cut out of."""

    tool: Tool
    """The tool both texts are of."""
    query_text: str
    """What the encoder reads for the query."""
    tool_text: str
    """What the encoder reads for the tool: its text without what became the query."""


def label_free_pairs(
    tools: Sequence[Tool],
    settings: TextSettings,
    *,
    skip: Collection[str] = (),
    kind: PairKind = "summary",
) -> list[Pair]:
    """Cut a query out of each tool that has one to spare.

    `summary`: the first sentence of the description; the rest of the tool is found. A tool is
    left out if the sentence is too short, or if nothing but its name would remain and it has no
    server either. `name`: the name as words; description and parameters without it are found.
    `parameters`: the first descriptions of parameters; name and description are found. Of tools
    that would have one and the same remaining text only the first is kept: as negatives of each
    other they would teach nothing but noise.

    Args:
        tools: The catalogue.
        settings: How tools and queries are written for the encoder.
        skip: Ids of tools to leave out, such as those of another data set's test.
        kind: What becomes the query.

    Returns:
        Pairs in the order of the tools.
    """
    skipped, cut = frozenset(skip), _CUTS[kind]
    pairs: dict[str, Pair] = {}
    for tool in tools:
        parts = None if tool.id in skipped else cut(tool)
        if parts is not None:
            asking, remaining = parts
            text = format_tool(remaining, settings)
            pairs.setdefault(text, Pair(tool, format_query(asking, settings), text))
    return list(pairs.values())


def _without_summary(tool: Tool) -> tuple[str, Tool] | None:
    sentence = first_sentence(tool.description)
    if len(sentence) < MIN_SENTENCE:
        return None
    # Wherever the sentence stands, it goes: a text that still holds it is found by copying.
    rest = " ".join(" ".join(tool.description.split()).replace(sentence, " ").split())
    has_parameters = any(True for _ in schema_parameters(tool.input_schema))
    if not rest and not has_parameters and not tool.server:
        return None
    return sentence, replace(tool, description=rest)


def _without_name(tool: Tool) -> tuple[str, Tool] | None:
    words = identifier_words(tool.name)
    if len(words.split()) < MIN_WORDS:
        return None
    either = "|".join(re.escape(spelling) for spelling in (tool.name, words))
    plain = " ".join(tool.description.split())
    rest = re.sub(rf"(?<!\w)(?:{either})(?!\w)", " ", plain, flags=re.IGNORECASE)
    rest = " ".join(rest.split())
    if len(rest) < MIN_SENTENCE:
        return None
    return words, replace(tool, name=tool.server or _NAMELESS, server=None, description=rest)


def _without_parameters(tool: Tool) -> tuple[str, Tool] | None:
    about = [description for _, description in schema_parameters(tool.input_schema) if description]
    asking = " ".join(_as_sentence(one) for one in dict.fromkeys(about[:MOST_PARAMETERS]))
    if len(asking) < MIN_SENTENCE or not tool.description.strip():
        return None
    return asking, replace(tool, input_schema=None)


def _as_sentence(text: str) -> str:
    return text if text[-1] in ".!?。！？" else f"{text}."  # noqa: RUF001


_CUTS: Mapping[PairKind, Callable[[Tool], tuple[str, Tool] | None]] = {
    "summary": _without_summary,
    "name": _without_name,
    "parameters": _without_parameters,
}
