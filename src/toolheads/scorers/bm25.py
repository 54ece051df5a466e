"""BM25 over the words of tools, the keyword baseline. See `toolheads.ports.Scorer`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolheads.arrays import Floats
from toolheads.domain import Hit, Query, Tool
from toolheads.errors import ConfigError
from toolheads.lexical import FieldedIndex, FieldSettings, FoldedIndex, LexicalSettings


class BM25Scorer:
    """Ranks tools by the words they share with a query.

    A tool is its server, name, description, and the names and descriptions of its parameters,
    as one text; scores are Lucene's, see `toolheads.lexical.formula`. A tool that shares no word
    with the query is left out, so a list may be shorter than k.

    Args:
        k1: How much a word counts that a tool repeats, >= 0.
        b: How much longer tools are held back, in [0, 1].

    Raises:
        ConfigError: If a setting breaks its rule.
    """

    name = "bm25"

    def __init__(self, *, k1: float = 1.5, b: float = 0.75) -> None:
        self._settings = LexicalSettings(fields=(FieldSettings("text", k1=k1, b=b),), combine="sum")
        self.k1 = k1
        self.b = b
        self._corpus: tuple[tuple[Tool, ...], FoldedIndex] | None = None

    def index(self, tools: Sequence[Tool]) -> None:
        """Count the words of a corpus."""
        corpus = tuple(tools)
        if not corpus:
            msg = "tools must hold at least one tool, got none"
            raise ConfigError(msg)
        self._corpus = corpus, FieldedIndex(corpus, self._settings).folded({"text": 1.0})

    def rank(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """Rank the k best tools that share a word with each query."""
        if k < 1:
            msg = f"k must be >= 1, got {k}"
            raise ConfigError(msg)
        tools, index = self._indexed()
        ranked = []
        for query in queries:
            (scores,) = index.scores([query.text])  # (n,)
            found = np.flatnonzero(scores > 0)
            best = found[np.argsort(-scores[found], kind="stable")[:k]]
            ranked.append([Hit(tools[row], float(scores[row])) for row in best])
        return ranked

    def scores(self, texts: Sequence[str]) -> Floats:
        """Score every tool for each text, to be mixed with other scores.

        Returns:
            (q, n) float32, finite, >= 0; 0 where no word is shared. Columns are in the order of
            the tools that were indexed.
        """
        _, index = self._indexed()
        return index.scores(texts)

    def _indexed(self) -> tuple[tuple[Tool, ...], FoldedIndex]:
        if self._corpus is None:
            msg = "tools must be indexed before bm25 ranks them; call index(tools)"
            raise ConfigError(msg)
        return self._corpus
