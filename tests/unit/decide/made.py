"""Catalogues and scorers whose answers one sees."""

from __future__ import annotations

import numpy as np

from toolheads.decide import Bind, Picker, PickerSettings, RowSimilarity
from toolheads.domain import Hit, Tool

BINARY = PickerSettings(
    similarity_floor=0.5, margin=0.125, duplicate_threshold=0.9375, solo_floor=0.25
)
"""Thresholds that are exact in binary."""

APART = np.eye(16)
"""Rows of tools that have nothing in common."""


class GivenScorer:
    """Ranks by scores that are given, whatever the query.

    Args:
        scores: One for each tool; None leaves a tool out of the ranking.
    """

    name = "given"

    def __init__(self, scores):
        self.scores = scores
        self.asked = 0
        self._tools: tuple[Tool, ...] = ()

    def index(self, tools):
        self._tools = tuple(tools)

    def rank(self, queries, k):
        self.asked += 1
        pairs = zip(self._tools, self.scores, strict=True)
        hits = [Hit(tool, score) for tool, score in pairs if score is not None]
        hits.sort(key=lambda hit: -hit.score)
        return [hits[:k] for _ in queries]


def tool(name, server="a", **hints):
    extra = {"annotations": {f"{hint}Hint": value for hint, value in hints.items()}}
    return Tool(f"{server}/{name}", name, server, extra=extra if hints else {})


def picker(tools, scores, settings=BINARY, rows=None):
    rows = APART[: len(tools)] if rows is None else np.asarray(rows)
    return Picker(tools, GivenScorer(scores), settings, similarity=lambda _: RowSimilarity(rows))


def names(hits):
    return [hit.tool.name for hit in hits]


def bound(decision):
    """The tool that a decision binds."""
    assert isinstance(decision, Bind), decision
    return decision.tool
