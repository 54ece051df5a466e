"""After training: how much of the heads to keep, how to weigh views and words, where to cut.

All is chosen on validation data, in this order, on the device; where words or hubness are tried,
share and views are chosen again beside them, list by list. Nothing here changes a weight; what is
chosen goes into the header of the heads file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import torch

from toolheads.cutoff import CutoffSettings
from toolheads.errors import ConfigError
from toolheads.heads import Views
from toolheads_train.data.validation_set import ValidationSet
from toolheads_train.model.heads import TwoHeads
from toolheads_train.outcome.calibration.bench import Bench
from toolheads_train.outcome.calibration.chosen import MACRO, Calibration, Metrics, Serving, Step
from toolheads_train.outcome.calibration.preference import choose_margin, preferred
from toolheads_train.outcome.calibration.settings import CalibrationSettings

ROUNDS = 3
"""Most times that all lists are gone through."""

MOST_JOINT = 100
"""Most pairs of words and views that are tried together."""


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
    bench = Bench(heads.eval(), sets, tool_views, settings)
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
    bench: Bench, serving: Serving, lists: Mapping[str, list[Any]], frozen: Mapping[str, Metrics]
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
