"""How long a regular expression may take, judged before it runs.

Python's matcher holds the interpreter while it backtracks, so that a pattern such as `(a+)+$`
would stop a whole server. The bound here is an upper one: a pattern may be quicker, never slower.
"""

from __future__ import annotations

import re
from functools import lru_cache

_MOST_STEPS = 2e6
"""Roughly 0.1 s of matching."""

_LONGEST = 1_000
"""Characters of a pattern; a longer one is not run."""

_COUNTED = re.compile(r"\{(\d*)(,?)(\d*)\}")
_NEVER = float("inf")


def found(pattern: str, text: str) -> bool | None:
    """Whether a pattern is found in a text; None where finding out could take too long.

    Patterns that Python cannot read give None, too: JSON Schema's are those of JavaScript.
    """
    compiled = _compiled(pattern)
    if compiled is None or not is_quick(pattern, len(text)):
        return None
    return compiled.search(text) is not None


def is_quick(pattern: str, length: int) -> bool:
    """Whether Python can read a pattern and search a text of that length with it in short time."""
    return _compiled(pattern) is not None and steps(pattern, length) <= _MOST_STEPS


def steps(pattern: str, length: int) -> float:
    """Upper bound of the steps of a search in a text of that length; infinity for no bound."""
    if len(pattern) > _LONGEST:
        return _NEVER
    scan = _Scan(pattern, length)
    try:
        cost, branches = scan.alternation()
    except (IndexError, ValueError, OverflowError):
        return _NEVER
    if scan.position < len(pattern):  # a bracket too many
        return _NEVER
    is_anchored = branches == 1 and pattern.startswith(("^", "\\A"))
    return cost * (1 if is_anchored else length + 1)


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    if len(pattern) > _LONGEST:
        return None
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return None


class _Scan:
    """Reads a pattern from left to right and multiplies the ways in which it can match."""

    def __init__(self, pattern: str, length: int) -> None:
        self.pattern, self.length = pattern, length
        self.position = 0

    def alternation(self, level: int = 0) -> tuple[float, int]:
        """(ways, branches) up to the closing bracket or the end."""
        if level > 20:
            raise OverflowError
        ways, branches = 0.0, 0
        while True:
            ways += self._sequence(level)
            branches += 1
            if self._peek() != "|":
                return ways, branches
            self.position += 1

    def _peek(self) -> str:
        return self.pattern[self.position : self.position + 1]

    def _sequence(self, level: int) -> float:
        ways = 1.0
        while (sign := self._peek()) and sign not in "|)":
            ways *= self._repeated(self._item(sign, level))
        return ways

    def _item(self, sign: str, level: int) -> float:
        self.position += 1
        if sign == "\\":
            escaped = self.pattern[self.position]
            self.position += 1
            if escaped in "123456789":  # a group again: no bound
                return _NEVER
        elif sign == "[":
            self._skip_class()
        elif sign == "(":
            return self._group(level)
        return 1.0

    def _skip_class(self) -> None:
        if self._peek() == "^":
            self.position += 1
        if self._peek() == "]":  # stands for itself there
            self.position += 1
        while self.pattern[self.position] != "]":
            self.position += 2 if self.pattern[self.position] == "\\" else 1
        self.position += 1

    def _group(self, level: int) -> float:
        rest = self.pattern[self.position :]
        if rest.startswith(("?P=", "?(")):
            return _NEVER
        if rest.startswith("?P<"):
            self.position = self.pattern.index(">", self.position) + 1
        elif rest.startswith("?"):
            while self.pattern[self.position] not in ":=!)>":
                self.position += 1
            if self.pattern[self.position] != ")":  # (?i) ends there
                self.position += 1
        ways, _ = self.alternation(level + 1)
        if self.pattern[self.position] != ")":
            raise IndexError
        self.position += 1
        return ways

    def _repeated(self, ways: float) -> float:
        """The ways of an item with the repeat that follows it."""
        sign = self._peek()
        counted = _COUNTED.match(self.pattern, self.position) if sign == "{" else None
        if sign in ("*", "+"):
            least, most = 0, self.length
            self.position += 1
        elif sign == "?":
            least, most = 0, 1
            self.position += 1
        elif counted and (counted[1] or counted[3]):
            least = int(counted[1] or 0)
            most = int(counted[3] or self.length) if counted[2] else least
            self.position = counted.end()
        else:
            return ways
        if self._peek() in ("?", "+"):  # lazy or possessive
            self.position += 1
        if self._peek() and self._peek() in "*+?":
            raise IndexError  # repeated twice; nothing that Python reads
        if ways == 1.0:
            return max(1.0, min(most, self.length) - least + 1.0)
        if most > 64:
            return _NEVER
        return sum(ways**n for n in range(least, most + 1))
