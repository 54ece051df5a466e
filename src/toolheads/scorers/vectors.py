"""What the scorers over embeddings have in common: embed, project, fold, scan, cut."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolheads.arrays import Floats
from toolheads.cutoff import CutoffSettings
from toolheads.domain import Hit, Query, Tool
from toolheads.embedder import Embedder
from toolheads.errors import ConfigError
from toolheads.heads import Head, Views
from toolheads.scorers.exact import ProjectedTools, QueryProjections


class VectorScorer:
    """Scores tools by products of projected embeddings. See `toolheads.ports.Scorer`.

    The score of a tool is w_text * s(whole)·T + w_clause * max over clauses of s(clause)·T with
    T = sum over tool views of w_view * a(view), where s and a are the two heads. T is folded into
    one stored row for each tool. The scan is exact; all texts of a call go to the embedder at
    once. Safe to share between threads as far as the embedder is.

    Args:
        name: Short name for reports.
        embedder: Gives the embeddings.
        state: Projects queries.
        action: Projects tools.
        views: Weights of the views.
        cutoff: How many hits `search` keeps.
    """

    def __init__(
        self,
        name: str,
        embedder: Embedder,
        *,
        state: Head,
        action: Head,
        views: Views,
        cutoff: CutoffSettings,
    ) -> None:
        self._name = name
        self._embedder = embedder
        self._state = state
        self._action = action
        self._views = views
        self._cutoff = cutoff
        self._corpus: tuple[tuple[Tool, ...], ProjectedTools] | None = None

    @property
    def name(self) -> str:
        """Short name for reports."""
        return self._name

    @property
    def cutoff(self) -> CutoffSettings:
        """How many hits `search` keeps when it is not told."""
        return self._cutoff

    def index(self, tools: Sequence[Tool]) -> None:
        """Embed and project a corpus. See `toolheads.ports.Scorer`."""
        corpus = tuple(tools)
        if not corpus:
            msg = "tools must hold at least one tool, got none"
            raise ConfigError(msg)
        weights = {view: w for view, w in self._views.tool.items() if w > 0}
        embeddings = self._embedder.tools(corpus, views=tuple(weights))
        self._corpus = corpus, ProjectedTools(embeddings, weights, self._action)

    def rank(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """Rank the k best tools for each query. See `toolheads.ports.Scorer`."""
        return self._ranked([query.text for query in queries], k, keep=True)

    def search(self, text: str, k: int | None = None) -> list[Hit]:
        """Find the tools for one query.

        Args:
            text: The query as a person types it.
            k: How many; None lets the cut-off decide, which may be none at all.

        Returns:
            Hits, best first.

        Raises:
            ConfigError: If nothing is indexed, k < 1, or the text is blank.
        """
        return self.search_many([text], k)[0]

    def search_many(self, texts: Sequence[str], k: int | None = None) -> list[list[Hit]]:
        """Find the tools for several queries at once. See `search`."""
        for text in texts:
            check_text(text)
        # What people type stays out of the cache: it would grow without bound.
        if k is not None:
            return self._ranked(texts, k, keep=False)
        ranked = self._ranked(texts, self._cutoff.max_k, keep=False)
        return [hits[: self._cutoff.count([hit.score for hit in hits])] for hits in ranked]

    def scores(self, texts: Sequence[str]) -> Floats:
        """Score every tool for each text, to be mixed with other scores.

        Returns:
            (q, n) float32, tools in the order they were indexed; equal to the scores of `rank`
            to about 1e-6.
        """
        _, tools = self._indexed()
        return tools.scores(self._projections(texts, keep=True))

    def _ranked(self, texts: Sequence[str], k: int, *, keep: bool) -> list[list[Hit]]:
        _check_k(k)
        corpus, tools = self._indexed()
        return [
            [Hit(corpus[row], float(score)) for row, score in zip(rows, scores, strict=True)]
            for rows, scores in tools.top(self._projections(texts, keep=keep), int(k))
        ]

    def _indexed(self) -> tuple[tuple[Tool, ...], ProjectedTools]:
        if self._corpus is None:
            msg = f"{self._name} must have a corpus, got none; call index(tools) first"
            raise ConfigError(msg)
        return self._corpus

    def _projections(self, texts: Sequence[str], *, keep: bool) -> QueryProjections:
        """All views of all texts in one call of the embedder and one of the head."""
        views = self._embedder.queries(texts, with_clauses=self._views.has_clauses, keep=keep)
        projected = self._state.each(np.concatenate([views.whole, views.clauses]))
        return QueryProjections(
            whole=projected[: len(texts)],
            clauses=projected[len(texts) :],
            offsets=views.offsets,
            whole_weight=self._views.query.get("text", 0.0),
            clause_weight=self._views.query.get("clause", 0.0),
        )


def _check_k(k: object) -> None:
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        msg = f"k must be a whole number >= 1, got {k!r}"
        raise ConfigError(msg)


def check_text(text: object) -> None:
    """Refuse what is no query.

    Raises:
        ConfigError: If it is blank, no string, or holds a lone surrogate.
    """
    if not isinstance(text, str) or not text.strip():
        msg = f"text must have at least one character that is no space, got {text!r:.80}"
        raise ConfigError(msg)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as e:
        msg = f"text must be valid Unicode, got a lone surrogate at character {e.start}"
        raise ConfigError(msg) from e
