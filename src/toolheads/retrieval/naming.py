r"""Tools that a query names exactly.

A tool is named by its id (`github/create_issue`), its API name (`github__create_issue`) or its
plain name (`create_issue`), in the same case and as a whole: no letter, digit, `_` or `-` may
touch it. Of names within one another the longest counts, so that an id names one tool, not every
tool of that plain name.

Everyday words name nothing: `search`, `Weather` or `e-mail` in a sentence are what it is about.
A name counts only if it is spelled as people spell identifiers, with `_`, `.`, `/` or `:` inside,
with two or more `-`, or with a hump (`getWeather`). Any other counts where it is marked as a name:
as the whole query, or between backticks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolheads.catalogue import api_name
from toolheads.domain import Tool

_PIECE = re.compile(r"[\w-]+")
_IDENTIFIER = re.compile(
    r"\w[_./:]+\w"  # create_issue, repo.list, github/list
    r"|\w-+\w[\w-]*-+\w"  # get-library-docs, but not e-mail
    r"|[a-z0-9][A-Z]"  # getWeather
)
_TOUCHING = re.compile(r"[\w-]")


class Names:
    """Finds the tools that a text names. Never changes, so threads may share it.

    Args:
        tools: n tools.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._rows: dict[str, tuple[int, ...]] = {}
        """Name → the tools that it names, rising."""
        self._ids: dict[str, int] = {}
        """Id or API name → its tool."""
        plain: dict[str, list[int]] = {}
        for row, tool in enumerate(tools):
            plain.setdefault(tool.name, []).append(row)
        for row, tool in enumerate(tools):
            self._ids.setdefault(api_name(tool.id), row)
        for row, tool in enumerate(tools):
            self._ids[tool.id] = row  # an id is the stronger name
        self._rows = {name: tuple(rows) for name, rows in plain.items()}
        self._rows |= {name: (row,) for name, row in self._ids.items()}
        self._longer: dict[str, list[tuple[str, int]]] = {}
        """First piece → names of more than this piece and where it stands in them, the longest
        first."""
        for name in self._rows:
            first = _PIECE.search(name)
            if first and first.group() != name:
                self._longer.setdefault(first.group(), []).append((name, first.start()))
        for names in self._longer.values():
            names.sort(key=lambda named: (-len(named[0]), named[0]))

    def of(self, name: str) -> tuple[int, ...]:
        """Tools with this id, API name or plain name, rising."""
        return self._rows.get(name, ())

    def in_text(self, text: str) -> tuple[int, ...]:
        """Tools that a text names, rising. See the module."""
        whole = self._rows.get(text.strip().strip("`"), ())
        found = set(whole)
        end = 0
        for piece in _PIECE.finditer(text):
            start = piece.start()
            if start < end:
                continue
            name, start = self._at(text, start, piece.group())
            stop = start + len(name)
            if name and (_IDENTIFIER.search(name) or _is_marked(text, start, stop)):
                found.update(self._rows[name])
                end = stop
        return tuple(sorted(found))

    def _at(self, text: str, start: int, piece: str) -> tuple[str, int]:
        """The longest name that begins here, and where; empty if none does."""
        for name, offset in self._longer.get(piece, ()):
            begin = start - offset
            is_there = begin >= 0 and text.startswith(name, begin)
            if is_there and not _TOUCHING.match(text, begin + len(name)):
                return name, begin
        return (piece if piece in self._rows else ""), start


def _is_marked(text: str, start: int, stop: int) -> bool:
    return text[max(0, start - 1) : start] == "`" and text[stop : stop + 1] == "`"
