"""The few tools of a catalogue that a query needs, by any scorer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolheads.domain import Query, Tool
from toolheads.errors import ConfigError
from toolheads.plan.lookup import checked_tools, kept_rows
from toolheads.plan.okapi import OkapiScorer
from toolheads.plan.settings import check_count
from toolheads.ports import Scorer
from toolheads.scorers.bm25 import BM25Scorer
from toolheads.texts.words import search_runs

_SCORERS: Mapping[str, type[Scorer]] = {"bm25": BM25Scorer, "okapi": OkapiScorer}

SCORERS = tuple(_SCORERS)
"""Scorers that have a name here: words without stop words, and the textbook's BM25."""


@dataclass(frozen=True)
class Retrieval:
    """A ranked catalogue, and what of it is shown."""

    query: str
    method: str
    """Name of the scorer."""
    ranked: tuple[tuple[Tool, float], ...] = field(repr=False)
    """Every tool with its score, best first, equal ones as in the catalogue. A tool that the
    scorer left out has 0."""
    tools: tuple[Tool, ...]
    """What is shown, in the order of the ranking."""
    n_matched: int
    """Tools with anything in common with the query. Those shown beyond them are filling."""

    @property
    def nothing_matches(self) -> bool:
        """Whether the order is that of the catalogue, and says nothing of the query."""
        return self.n_matched == 0

    def to_json(self) -> dict[str, Any]:
        """JSON types only; `k` is how many are shown."""
        return {
            "query": self.query,
            "method": self.method,
            "k": len(self.tools),
            "selected": [tool.id for tool in self.tools],
            "n_matched": self.n_matched,
            "nothing_matches": self.nothing_matches,
            "ranked": [{"id": tool.id, "score": round(score, 6)} for tool, score in self.ranked],
        }


def retrieve(
    tools: Sequence[Tool],
    query: str,
    *,
    k: int = 8,
    keep: Iterable[str] = (),
    scorer: Scorer | str = "bm25",
    is_indexed: bool = False,
) -> Retrieval:
    """Rank a catalogue and take the best.

    Args:
        tools: The catalogue; none give none.
        query: What is asked for. An empty one matches nothing.
        k: How many to take, >= 1.
        keep: Names of tools to take whatever their score, see `find_tool`. They take places of
            the k, and all of them are taken even if they are more.
        scorer: Any scorer, or `bm25` (words without stop words, each word of the query counted
            once) or `okapi` (the textbook's, with all it lacks).
        is_indexed: Whether the scorer has indexed these very tools already; else it does so now
            and holds them afterwards.

    Raises:
        ConfigError: If k < 1, a kept name is that of no tool, there is no such scorer, or two tools
            have one id.
    """
    check_count(k, "k")
    if not isinstance(query, str):
        msg = f"query must be text, got {query!r:.80}"
        raise ConfigError(msg)
    catalogue = checked_tools(tools)
    kept = kept_rows(catalogue, keep)
    ranker = made_scorer(scorer)
    ranked = ranked_rows(catalogue, query, ranker, is_indexed=is_indexed)
    rows = set(kept)
    for row, _ in ranked:
        if len(rows) >= max(k, len(kept)):
            break
        rows.add(row)
    return Retrieval(
        query=query,
        method=ranker.name,
        ranked=tuple((catalogue[row], score) for row, score in ranked),
        tools=tuple(catalogue[row] for row, _ in ranked if row in rows),
        n_matched=sum(score != 0 for _, score in ranked),
    )


def made_scorer(scorer: Scorer | str) -> Scorer:
    """A scorer by its name; one that is made is itself.

    Raises:
        ConfigError: If there is no such scorer.
    """
    if not isinstance(scorer, str):
        return scorer
    if scorer not in _SCORERS:
        msg = f"scorer must be one of {', '.join(SCORERS)}, or an object, got {scorer!r:.80}"
        raise ConfigError(msg)
    return _SCORERS[scorer]()


def ranked_rows(
    tools: Sequence[Tool], query: str, scorer: Scorer, *, is_indexed: bool = False
) -> list[tuple[int, float]]:
    """Every row with its score, best first, equal ones in their order."""
    if not tools:
        return []
    if not is_indexed:
        scorer.index(tools)
    text = _each_word_once(query) if isinstance(scorer, BM25Scorer) else query
    scores: dict[int, float] = {}
    if text.strip():
        row_of = {tool.id: row for row, tool in enumerate(tools)}
        (hits,) = scorer.rank([Query("", text)], len(tools))
        for hit in hits:
            if hit.tool_id not in row_of:
                msg = f"scorer must have indexed these tools, got {hit.tool_id!r:.80} besides"
                raise ConfigError(msg)
            scores[row_of[hit.tool_id]] = hit.score
    order = sorted(range(len(tools)), key=lambda row: (-scores.get(row, 0.0), row))
    return [(row, scores.get(row, 0.0)) for row in order]


def _each_word_once(text: str) -> str:
    """A query that says a word four times does not ask for it four times as much."""
    first: dict[str, str] = {}
    for run in search_runs(text):
        first.setdefault(run.casefold(), run)
    return " ".join(first.values())
