"""What each tool of a catalogue is called before a model: one name each, that cannot be forged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from toolheads.catalogue.names import API_NAME_LENGTH, api_name
from toolheads.domain import Tool

_NO_LETTER = re.compile(r"[^\w.-]+")
_NOT_SENT = re.compile(r"[^A-Za-z0-9_-]+")


def shown_names(tools: Sequence[Tool], *, is_sent: bool = False) -> list[str]:
    """A name for each tool; no two have the same, whatever their case.

    The tool's own name where no other tool has it, with `_` for what is no letter, digit, `_`,
    `-` or `.`; else that of `toolheads.catalogue.api_name`.

    Args:
        tools: The catalogue; every id once.
        is_sent: Whether the names go to a provider's API, which takes `[A-Za-z0-9_-]{1,64}`.
    """
    odd = _NOT_SENT if is_sent else _NO_LETTER
    own = [_plain(tool.name, odd) for tool in tools]
    counts = Counter(name.casefold() for name in own)
    falls_back = [not name or counts[name.casefold()] > 1 for name in own]
    while True:
        taken = {
            api_name(t.id).casefold() for t, falls in zip(tools, falls_back, strict=True) if falls
        }
        clashes = [
            row for row, name in enumerate(own) if not falls_back[row] and name.casefold() in taken
        ]
        if not clashes:
            break
        for row in clashes:
            falls_back[row] = True
    return [
        api_name(tool.id) if falls else name
        for tool, name, falls in zip(tools, own, falls_back, strict=True)
    ]


def _plain(name: str, odd: re.Pattern[str]) -> str:
    if not odd.search(name) and len(name) <= API_NAME_LENGTH:
        return name
    return odd.sub("_", name)[:API_NAME_LENGTH].strip("_")
