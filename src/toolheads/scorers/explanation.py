"""The parts of the score of one tool for one query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolheads.domain import Tool
from toolheads.lexical import Match


@dataclass(frozen=True)
class Explanation:
    """What a score is made of; `whole`, `clause`, `lexical` and `hubness` add up to it."""

    tool: Tool
    score: float
    """As `search` gives it."""
    whole: float
    """From the whole text, its weight included."""
    clause: float
    """From the best clause, or from the whole text of a query that has no clauses."""
    best_clause: str | None
    """That clause; None where none counts."""
    lexical: float
    """From shared words."""
    terms: tuple[Match, ...]
    """These words, the most first; their scores add up to `lexical`."""
    hubness: float
    """Taken from a tool that is near to everything, or given to one that is not."""

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        terms = [{"term": m.term, "field": m.field, "score": m.score} for m in self.terms]
        return {
            "whole": self.whole,
            "clause": self.clause,
            "best_clause": self.best_clause,
            "lexical": self.lexical,
            "terms": terms,
            "hubness": self.hubness,
        }
