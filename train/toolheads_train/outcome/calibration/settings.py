"""What is tried after training, as settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolheads.cutoff import CutoffSettings
from toolheads.errors import ConfigError
from toolheads.evaluation.metrics import Metric
from toolheads.heads import Views
from toolheads.heads.fusion import (
    FIELD_WEIGHTS,
    LEXICAL_SETTINGS,
    HubnessPart,
    LexicalPart,
    check_temperature,
)


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


def _lexical(weight: float, fields: Mapping[str, float]) -> LexicalPart:
    """The part with all fields of the index, those that are not named with weight 0."""
    return LexicalPart(weight, {name: fields.get(name, 0.0) for name in LEXICAL_SETTINGS.names})


def _all(values: Sequence[float], low: float, high: float) -> bool:
    return all(math.isfinite(value) and low <= value <= high for value in values)
