"""What calibration chose, and everything it was chosen from: plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolheads.cutoff import CutoffSettings
from toolheads.heads import Fusion, Views
from toolheads.heads.fusion import HubnessPart, LexicalPart

Metrics = dict[str, float]
"""Metric → mean over queries, in [0, 1]."""

MACRO = ""
"""Name of the unweighted mean over the validation sets."""


@dataclass(frozen=True)
class MarginPoint:
    """What the adaptive cut shows at one margin; means over the validation sets."""

    margin: float
    recall: float
    completeness: float
    length: float
    """Hits that are shown for a query."""


@dataclass(frozen=True)
class Serving:
    """Settings that a ranking depends on."""

    share: float
    """Of what was learned."""
    views: Views
    lexical: LexicalPart | None = None
    hubness: HubnessPart | None = None
    clause_temperature: float = 0.0

    @property
    def fusion(self) -> Fusion | None:
        """What a heads file says of it."""
        return Fusion.of(self.lexical, self.hubness, self.clause_temperature)


@dataclass(frozen=True)
class Step:
    """One list that was gone through beside what was chosen before."""

    settings: tuple[str, ...]
    """Fields of `Serving`."""
    values: tuple[tuple[tuple[Any, ...], float], ...]
    """Values of these fields → the metric."""
    chosen: tuple[Any, ...]


@dataclass(frozen=True)
class Calibration:
    """What was chosen, and everything it was chosen from."""

    share: float
    """Of what was learned; the alpha of both heads is this times that of the training."""
    views: Views
    cutoff: CutoffSettings
    metric: str
    shares: Mapping[float, float]
    """Share that was tried → the metric."""
    weights: tuple[tuple[Views, float], ...]
    """Weights that were tried and the metric of each."""
    margins: tuple[MarginPoint, ...]
    fixed: MarginPoint
    """The list of always `max_k` hits, that margins are measured by; its own margin is nan."""
    frozen: Mapping[str, Metrics]
    """Validation set → metrics of the frozen embeddings; the mean of the sets under ""."""
    trained: Mapping[str, Metrics]
    """The same of the heads as they were trained."""
    chosen: Mapping[str, Metrics]
    """The same with everything that was chosen."""
    fusion: Fusion | None = None
    """What is mixed into the scores."""
    steps: tuple[Step, ...] = ()
    """How it was chosen; none where nothing of it was tried."""
