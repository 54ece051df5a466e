"""Which of several measured settings is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from toolheads_train.outcome.calibration.chosen import MACRO, MarginPoint, Metrics
from toolheads_train.outcome.calibration.settings import CalibrationSettings

_Key = TypeVar("_Key")


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
