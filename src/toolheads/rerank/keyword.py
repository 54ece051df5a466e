"""Keyword reranking: the tools that share the rarest words with a message.

A tool scores the sum, over the distinct words that it shares with the message, of
idf = ln((n + 1) / (df + 1)) + 1, where n and df count the candidates alone. The sum is exact
(`math.fsum`), so it does not depend on the order of words. A tool of many words shares some with
every message, so its score is divided by how much longer it is than the usual tool of the
catalogue, see `KeywordSettings.long`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, get_args

from toolheads.domain import Tool
from toolheads.errors import ConfigError
from toolheads.rerank.words import Words, word_functions

Fill = Literal["catalogue", "name", "none"]

DEFAULT_LONG = 2.0


@dataclass(frozen=True)
class KeywordSettings:
    """Which words count, and how. The defaults are measured, see docs/rerank.md."""

    words: Words = "search"
    """`search` takes the terms of the package's keyword search: any script, identifiers taken
    apart, English endings folded, parameters included. `ascii` takes plain ASCII words of name
    and description, not folded."""
    stop_words: frozenset[str] | None = None
    """Words that say nothing, for words `ascii`; None takes the package's list."""
    long: float | None = DEFAULT_LONG
    """A tool counts as long from this many times the words of the median tool on, >= 1; its score
    is divided by how much longer it is. None does not look at length: a tool that holds every
    word then comes first for every message."""
    fill: Fill = "catalogue"
    """Order of the tools that share no word, which fill the list up: as in the catalogue, by
    `name`, or `none` of them is listed. By name, whoever names a tool `aaa` is always shown."""

    def __post_init__(self) -> None:
        for name, choices in (("words", get_args(Words)), ("fill", get_args(Fill))):
            if getattr(self, name) not in choices:
                msg = f"{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}"
                raise ConfigError(msg)
        if self.stop_words is not None and self.words != "ascii":
            msg = f"stop_words must be None for words {self.words}, got {len(self.stop_words)}"
            raise ConfigError(msg)
        if self.long is not None and not (math.isfinite(self.long) and self.long >= 1):
            msg = f"long must be None or >= 1 and finite, got {self.long}"
            raise ConfigError(msg)

    @classmethod
    def plain(cls, stop_words: Collection[str] | None = None) -> KeywordSettings:
        """ASCII words, no look at length, filled up by name: simple, and without defence."""
        chosen = None if stop_words is None else frozenset(stop_words)
        return cls(words="ascii", stop_words=chosen, long=None, fill="name")


@dataclass(frozen=True)
class KeywordRanking:
    """Rows in order, and how many of them share a word with the message."""

    rows: tuple[int, ...]
    matched: int
    """The first so many rows share a word."""


def idf(n: int, df: int) -> float:
    """How rare a word is that df of n tools have, in nats, >= 1."""
    return math.log((n + 1) / (df + 1)) + 1


def idf_of(documents: Iterable[Iterable[str]]) -> dict[str, float]:
    """The idf of every word of some documents; repeats in a document count once."""
    counts: dict[str, int] = {}
    n = 0
    for document in documents:
        n += 1
        for word in set(document):
            counts[word] = counts.get(word, 0) + 1
    return {word: idf(n, df) for word, df in counts.items()}


class KeywordIndex:
    """The words of a list of tools. Never changes, so threads may share it.

    Args:
        tools: n tools, in catalogue order; ids and names may repeat.
        settings: Which words count, and how.
    """

    def __init__(self, tools: Sequence[Tool], settings: KeywordSettings | None = None) -> None:
        self.settings = settings or KeywordSettings()
        self._names = [tool.name for tool in tools]
        of_tool, self._of_query = word_functions(self.settings.words, self.settings.stop_words)
        self._rows: dict[str, list[int]] = {}
        """Word → the tools that have it, rising."""
        sizes = []
        for row, tool in enumerate(tools):
            words = of_tool(tool)
            sizes.append(len(words))
            for word in words:
                self._rows.setdefault(word, []).append(row)
        self._divisors = _divisors(sizes, self.settings)

    def scores(self, text: str, rows: Collection[int] | None = None) -> dict[int, float]:
        """Score the candidates that share a word with a text.

        Args:
            text: The message.
            rows: Candidates, each once; None for all tools. Words are as rare as they are in these.

        Returns:
            Row → score > 0; other candidates are left out.
        """
        among = None if rows is None else frozenset(rows)
        n = len(self._names) if among is None else len(among)
        found: dict[int, list[float]] = {}
        for word in self._of_query(text):
            having = self._rows.get(word, ())
            if among is not None:
                having = [row for row in having if row in among]
            for row in having:
                found.setdefault(row, []).append(idf(n, len(having)))
        return {row: math.fsum(parts) / self._divisors[row] for row, parts in found.items()}

    def ranking(self, text: str, rows: Sequence[int] | None = None) -> KeywordRanking:
        """Order the candidates: by score, ties by name, then as in the catalogue.

        Args:
            text: The message.
            rows: Candidates in catalogue order; None for all tools.
        """
        candidates = range(len(self._names)) if rows is None else rows
        scores = self.scores(text, rows)
        best = sorted(scores, key=lambda row: (-scores[row], self._names[row], row))
        rest = [row for row in candidates if row not in scores]
        if self.settings.fill == "none":
            rest = []
        if self.settings.fill == "name":
            rest.sort(key=lambda row: (self._names[row], row))
        return KeywordRanking((*best, *rest), len(best))

    def matches(self, text: str) -> bool:
        """Whether any tool shares a word with a text."""
        return any(word in self._rows for word in self._of_query(text))


def _divisors(sizes: Sequence[int], settings: KeywordSettings) -> list[float]:
    """Half of the tools would have to be stuffed to move the median, one is enough for a mean."""
    if settings.long is None or not sizes:
        return [1.0] * len(sizes)
    usual = max(settings.long * median(sizes), 1.0)
    return [max(size / usual, 1.0) for size in sizes]
