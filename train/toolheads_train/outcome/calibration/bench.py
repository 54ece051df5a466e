"""Measures settings of serving on validation sets, as they would be served."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from toolheads.arrays import Floats, Ids
from toolheads.cutoff import EDGE
from toolheads.evaluation.metrics import Metric
from toolheads.evaluation.ranked import adaptive_metrics, ranked_metrics
from toolheads_train.data.validation_set import ValidationSet
from toolheads_train.loop.validation import DEFAULT_METRICS
from toolheads_train.model.heads import TwoHeads
from toolheads_train.outcome.calibration.chosen import MACRO, MarginPoint, Metrics, Serving
from toolheads_train.outcome.calibration.preference import preferred
from toolheads_train.outcome.calibration.settings import CalibrationSettings
from toolheads_train.outcome.served_scores import LexicalScores, ProjectedSet

WIDER_MARGINS = (0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
"""Margins that are tried besides where words or hubness are mixed in: scores spread further."""


@contextmanager
def scaled(heads: TwoHeads, share: float) -> Iterator[None]:
    """Both heads with a share of their alpha, for as long as the context lasts."""
    before = [(head, head.alpha.clone()) for head in (heads.state, heads.action)]
    try:
        for head, alpha in before:
            head.alpha.copy_(alpha * share)
        yield
    finally:
        for head, alpha in before:
            head.alpha.copy_(alpha)


class Bench:
    """Measures settings on all validation sets."""

    def __init__(
        self,
        heads: TwoHeads,
        sets: Sequence[ValidationSet],
        tool_views: Mapping[str, float],
        settings: CalibrationSettings,
    ) -> None:
        self.settings = settings
        self._heads, self._sets, self._tool_views = heads, sets, tool_views
        # Word counts of each set, once for all that is tried.
        has_words = any(settings.lexical_weights)
        self._lexical = [LexicalScores(one) if has_words else None for one in sets]

    def chosen(
        self,
        serving: Serving,
        names: tuple[str, ...],
        values: Sequence[tuple[Any, ...]],
        frozen: Mapping[str, Metrics],
    ) -> tuple[Serving, list[dict[str, Metrics]]]:
        """Choose some settings beside the others, and say what each value of them gave."""
        candidates = [replace(serving, **dict(zip(names, one, strict=True))) for one in values]
        measured = self.measured(candidates)
        best = preferred(dict(enumerate(measured)), frozen, self.settings)
        return candidates[best], measured

    def measured(self, candidates: Sequence[Serving]) -> list[dict[str, Metrics]]:
        """For each candidate: set → metrics, and the mean of the sets under ""."""
        found: list[dict[str, Metrics]] = []
        for share, group in groupby(candidates, key=lambda candidate: candidate.share):
            with scaled(self._heads, share):
                found += self._measured([*group])
        return found

    def _measured(self, candidates: Sequence[Serving]) -> list[dict[str, Metrics]]:
        names = tuple(dict.fromkeys([*DEFAULT_METRICS, self.settings.metric]))
        depth = max(Metric.parse(name).cutoff for name in names)
        found: list[dict[str, Metrics]] = [{} for _ in candidates]
        for at, one in enumerate(self._sets):
            projected = self._projected(at, candidates)
            for measured, serving in zip(found, candidates, strict=True):
                rows = projected.ranked(serving.views, depth, serving.fusion).rows
                values = ranked_metrics(rows, one.relevant, names)
                measured[one.name] = {name: float(np.mean(values[name])) for name in names}
        for measured in found:
            measured[MACRO] = {n: float(np.mean([m[n] for m in measured.values()])) for n in names}
        return found

    def _projected(self, at: int, candidates: Sequence[Serving]) -> ProjectedSet:
        asked = [(serving.views, serving.fusion) for serving in candidates]
        one, lexical = self._sets[at], self._lexical[at]
        return ProjectedSet.of(self._heads, one, self._tool_views, asked, lexical)

    def margin_curve(self, serving: Serving) -> tuple[MarginPoint, tuple[MarginPoint, ...]]:
        """The fixed list, and a point for each margin; the last margin keeps everything."""
        settings, views, fusion = self.settings, serving.views, serving.fusion
        with scaled(self._heads, serving.share):
            rankings = [
                self._projected(at, [serving]).ranked(views, settings.max_k, fusion)
                for at in range(len(self._sets))
            ]
        total = 2.0 * sum(views.tool.values()) * sum(views.query.values())
        margins = {*settings.margins, total}
        if serving.lexical or serving.hubness:
            widest = max(float((r.scores[:, 0] - r.scores[:, -1]).max()) for r in rankings)
            margins |= {*WIDER_MARGINS, max(total, math.ceil(10 * widest) / 10)}
        rising = sorted(margins)
        table = np.empty((len(rankings), len(rising) + 1, 3))  # (sets, margins, measures)
        for at, (one, ranking) in enumerate(zip(self._sets, rankings, strict=True)):
            rows, scores = ranking.rows, ranking.scores
            full = np.full(len(rows), rows.shape[1], dtype=np.int64)
            lengths = [cut_lengths(scores, margin, settings) for margin in rising]
            for column, length in enumerate([full, *lengths]):
                values = adaptive_metrics(rows, length, one.relevant)
                table[at, column] = [
                    values[f"{n}@adaptive"].mean() for n in ("recall", "completeness", "length")
                ]
        means = table.mean(axis=0).tolist()
        points = zip(rising, means[1:], strict=True)
        return MarginPoint(math.nan, *means[0]), tuple(MarginPoint(m, *mean) for m, mean in points)


def cut_lengths(scores: Floats, margin: float, settings: CalibrationSettings) -> Ids:
    """How many hits `CutoffSettings.count` keeps of each list.

    Args:
        scores: (q, k) float32, best first, k <= max_k.
        margin: Largest difference to the best score.
        settings: For `min_k` and `max_k`.

    Returns:
        (q,) int64.
    """
    s = scores.astype(np.float64)
    near = np.count_nonzero(s >= s.max(axis=1, keepdims=True) - margin - EDGE, axis=1)
    most = min(settings.max_k, s.shape[1])
    kept: Ids = np.clip(near, min(settings.min_k, most), most).astype(np.int64)
    return kept
