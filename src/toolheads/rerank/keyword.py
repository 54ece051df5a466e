"""Keyword reranking: the tools that share the rarest words with a message.

A tool scores the sum, over the distinct words that it shares with the message, of
idf = ln((n + 1) / (df + 1)) + 1, where n and df count the candidates alone. It is added up from the
rarest word on, so that it does not depend on the order of words. A tool of many words shares some
with every message, so the score of one that is far longer than the usual tool of the catalogue is
divided, see `KeywordSettings.long`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Ids
from toolheads.domain import Tool
from toolheads.errors import ConfigError
from toolheads.rerank.words import Words, word_functions

Doubles = npt.NDArray[np.float64]
Fill = Literal["catalogue", "name", "none"]

DEFAULT_LONG = 4.0


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
    is divided by the square of how much longer it is. None does not look at length: a tool that
    holds every word then comes first for every message."""
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
        of_tool, self._of_query = word_functions(self.settings.words, self.settings.stop_words)
        having: dict[str, list[int]] = {}
        sizes = np.zeros(len(tools), np.int64)
        for row, tool in enumerate(tools):
            words = of_tool(tool)
            sizes[row] = len(words)
            for word in words:
                having.setdefault(word, []).append(row)
        self._rows = {word: np.array(rows, np.int64) for word, rows in having.items()}
        """Word → the tools that have it, rising."""
        self._divisors = _divisors(sizes, self.settings)
        by_name = sorted(range(len(tools)), key=lambda row: (tools[row].name, row))
        self._places = np.empty(len(tools), np.int64)
        """(n,) place of each tool in the order of names."""
        self._places[by_name] = np.arange(len(tools))

    def __len__(self) -> int:
        return len(self._places)

    def scores(self, text: str, rows: Sequence[int] | None = None) -> Doubles:
        """Score the tools for a text.

        Args:
            text: The message.
            rows: Candidates, each once; None for all tools. Words are as rare as they are in these.

        Returns:
            (n,) float64, finite, >= 0; 0 where no word is shared, and for what is no candidate.
        """
        among = np.ones(len(self), np.bool_)
        if rows is not None:
            among[:] = False
            among[np.asarray(rows, np.int64)] = True
        n = int(among.sum())
        found = [self._rows[word] for word in self._of_query(text) if word in self._rows]
        parts = [having[among[having]] for having in found]
        totals = np.zeros(len(self))
        # Rare words first: tools with equally rare words add up the same numbers in the same
        # order, and so are equal to the bit, whatever the words and however sets are walked.
        for part in sorted(parts, key=len):
            totals[part] += idf(n, len(part))
        scores: Doubles = totals / self._divisors
        return scores

    def ranking(self, text: str, rows: Sequence[int] | None = None) -> KeywordRanking:
        """Order the candidates: by score, ties by name, then as in the catalogue.

        Args:
            text: The message.
            rows: Candidates in catalogue order; None for all tools.
        """
        candidates = np.arange(len(self)) if rows is None else np.asarray(rows, np.int64)
        scores = self.scores(text, rows)
        matched = candidates[scores[candidates] > 0]
        best = matched[np.lexsort((self._places[matched], -scores[matched]))]
        rest = candidates[scores[candidates] == 0]
        if self.settings.fill == "none":
            rest = rest[:0]
        if self.settings.fill == "name":
            rest = rest[np.argsort(self._places[rest])]
        return KeywordRanking((*best.tolist(), *rest.tolist()), len(best))

    def matches(self, text: str) -> bool:
        """Whether any tool shares a word with a text."""
        return any(word in self._rows for word in self._of_query(text))


def _divisors(sizes: Ids, settings: KeywordSettings) -> Doubles:
    """Half of the tools would have to be stuffed to move the median, one is enough for a mean."""
    if settings.long is None or not len(sizes):
        return np.ones(len(sizes))
    usual = max(settings.long * float(np.median(sizes)), 1.0)
    return np.maximum(sizes / usual, 1.0) ** 2
