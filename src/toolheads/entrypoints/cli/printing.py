"""Words on the terminal: what may reach it of texts that others wrote, and counts."""

from __future__ import annotations


def printable(text: str, *, columns: int | None = None) -> str:
    """One line without control characters, which could move the cursor or rename the window.

    Args:
        text: Such as the description of a tool or the note of a heads file.
        columns: Most characters; None for no limit.
    """
    shown = "".join(c if c.isprintable() else " " for c in text)
    return shown if columns is None or len(shown) <= columns else shown[: columns - 1] + "…"


def counted(number: int, noun: str) -> str:
    """`1 data set`, `2 data sets`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
