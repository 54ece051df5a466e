"""Tools that a message names, in the order of their first mention.

A name counts where no letter, digit or `_` touches it. Everyday words name nothing: `search` or
`Weather` in a sentence are what it is about. A name counts in any case if it is spelled as
identifiers are, with `_`, `.`, `/` or `:` inside or two `-`; with a hump (`getStockPrice`) in the
case it has; any other only where it is marked as a name: between backticks or quotation marks, or
as the whole message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from toolheads.domain import Tool

Mentions = Literal["identifiers", "words", "none"]

_JOINED = re.compile(r"\w[_./:]+\w|\w-+\w[\w-]*-+\w")
_HUMP = re.compile(r"[a-z0-9][A-Z]")
_TOUCHING = re.compile(r"\w")
_MARKS = {"`": "`", '"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "「": "」"}  # noqa: RUF001


def mentioned(
    tools: Sequence[Tool], message: str, *, mentions: Mentions = "identifiers"
) -> tuple[int, ...]:
    """Rows of the tools that a message names.

    Args:
        tools: The tools; ids count as names.
        message: What a person wrote.
        mentions: `identifiers` as the module says, `words` takes every name in any case, also
            one that is an everyday word, `none` finds none.

    Returns:
        Rows in the order of first mention; tools of one name in the order of the tools.
    """
    if mentions == "none" or not message:
        return ()
    folded = _folded(message)
    spans: list[tuple[int, int, int]] = []
    for row, tool in enumerate(tools):
        for name in {tool.name, tool.id}:
            spans += [(*span, row) for span in _places(name, message, folded, mentions)]
    # Of names within one another the longest counts.
    spans.sort(key=lambda span: (span[0], -span[1], span[2]))
    kept: list[tuple[int, int, int]] = []
    for start, end, row in spans:
        if kept and end <= kept[-1][1] and (start, end) != kept[-1][:2]:
            continue
        kept.append((start, end, row))
    return tuple(dict.fromkeys(row for _, _, row in kept))


def _places(name: str, message: str, folded: str, mentions: Mentions) -> Iterator[tuple[int, int]]:
    key = _folded(name)
    if not key.strip() or key not in folded:
        return
    as_it_is = mentions == "identifiers" and not _JOINED.search(name)
    start = folded.find(key)
    while start >= 0:
        end = start + len(key)
        if not _is_touched(folded, start, end) and (
            not as_it_is or _counts(name, message, start, end)
        ):
            yield start, end
        start = folded.find(key, end)


def _counts(name: str, message: str, start: int, end: int) -> bool:
    """Whether a name that is no joined identifier is meant as a name."""
    if _HUMP.search(name) and message[start:end] == name:
        return True
    mark = message[start - 1 : start]
    is_marked = bool(mark) and mark in _MARKS and message[end : end + 1] == _MARKS[mark]
    return is_marked or message.strip() == message[start:end]


def _is_touched(text: str, start: int, end: int) -> bool:
    before, after = text[max(0, start - 1) : start], text[end : end + 1]
    return bool(_TOUCHING.match(before) or _TOUCHING.match(after))


def _folded(text: str) -> str:
    """In lower case, and as long as it was, so that places are those of the text."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
