"""After training: how much of the heads to keep, how to weigh views, where to cut the list.

All three are chosen on validation data, in this order, on the device. Nothing here changes a
weight; what is chosen goes into the header of the heads file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from toolheads.arrays import Floats, Ids
from toolheads.cutoff import EDGE, CutoffSettings
from toolheads.errors import ConfigError
from toolheads.evaluation.metrics import Metric
from toolheads.evaluation.ranked import adaptive_metrics, ranked_metrics
from toolheads.heads import Views
from toolheads_train.data.validation_set import ValidationSet
from toolheads_train.loop.validation import DEFAULT_METRICS, TOOL_TILE, best_rows
from toolheads_train.model.heads import TwoHeads

_Key = TypeVar("_Key")

Metrics = dict[str, float]
"""Metric → mean over queries, in [0, 1]."""

MACRO = ""
"""Name of the unweighted mean over the validation sets."""

QUERY_BLOCK = 64
"""Queries that are scored at once; each may have a dozen clauses."""


@dataclass(frozen=True)
class CalibrationSettings:
    """What is tried after training. A list of one value fixes it."""

    alphas: tuple[float, ...] = (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)
    """Shares of what was learned that are tried; 0 is the frozen embedding."""
    tool_weights: tuple[dict[str, float], ...] = ()
    """Weights of a tool's views (`text`, `name`, `summary`) that are tried; none keeps those of
    the training."""
    clause_weights: tuple[float, ...] = ()
    """Weights of a query's best clause that are tried, in [0, 1]; the whole text has the rest.
    None uses no clauses."""
    metric: str = "ndcg@10"
    """What share and weights are chosen by, as the mean over the validation sets."""
    margins: tuple[float, ...] = (
        *(0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.14, 0.16, 0.18, 0.2),
        *(0.22, 0.25, 0.3, 0.35, 0.4, 0.5),
    )
    """Margins that are tried for the adaptive cut, in units of the score."""
    recall_loss: float = 0.01
    """The smallest margin is taken whose recall is within this share of that of `max_k` hits."""
    max_k: int = 10
    """Most hits that are shown."""
    min_k: int = 1
    """Fewest hits that are shown."""

    def __post_init__(self) -> None:
        Metric.parse(self.metric)
        CutoffSettings(max_k=self.max_k, min_k=self.min_k)
        rules = (
            ("alphas", self.alphas, _all(self.alphas, 0, 1) and self.alphas, "some in [0, 1]"),
            ("clause_weights", self.clause_weights, _all(self.clause_weights, 0, 1), "in [0, 1]"),
            ("margins", self.margins, _all(self.margins, 0, math.inf), "finite and >= 0"),
            ("recall_loss", self.recall_loss, 0 <= self.recall_loss < 1, "in [0, 1)"),
        )
        for name, value, holds, rule in rules:
            if not holds:
                msg = f"calibration.{name} must be {rule}, got {value}"
                raise ConfigError(msg)
        for weights in self.tool_weights:
            Views(tool=weights)

    @property
    def views(self) -> tuple[str, ...]:
        """Views of tools and queries that the validation data must have for this."""
        tool = [view for weights in self.tool_weights for view, w in weights.items() if w > 0]
        return tuple(dict.fromkeys([*tool, *(["clause"] if any(self.clause_weights) else [])]))


@dataclass(frozen=True)
class MarginPoint:
    """What the adaptive cut shows at one margin; means over the validation sets."""

    margin: float
    recall: float
    completeness: float
    length: float
    """Hits that are shown for a query."""


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
    """The same with the share and the weights that were chosen."""


@torch.no_grad()
def calibrate(
    heads: TwoHeads,
    sets: Sequence[ValidationSet],
    tool_views: Mapping[str, float],
    settings: CalibrationSettings,
) -> Calibration:
    """Choose the share, then the weights of views, then the margin.

    Args:
        heads: In full precision, on the device to work on; as they were, afterwards.
        sets: At least one.
        tool_views: Views of the tools of all sets, in their order, with the weights of training.
        settings: What is tried.

    Raises:
        ConfigError: If a set lacks a view that is tried.
    """
    check_views(sets, tool_views, settings)
    heads = heads.eval()
    as_trained = Views(tool=dict(tool_views))
    tried = sorted({*settings.alphas, 0.0, 1.0})
    by_share = {}
    for share in tried:
        with scaled(heads, share):
            (by_share[share],) = _measured(heads, sets, tool_views, [as_trained], settings)
    shares = {share: by_share[share][MACRO][settings.metric] for share in sorted(settings.alphas)}
    share = best_of(shares)  # rising, so that of equal ones the smallest is taken
    candidates = _candidates(tool_views, settings)
    with scaled(heads, share):
        by_views = _measured(heads, sets, tool_views, candidates, settings)
        values = {at: one[MACRO][settings.metric] for at, one in enumerate(by_views)}
        at = best_of(values)
        views = candidates[at]
        fixed, points = _margin_curve(heads, sets, tool_views, views, settings)
    margin = choose_margin(points, fixed.recall, settings.recall_loss)
    return Calibration(
        share=share,
        views=views,
        cutoff=CutoffSettings(margin=margin, max_k=settings.max_k, min_k=settings.min_k),
        metric=settings.metric,
        shares=shares,
        weights=tuple((one, values[i]) for i, one in enumerate(candidates)),
        margins=points,
        fixed=fixed,
        frozen=by_share[0.0],
        trained=by_share[1.0],
        chosen=by_views[at],
    )


def check_views(
    sets: Sequence[ValidationSet], tool_views: Mapping[str, float], settings: CalibrationSettings
) -> None:
    """Refuse settings that the validation sets have no embeddings for.

    Raises:
        ConfigError: If one lacks a view that is tried, or there is none at all.
    """
    if not sets:
        msg = "calibration must have at least one validation set, got none"
        raise ConfigError(msg)
    for one in sets:
        there = {*tool_views, *one.other_views, *(["clause"] if one.clauses is not None else [])}
        missing = [view for view in settings.views if view not in there]
        if missing:
            msg = (
                f"calibration must weigh views that validation has ({', '.join(sorted(there))}), "
                f"got {missing[0]!r}; name it in data.validation_views"
            )
            raise ConfigError(msg)


def best_of(values: Mapping[_Key, float]) -> _Key:
    """The key of the largest value; of equal ones, to nine digits, the first."""
    top = max(values.values())
    return next(key for key, value in values.items() if value >= top - 1e-9)


def choose_margin(points: Sequence[MarginPoint], fixed_recall: float, recall_loss: float) -> float:
    """The smallest margin whose recall is not below (1 - recall_loss) * fixed_recall.

    Args:
        points: At least one; the one of the largest margin is taken where none qualifies.
        fixed_recall: Recall of a list of fixed length.
        recall_loss: Share of it that may be lost.
    """
    rising = sorted(points, key=lambda point: point.margin)
    least = (1 - recall_loss) * fixed_recall - 1e-12
    return next((p.margin for p in rising if p.recall >= least), rising[-1].margin)


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


def _candidates(tool_views: Mapping[str, float], settings: CalibrationSettings) -> list[Views]:
    tools = settings.tool_weights or (dict(tool_views),)
    clauses = settings.clause_weights or (0.0,)
    return [
        Views(
            tool={view: weight for view, weight in tool.items() if weight > 0},
            query={"text": 1.0 - clause, "clause": clause} if clause else {"text": 1.0},
        )
        for tool, clause in product(tools, sorted(clauses))
    ]


def _measured(
    heads: TwoHeads,
    sets: Sequence[ValidationSet],
    tool_views: Mapping[str, float],
    candidates: Sequence[Views],
    settings: CalibrationSettings,
) -> list[dict[str, Metrics]]:
    """For each candidate: set → metrics, and the mean of the sets under ""."""
    names = tuple(dict.fromkeys([*DEFAULT_METRICS, settings.metric]))
    depth = max(Metric.parse(name).cutoff for name in names)
    found: list[dict[str, Metrics]] = [{} for _ in candidates]
    for one in sets:
        projected = _projected(heads, one, tool_views, candidates)
        for measured, views in zip(found, candidates, strict=True):
            rows, _ = projected.ranked(views, depth)
            values = ranked_metrics(rows, one.relevant, names)
            measured[one.name] = {name: float(np.mean(values[name])) for name in names}
    for measured in found:
        measured[MACRO] = {n: float(np.mean([m[n] for m in measured.values()])) for n in names}
    return found


def _margin_curve(
    heads: TwoHeads,
    sets: Sequence[ValidationSet],
    tool_views: Mapping[str, float],
    views: Views,
    settings: CalibrationSettings,
) -> tuple[MarginPoint, tuple[MarginPoint, ...]]:
    """The fixed list, and a point for each margin; the last margin keeps everything."""
    total = 2.0 * sum(views.tool.values()) * sum(views.query.values())
    margins = sorted({*settings.margins, total})
    table = np.empty((len(sets), len(margins) + 1, 3))  # (sets, margins, measures)
    for at, one in enumerate(sets):
        rows, scores = _projected(heads, one, tool_views, [views]).ranked(views, settings.max_k)
        full = np.full(len(rows), rows.shape[1], dtype=np.int64)
        lengths = [cut_lengths(scores, margin, settings) for margin in margins]
        for column, length in enumerate([full, *lengths]):
            values = adaptive_metrics(rows, length, one.relevant)
            table[at, column] = [
                values[f"{name}@adaptive"].mean() for name in ("recall", "completeness", "length")
            ]
    means = table.mean(axis=0).tolist()
    fixed = MarginPoint(math.nan, *means[0])
    return fixed, tuple(MarginPoint(m, *mean) for m, mean in zip(margins, means[1:], strict=True))


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


@dataclass(frozen=True)
class _Projected:
    """One validation set behind the heads."""

    whole: Tensor
    """(q, d) queries."""
    clauses: Tensor | None
    """(m, d) clauses of all queries."""
    offsets: tuple[int, ...]
    tools: Mapping[str, Tensor]
    """View → (n, d)."""

    def ranked(self, views: Views, k: int) -> tuple[Ids, Floats]:
        """(q, min(k, n)) rows and float32 scores, best first."""
        folded = torch.zeros_like(next(iter(self.tools.values())))
        for view, weight in views.tool.items():
            folded += weight * self.tools[view]
        rows, scores = [], []
        for start in range(0, len(self.whole), QUERY_BLOCK):
            block = self._block(slice(start, min(start + QUERY_BLOCK, len(self.whole))), views)
            best = block.best(folded, k)  # (b, k)
            rows.append(best)
            scores.append(block.scores_of_rows(folded[best]))
        return torch.cat(rows).cpu().numpy(), torch.cat(scores).cpu().numpy()

    def _block(self, queries: slice, views: Views) -> _Block:
        weight = views.query.get("clause", 0.0)
        whole = self.whole[queries]
        if not weight or self.clauses is None:
            return _Block(whole, None, None, views.query.get("text", 0.0), 0.0)
        offsets = torch.tensor(self.offsets[queries.start : queries.stop + 1])
        owner = torch.repeat_interleave(torch.arange(len(whole)), offsets.diff())
        clauses = self.clauses[int(offsets[0]) : int(offsets[-1])]
        text = views.query.get("text", 0.0)
        return _Block(whole, clauses, owner.to(whole.device), text, weight)


@dataclass(frozen=True)
class _Block:
    """Some queries with their clauses: whole text and best clause, weighed."""

    whole: Tensor
    clauses: Tensor | None
    owner: Tensor | None
    """(c,) query of each clause."""
    text_weight: float
    clause_weight: float

    def best(self, tools: Tensor, k: int) -> Tensor:
        """(n, d) → (b, min(k, n)) rows."""
        return best_rows(lambda rows: self.scores(tools[rows]), len(tools), k)

    def scores(self, tools: Tensor) -> Tensor:
        """(t, d) → (b, t)."""
        clauses = None if self.clauses is None else self.clauses @ tools.T
        return self._joined(self.whole @ tools.T, clauses)

    def scores_of_rows(self, tools: Tensor) -> Tensor:
        """(b, k, d) tools of each query → (b, k)."""
        clauses = None
        if self.clauses is not None and self.owner is not None:
            clauses = torch.einsum("cd,ckd->ck", self.clauses, tools[self.owner])
        return self._joined(torch.einsum("bd,bkd->bk", self.whole, tools), clauses)

    def _joined(self, whole: Tensor, clauses: Tensor | None) -> Tensor:
        """(b, t) and (c, t) → (b, t); a query without clauses counts with its whole text twice."""
        if clauses is None or self.owner is None:
            return self.text_weight * whole
        best = torch.full_like(whole, -torch.inf)
        best = best.scatter_reduce(0, self.owner[:, None].expand_as(clauses), clauses, "amax")
        best = torch.where(best == -torch.inf, whole, best)
        return self.text_weight * whole + self.clause_weight * best


def _projected(
    heads: TwoHeads,
    one: ValidationSet,
    tool_views: Mapping[str, float],
    candidates: Sequence[Views],
) -> _Projected:
    """Project what the candidates need, tile by tile, onto the device of the heads."""
    device = heads.log_logit_scale.device
    needed = {view for views in candidates for view in views.tool}
    tools = {v: one.tools[:, at] for at, v in enumerate(tool_views)} | dict(one.other_views)

    def project(head: torch.nn.Module, rows: Tensor) -> Tensor:
        return torch.cat([head(tile.to(device).float()) for tile in torch.split(rows, TOOL_TILE)])

    clauses = one.clauses if any(views.has_clauses for views in candidates) else None
    return _Projected(
        whole=project(heads.state, one.queries),
        clauses=None if clauses is None else project(heads.state, clauses),
        offsets=one.clause_offsets,
        tools={view: project(heads.action, tools[view]) for view in sorted(needed)},
    )


def _all(values: Sequence[float], low: float, high: float) -> bool:
    return all(math.isfinite(value) and low <= value <= high for value in values)
