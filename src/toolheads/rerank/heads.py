"""A scorer over one catalogue, as reranking uses it: what it cannot do is a reason, no error."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from toolheads.domain import Hit, Query, Tool
from toolheads.ports import Scorer
from toolheads.texts.untrusted import one_line

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Scored:
    """Candidates that a scorer found."""

    rows: tuple[int, ...] = ()
    """Best first, each once."""
    best: float | None = None
    """Score of the first; None without one."""
    reason: str | None = None
    """Why there are none; None if there are."""


class CatalogueScorer:
    """Indexes a catalogue when it is first needed, and ranks candidates of it.

    Args:
        scorer: Any scorer.
        tools: The catalogue.
    """

    def __init__(self, scorer: Scorer, tools: Sequence[Tool]) -> None:
        self._scorer, self._tools = scorer, tools
        self._is_indexed = False
        self._indexing = threading.Lock()

    def scored(self, text: str, rows: Sequence[int], n: int) -> Scored:
        """Rank candidates.

        Args:
            text: The message.
            rows: Rows of the candidates, rising.
            n: How many are wanted, >= 1.
        """
        if not text.strip():
            return Scored(reason="the message is blank")
        # Tools that are no candidates may come first.
        k = min(len(self._tools), n + len(self._tools) - len(rows))
        try:
            hits = self._ranked(text, k)
        except Exception as e:  # an encoder may be anything, and so may what it raises
            reason = one_line(f"scorer {self._scorer.name} failed: {str(e) or type(e).__name__}")
            _log.warning("reranking by keyword, since %s", reason)
            return Scored(reason=reason)
        free: dict[str, list[int]] = {}
        for row in reversed(rows):
            free.setdefault(self._tools[row].id, []).append(row)
        found: dict[int, float] = {}
        for hit in hits:
            if same := free.get(hit.tool_id):
                found[same.pop()] = hit.score
        if not found:
            return Scored(reason=f"scorer {self._scorer.name} found nothing")
        return Scored(tuple(found)[:n], next(iter(found.values())))

    def _ranked(self, text: str, k: int) -> list[Hit]:
        with self._indexing:
            if not self._is_indexed:
                self._scorer.index(self._tools)
                self._is_indexed = True
        (hits,) = self._scorer.rank([Query("", text)], k)
        return hits
