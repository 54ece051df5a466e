"""BM25 over the words of tools, the keyword baseline. See `toolheads.ports.Scorer`.

Scores are Lucene's (k1 1.5, b 0.75) from bm25s with its numpy backend, the same on every
machine; words are this package's own, see `toolheads.texts.words.search_terms`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolheads.arrays import Floats
from toolheads.domain import Hit, Query, Tool
from toolheads.errors import ConfigError, import_extra
from toolheads.texts.formats import schema_parameters
from toolheads.texts.words import search_terms

_STOP_WORDS = (
    "a an and are as at be but by can could d did do does for from had has have he her his how i "
    "if in into is it its just ll m me my no not of on or our please re s she should so some t "
    "than that the their them then there these they this to us ve was we were what when where "
    "which who will with would you your"
)

STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English words that say nothing of what is asked for. A query of nothing else keeps them."""


@dataclass(frozen=True)
class _Corpus:
    tools: tuple[Tool, ...]
    vocabulary: dict[str, int]
    """term → number of the term."""
    counts: Any
    """bm25s.BM25; None when no tool has a word."""


class BM25Scorer:
    """Ranks tools by the words they share with a query; needs the extra `bm25`.

    A tool is its server, name, description, and the names and descriptions of its parameters.
    A tool that shares no word with the query is left out, so a list may be shorter than k.

    Args:
        k1: How much a word counts that a tool repeats, >= 0.
        b: How much longer tools are held back, in [0, 1].

    Raises:
        ConfigError: If a setting breaks its rule.
        MissingExtraError: If bm25s is not installed.
    """

    name = "bm25"

    def __init__(self, *, k1: float = 1.5, b: float = 0.75) -> None:
        if not 0 <= k1 < float("inf"):
            msg = f"k1 must be >= 0, got {k1}"
            raise ConfigError(msg)
        if not 0 <= b <= 1:
            msg = f"b must be in [0, 1], got {b}"
            raise ConfigError(msg)
        self.k1 = k1
        self.b = b
        self._bm25s = import_extra("bm25s", user="scorers.bm25", extra="bm25")
        self._corpus: _Corpus | None = None

    def index(self, tools: Sequence[Tool]) -> None:
        """Count the words of a corpus."""
        if not tools:
            msg = "tools must hold at least one tool, got none"
            raise ConfigError(msg)
        vocabulary: dict[str, int] = {}
        documents = [
            [vocabulary.setdefault(term, len(vocabulary)) for term in _document_terms(tool)]
            for tool in tools
        ]
        counts = None
        if vocabulary:
            counts = self._bm25s.BM25(
                k1=self.k1, b=self.b, method="lucene", backend="numpy", dtype="float32"
            )
            counts.index((documents, vocabulary), create_empty_token=False, show_progress=False)
        self._corpus = _Corpus(tuple(tools), vocabulary, counts)

    def rank(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """Rank the k best tools that share a word with each query."""
        if k < 1:
            msg = f"k must be >= 1, got {k}"
            raise ConfigError(msg)
        corpus = self._indexed()
        ranked = []
        for query in queries:
            scores = _scores(corpus, query.text)  # (n,)
            found = np.flatnonzero(scores > 0)
            best = found[np.argsort(-scores[found], kind="stable")[:k]]
            ranked.append([Hit(corpus.tools[row], float(scores[row])) for row in best])
        return ranked

    def scores(self, texts: Sequence[str]) -> Floats:
        """Score every tool for each text, to be mixed with other scores.

        Returns:
            (q, n) float32, finite, >= 0; 0 where no word is shared. Columns are in the order of
            the tools that were indexed.
        """
        corpus = self._indexed()
        out = np.zeros((len(texts), len(corpus.tools)), np.float32)
        for row, text in enumerate(texts):
            out[row] = _scores(corpus, text)
        return out

    def _indexed(self) -> _Corpus:
        if self._corpus is None:
            msg = "tools must be indexed before bm25 ranks them; call index(tools)"
            raise ConfigError(msg)
        return self._corpus


def _scores(corpus: _Corpus, text: str) -> Floats:
    """(n,) float32."""
    terms = [corpus.vocabulary[t] for t in _query_terms(text) if t in corpus.vocabulary]
    if not terms:
        return np.zeros(len(corpus.tools), np.float32)
    scores: Floats = corpus.counts.get_scores_from_ids(terms)
    return scores


def _query_terms(text: str) -> list[str]:
    terms = search_terms(text, with_singles=False)
    return [t for t in terms if t not in STOP_WORDS] or terms


def _document_terms(tool: Tool) -> Iterator[str]:
    """Stop words stay in names alone: there are tools called `who` and `at`.

    In the prose they would only make long descriptions longer.
    """
    for part in (tool.server, tool.name):
        yield from search_terms(part or "", with_singles=True)
    prose = [tool.description]
    for name, description in schema_parameters(tool.input_schema):
        yield from search_terms(name, with_singles=True)
        prose.append(description)
    for part in prose:
        yield from (t for t in search_terms(part, with_singles=True) if t not in STOP_WORDS)
