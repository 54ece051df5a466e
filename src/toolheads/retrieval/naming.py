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
from collections import Counter
from collections.abc import Iterable, Mapping

from toolheads.catalogue import api_name
from toolheads.domain import Tool

_PIECE = re.compile(r"[\w-]+")
_IDENTIFIER = re.compile(
    r"\w[_./:]+\w"  # create_issue, repo.list, github/list
    r"|\w-+\w[\w-]*-+\w"  # get-library-docs, but not e-mail
    r"|[a-z0-9][A-Z]"  # getWeather
)
_TOUCHING = re.compile(r"[\w-]")

_Shape = tuple[int, int]
"""Length of a name, and where its first piece stands in it."""
_Shapes = Mapping[_Shape, int]
"""Shape → names of tools that have it, the longest first."""


class Names:
    """Finds the tools that a text names. Never changes, so threads may share it.

    Args:
        tools: n tools.
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._api: dict[str, str] = {}
        """Id → API name."""
        self._ids: dict[str, str] = {}
        """API name → id."""
        self._plain: dict[str, tuple[str, ...]] = {}
        """Plain name → ids, in order."""
        self._shapes: dict[str, _Shapes] = {}
        """First piece → the shapes of names of more than this piece. A server's name may begin ten
        thousand ids, but they have a hundred lengths."""
        self._add(tools)

    def changed(self, gone: Iterable[Tool], new: Iterable[Tool]) -> Names:
        """The names of other tools.

        Args:
            gone: Some of the tools.
            new: Tools of other ids than those that are left.
        """
        other = Names()
        other._api, other._ids = self._api.copy(), self._ids.copy()
        other._plain, other._shapes = self._plain.copy(), self._shapes.copy()
        gone = tuple(gone)
        for tool in gone:
            del other._ids[other._api.pop(tool.id)]
            left = tuple(i for i in other._plain.pop(tool.name) if i != tool.id)
            if left:
                other._plain[tool.name] = left
        other._count(gone, -1)
        other._add(new)
        return other

    def of(self, name: str) -> tuple[str, ...]:
        """Ids of the tools with this id, API name or plain name, in order."""
        if name in self._api:
            return (name,)
        if name in self._ids:
            return (self._ids[name],)
        return self._plain.get(name, ())

    def in_text(self, text: str) -> frozenset[str]:
        """Ids of the tools that a text names. See the module."""
        found = set(self.of(text.strip().strip("`")))
        end = 0
        for piece in _PIECE.finditer(text):
            word, start = piece.group(), piece.start()
            if start < end or not (word in self._shapes or self._is_name(word)):
                continue
            name, start = self._at(text, start, word)
            stop = start + len(name)
            if name and (_IDENTIFIER.search(name) or _is_marked(text, start, stop)):
                found.update(self.of(name))
                end = stop
        return frozenset(found)

    def _at(self, text: str, start: int, piece: str) -> tuple[str, int]:
        """The longest name that begins here, and where; empty if none does."""
        for length, offset in self._shapes.get(piece, ()):
            begin = start - offset
            name = text[begin : begin + length] if begin >= 0 else ""
            if self._is_name(name) and not _TOUCHING.match(text, begin + length):
                return name, begin
        return (piece if self._is_name(piece) else ""), start

    def _is_name(self, text: str) -> bool:
        return text in self._plain or text in self._api or text in self._ids

    def _add(self, tools: Iterable[Tool]) -> None:
        tools = tuple(tools)
        plain: dict[str, list[str]] = {}
        for tool in tools:
            name = self._api[tool.id] = api_name(tool.id)  # itself of one piece
            self._ids[name] = tool.id
            plain.setdefault(tool.name, []).append(tool.id)
        for name, ids in plain.items():
            self._plain[name] = tuple(sorted({*self._plain.get(name, ()), *ids}))
        self._count(tools, 1)

    def _count(self, tools: Iterable[Tool], sign: int) -> None:
        """Count the shapes of the names of tools that come (1) or go (-1)."""
        changes: dict[str, Counter[_Shape]] = {}
        for tool in tools:
            for name in {tool.id, tool.name}:
                first = _PIECE.search(name)
                if first is not None and len(first.group()) < len(name):
                    shape = len(name), first.start()
                    changes.setdefault(first.group(), Counter())[shape] += sign
        for piece, change in changes.items():
            counts = change + Counter(self._shapes.pop(piece, {}))  # without those at 0
            if counts:
                self._shapes[piece] = dict(sorted(counts.items(), key=_longest_first))


def _longest_first(counted: tuple[_Shape, int]) -> tuple[int, int]:
    (length, offset), _ = counted
    return -length, offset


def _is_marked(text: str, start: int, stop: int) -> bool:
    return text[max(0, start - 1) : start] == "`" and text[stop : stop + 1] == "`"
