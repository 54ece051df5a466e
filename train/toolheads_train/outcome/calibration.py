"""After training: how much of the heads to keep, how to weigh views and words, where to cut.

All is chosen on validation data, in this order, on the device; where words or hubness are tried,
share and views are chosen again beside them, list by list. Nothing here changes a weight; what is
chosen goes into the header of the heads file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby, product
from typing import Any, TypeVar

import numpy as np
import torch

from toolheads.arrays import Floats, Ids
from toolheads.cutoff import EDGE, CutoffSettings
from toolheads.errors import ConfigError
from toolheads.evaluation.metrics import Metric
from toolheads.evaluation.ranked import adaptive_metrics, ranked_metrics
from toolheads.heads import Fusion, Views
from toolheads.heads.fusion import (
    FIELD_WEIGHTS,
    LEXICAL_SETTINGS,
    HubnessPart,
    LexicalPart,
    check_temperature,
)
from toolheads_train.data.validation_set import ValidationSet
from toolheads_train.loop.validation import DEFAULT_METRICS
from toolheads_train.model.heads import TwoHeads
from toolheads_train.outcome.served_scores import LexicalScores, ProjectedSet

_Key = TypeVar("_Key")

Metrics = dict[str, float]
"""Metric → mean over queries, in [0, 1]."""

MACRO = ""
"""Name of the unweighted mean over the validation sets."""

ROUNDS = 3
"""Most times that all lists are gone through."""

MOST_JOINT = 100
"""Most pairs of words and views that are tried together."""

WIDER_MARGINS = (0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
"""Margins that are tried besides where words or hubness are mixed in: scores spread further."""


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
    clause_temperatures: tuple[float, ...] = ()
    """Temperatures that soften the best clause, 0 or in [0.001, 1]; none takes the best itself."""
    lexical_weights: tuple[float, ...] = ()
    """Weights of the words that tool and query share, in units of the spread of the query's
    scores; 0 is without. None tries no words."""
    lexical_fields: tuple[dict[str, float], ...] = (dict(FIELD_WEIGHTS),)
    """Weights of the fields of a tool (`name`, `server`, `description`, `parameters`) that are
    tried with each of these; a field that is not named weighs 0."""
    hubness_weights: tuple[float, ...] = ()
    """Weights of what is taken from tools that are near to everything; 0 is without. None tries
    none."""
    hubness_neighbours: int = 10
    """Nearest other tools that say how near a tool is to everything."""
    metric: str = "ndcg@10"
    """What share and weights are chosen by, as the mean over the validation sets."""
    worst_loss: float | None = None
    """Settings are preferred with which no validation set falls below the frozen embeddings by
    more than this share of the metric, in [0, 1]; unset takes the best mean."""
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
            (
                "worst_loss",
                self.worst_loss,
                self.worst_loss is None or 0 <= self.worst_loss <= 1,
                "in [0, 1] or unset",
            ),
        )
        for name, value, holds, rule in rules:
            if not holds:
                msg = f"calibration.{name} must be {rule}, got {value}"
                raise ConfigError(msg)
        for weights in self.tool_weights:
            Views(tool=weights)
        self._check_fusion()

    def _check_fusion(self) -> None:
        if self.lexical_weights and not self.lexical_fields:
            msg = "calibration.lexical_fields must have weights to try, got none"
            raise ConfigError(msg)
        for temperature in self.clause_temperatures:
            check_temperature(temperature, "calibration.clause_temperatures")
        for name in ("lexical_weights", "hubness_weights"):
            if not _all(getattr(self, name), 0, 100):
                msg = f"calibration.{name} must be in [0, 100], got {getattr(self, name)}"
                raise ConfigError(msg)
        known = LEXICAL_SETTINGS.names
        for weights in self.lexical_fields:
            unknown = sorted(set(weights) - set(known))
            if unknown:
                listed = ", ".join(known)
                msg = f"calibration.lexical_fields must weigh {listed}, got {unknown[0]!r:.80}"
                raise ConfigError(msg)
            _lexical(1.0, weights)
        HubnessPart(1.0, self.hubness_neighbours)

    @property
    def mixed(self) -> dict[str, list[Any]]:
        """Field of `Serving` → values that are tried, rising; what is not tried is not there."""
        tried: dict[str, list[Any]] = {
            "lexical": [
                _lexical(weight, fields)
                for fields in self.lexical_fields
                for weight in sorted({*self.lexical_weights})
                if weight
            ],
            "hubness": [
                HubnessPart(w, self.hubness_neighbours)
                for w in sorted({*self.hubness_weights})
                if w
            ],
            "clause_temperature": sorted({*self.clause_temperatures}),
        }
        if 0 in self.lexical_weights:
            tried["lexical"].insert(0, None)
        if 0 in self.hubness_weights:
            tried["hubness"].insert(0, None)
        return {name: values for name, values in tried.items() if values}

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


@torch.no_grad()
def calibrate(
    heads: TwoHeads,
    sets: Sequence[ValidationSet],
    tool_views: Mapping[str, float],
    settings: CalibrationSettings,
) -> Calibration:
    """Choose the share, then the weights of views, then what is mixed in, then the margin.

    Args:
        heads: In full precision, on the device to work on; as they were, afterwards.
        sets: At least one.
        tool_views: Views of the tools of all sets, in their order, with the weights of training.
        settings: What is tried.

    Raises:
        ConfigError: If a set lacks a view that is tried.
    """
    check_views(sets, tool_views, settings)
    bench = _Bench(heads.eval(), sets, tool_views, settings)
    as_trained = Views(tool=dict(tool_views))
    tried = sorted({*settings.alphas, 0.0, 1.0})
    measured = bench.measured([Serving(share, as_trained) for share in tried])
    by_share = dict(zip(tried, measured, strict=True))
    frozen = by_share[0.0]
    # Rising, so that of equal shares the smallest is taken.
    shares = {share: by_share[share] for share in sorted(settings.alphas)}
    serving = Serving(preferred(shares, frozen, settings), as_trained)
    candidates = _candidates(tool_views, settings)
    serving, by_views = bench.chosen(serving, ("views",), [(one,) for one in candidates], frozen)
    chosen = by_views[candidates.index(serving.views)]
    steps: list[Step] = []
    if settings.mixed:
        lists = {**settings.mixed, "views": candidates, "share": [*shares]}
        serving, steps = _descended(bench, serving, lists, frozen)
        (chosen,) = bench.measured([serving])
    fixed, points = bench.margin_curve(serving)
    margin = choose_margin(points, fixed.recall, settings.recall_loss)
    metric = settings.metric
    return Calibration(
        share=serving.share,
        views=serving.views,
        cutoff=CutoffSettings(margin=margin, max_k=settings.max_k, min_k=settings.min_k),
        metric=metric,
        shares={share: one[MACRO][metric] for share, one in shares.items()},
        weights=tuple((v, one[MACRO][metric]) for v, one in zip(candidates, by_views, strict=True)),
        margins=points,
        fixed=fixed,
        frozen=frozen,
        trained=by_share[1.0],
        chosen=chosen,
        fusion=serving.fusion,
        steps=tuple(steps),
    )


def _descended(
    bench: _Bench, serving: Serving, lists: Mapping[str, list[Any]], frozen: Mapping[str, Metrics]
) -> tuple[Serving, list[Step]]:
    """Go through one list after the other until nothing changes.

    Words and views are tried together: what one of them costs a data set, the other may give back.
    """
    fixed = {name: values[0] for name, values in lists.items() if len(values) == 1}
    serving = replace(serving, **fixed)
    free = {name: values for name, values in lists.items() if name not in fixed}
    groups: list[tuple[str, ...]] = [(name,) for name in free]
    both = ("lexical", "views")
    if free.keys() >= {*both} and len(free["lexical"]) * len(free["views"]) <= MOST_JOINT:
        groups = [both, *((name,) for name in free if name not in both)]
    steps: list[Step] = []
    for _ in range(ROUNDS):
        before = serving
        for names in groups:
            values = [*product(*(free[name] for name in names))]
            serving, measured = bench.chosen(serving, names, values, frozen)
            means = [one[MACRO][bench.settings.metric] for one in measured]
            chosen = tuple(getattr(serving, name) for name in names)
            steps.append(Step(names, tuple(zip(values, means, strict=True)), chosen))
        if serving == before:
            break
    return serving, steps


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
        if any(settings.lexical_weights) and not (one.catalogue and one.texts):
            msg = (
                f"calibration.lexical_weights must be empty for data without texts, got "
                f"{settings.lexical_weights} and vectors alone in {one.name}"
            )
            raise ConfigError(msg)
        if any(settings.hubness_weights) and "text" not in there:
            msg = (
                f"calibration.hubness_weights must be empty without the view text, got "
                f"{settings.hubness_weights} and {', '.join(sorted(there))} in {one.name}"
            )
            raise ConfigError(msg)


def best_of(values: Mapping[_Key, float]) -> _Key:
    """The key of the largest value; of equal ones, to nine digits, the first."""
    top = max(values.values())
    return next(key for key, value in values.items() if value >= top - 1e-9)


def preferred(
    measured: Mapping[_Key, Mapping[str, Metrics]],
    frozen: Mapping[str, Metrics],
    settings: CalibrationSettings,
) -> _Key:
    """The key with the best mean, of those with which no set loses more than is tolerated.

    Where all lose more, the one whose worst set loses least; of equal ones the first.

    Args:
        measured: Key → set → metrics, the mean of the sets under "".
        frozen: The same of the frozen embeddings.
        settings: For the metric, and for what is tolerated.
    """
    metric, tolerated = settings.metric, settings.worst_loss
    means = {key: one[MACRO][metric] for key, one in measured.items()}
    if tolerated is None:
        return best_of(means)
    names = [name for name in frozen if name != MACRO]
    gains = {
        key: min(one[name][metric] - frozen[name][metric] for name in names)
        for key, one in measured.items()
    }
    allowed = {key: means[key] for key, gain in gains.items() if gain >= -tolerated - 1e-9}
    return best_of(allowed or gains)


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


class _Bench:
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


def _lexical(weight: float, fields: Mapping[str, float]) -> LexicalPart:
    """The part with all fields of the index, those that are not named with weight 0."""
    return LexicalPart(weight, {name: fields.get(name, 0.0) for name in LEXICAL_SETTINGS.names})


def _all(values: Sequence[float], low: float, high: float) -> bool:
    return all(math.isfinite(value) and low <= value <= high for value in values)
