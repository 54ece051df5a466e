"""Texts that others wrote, on the one line that a prompt has for them. Knows no prompt."""

from __future__ import annotations

import re
import unicodedata

_JOINERS = "\u200c\u200d"
"""Invisible, but part of the spelling of Persian, of Indic scripts and of emoji."""

_MARKER = re.compile(
    r"<(?=[|｜]"  # noqa: RUF001  (DeepSeek writes the bars wide)
    r"|/?(?:s|bos|eos|unk|pad|mask|think|tool_call|tool_response|start_of_turn|end_of_turn)>"
    r"|<?/?SYS>>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|THINK|IMG\w*|AVAILABLE_TOOLS|TOOL_[A-Z]+)\])"
)
"""Where a marker of a chat template starts: of Llama, Qwen, Mistral, Gemma, Phi or DeepSeek."""


def without_markers(text: str) -> str:
    """A text in which nothing is a marker of a chat template; a space takes each one apart.

    Servers read `<|im_end|>` in a message as the end of the message, as if the template had
    written it: whoever writes it could go on in another role.

    Args:
        text: Such as the description of a tool.
    """
    return _MARKER.sub(lambda start: f"{start[0]} ", text)


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
