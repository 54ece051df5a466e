"""Texts that others wrote, on the one line that a prompt has for them. Knows no prompt."""

from __future__ import annotations

import unicodedata

_JOINERS = "\u200c\u200d"
"""Invisible, but part of the spelling of Persian, of Indic scripts and of emoji."""


def one_line(text: str, *, most_chars: int | None = None) -> str:
    """A text on one line that shows all it says.

    White space and line breaks of any kind become single spaces; control characters, those that
    change the direction of writing, and those that nobody sees (U+E0000 tags) become spaces too.

    Args:
        text: Such as the description of a tool.
        most_chars: A longer line is cut and ends in `…`; at least 1; None for no limit.
    """
    shown = text if text.isprintable() else "".join(map(_shown, text))
    line = " ".join(shown.split())
    if most_chars is None or len(line) <= most_chars:
        return line
    return line[: most_chars - 1].rstrip() + "…"


def _shown(char: str) -> str:
    if char.isprintable() or char in _JOINERS:
        return char
    # Unassigned and private characters are someone's letters; the rest is no text.
    return char if unicodedata.category(char) in ("Cn", "Co") else " "
