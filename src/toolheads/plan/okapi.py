"""The textbook BM25, as much other software has it. See `toolheads.ports.Scorer`.

For plans that must be those of such software. It knows no stop words, no camelCase and no script
but Latin without accents; `toolheads.scorers.bm25` does.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from toolheads.domain import Hit, Query, Tool
from toolheads.errors import ConfigError
from toolheads.texts.formats import schema_parameters

_K1, _B = 1.5, 0.75
_TOKEN = re.compile("[a-z0-9]+")


def okapi_text(tool: Tool) -> str:
    """What is indexed of a tool: name, description, and its parameters with theirs."""
    parts = [tool.name.replace("_", " "), tool.description]
    for name, description in schema_parameters(tool.input_schema):
        parts += [name.replace("_", " "), description]
    return " ".join(part for part in parts if part)


def okapi_scores(texts: Sequence[str], query: str) -> list[float]:
    """Score texts for a query; a word that it repeats counts each time.

    Okapi BM25 with k1 = 1.5 and b = 0.75, idf = ln(1 + (n - df + 0.5) / (df + 0.5)), and the
    factor k1 + 1 that Lucene leaves out.
    """
    return _scores([_counted(text) for text in texts], query)


def _scores(documents: Sequence[Counter[str]], query: str) -> list[float]:
    lengths = [document.total() for document in documents]
    average = sum(lengths) / len(lengths) if any(lengths) else 1.0
    asked = _counted(query)
    df = {term: sum(term in document for document in documents) for term in asked}
    n = len(documents)
    idf = {t: math.log(1 + (n - count + 0.5) / (count + 0.5)) for t, count in df.items()}
    scores = []
    for document, length in zip(documents, lengths, strict=True):
        longer = _K1 * (1 - _B + _B * length / average)
        scores.append(
            math.fsum(
                repeats * idf[term] * document[term] * (_K1 + 1) / (document[term] + longer)
                for term, repeats in asked.items()
                if document[term]
            )
        )
    return scores


def _counted(text: str) -> Counter[str]:
    return Counter(_TOKEN.findall(text.lower()))


class OkapiScorer:
    """Ranks tools by `okapi_scores`; tools that share no word with the query are left out."""

    name = "okapi"

    def __init__(self) -> None:
        self._tools: tuple[Tool, ...] = ()
        self._documents: list[Counter[str]] = []

    def index(self, tools: Sequence[Tool]) -> None:
        """Take over a corpus."""
        corpus = tuple(tools)
        if not corpus:
            msg = "tools must hold at least one tool, got none"
            raise ConfigError(msg)
        documents = [_counted(okapi_text(tool)) for tool in corpus]
        self._tools, self._documents = corpus, documents

    def rank(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """Rank the k best tools that share a word with each query."""
        if k < 1:
            msg = f"k must be >= 1, got {k}"
            raise ConfigError(msg)
        if not self._tools:
            msg = "tools must be indexed before okapi ranks them; call index(tools)"
            raise ConfigError(msg)
        ranked = []
        for query in queries:
            scores = _scores(self._documents, query.text)
            hits = [Hit(t, s) for t, s in zip(self._tools, scores, strict=True) if s > 0]
            ranked.append(sorted(hits, key=lambda hit: -hit.score)[:k])
        return ranked
