"""What shapes the numbers of an evaluation, checked, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from toolheads.cutoff import CutoffSettings
from toolheads.errors import ConfigError
from toolheads.evaluation.metrics import ADAPTIVE_METRICS, Metric, default_metrics


@dataclass(frozen=True)
class EvaluationSettings:
    """Which queries are ranked how deep, and what is computed of the lists."""

    split: str = "test"
    """Split whose queries are ranked."""
    limit: int | None = None
    """Queries of each data set, drawn with `seed`; None takes all."""
    seed: int = 0
    """Seed of the draws: the queries under a limit, the bootstrap."""
    k: int = 100
    """Hits of each query, >= every cutoff."""
    metrics: tuple[str, ...] = default_metrics()
    """Names such as `ndcg@10`; each once."""
    cutoff: CutoffSettings | None = None
    """Adaptive K to measure as well; None where scores are no cosines."""
    skip_bad: bool = False
    """Whether lines that cannot be read were left out of the data."""
    confidence: float = 0.95
    """Coverage of the intervals, in (0, 1)."""
    resamples: int = 1000
    """Bootstrap draws, >= 1."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "metrics", tuple(self.metrics))
        for name in ("k", "resamples", *(["limit"] if self.limit is not None else [])):
            _check_whole(name, getattr(self, name), least=1)
        _check_whole("seed", self.seed, least=0)
        if not 0 < self.confidence < 1:
            msg = f"confidence must be in (0, 1), got {self.confidence!r}"
            raise ConfigError(msg)
        if not self.metrics or len(set(self.metrics)) != len(self.metrics):
            msg = f"metrics must be named once each, at least one, got {self.metrics!r}"
            raise ConfigError(msg)
        deepest = max(Metric.parse(name).cutoff for name in self.metrics)
        if deepest > self.k:
            msg = f"k must be >= every cutoff of the metrics, {deepest}, got {self.k}"
            raise ConfigError(msg)
        if self.cutoff is not None and self.cutoff.max_k > self.k:
            msg = f"k must be >= max_k of the adaptive cutoff, {self.cutoff.max_k}, got {self.k}"
            raise ConfigError(msg)

    @property
    def all_metrics(self) -> tuple[str, ...]:
        """Names of everything that is computed, adaptive K included."""
        return self.metrics + (ADAPTIVE_METRICS if self.cutoff is not None else ())

    def to_json(self) -> dict[str, Any]:
        """JSON types only; `from_json` reads it back."""
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        cutoff = None if self.cutoff is None else self.cutoff.to_json()
        return data | {"metrics": list(self.metrics), "cutoff": cutoff}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EvaluationSettings:
        """Read what `to_json` wrote.

        Raises:
            ConfigError: If a field is missing, unknown, or breaks its rule.
        """
        names = {f.name for f in fields(cls)}
        if set(data) != names:
            msg = f"settings must have the fields {', '.join(sorted(names))}, got {data!r:.200}"
            raise ConfigError(msg)
        kinds = {"split": str, "skip_bad": bool, "confidence": float, "metrics": list}
        for name, kind in kinds.items():
            if type(data[name]) is not kind:
                msg = f"{name} must be a {kind.__name__}, got {data[name]!r:.80}"
                raise ConfigError(msg)
        if not all(isinstance(name, str) for name in data["metrics"]):
            msg = f"metrics must be names, got {data['metrics']!r:.80}"
            raise ConfigError(msg)
        cutoff = None if data["cutoff"] is None else CutoffSettings.from_json(data["cutoff"])
        return cls(**{**data, "metrics": tuple(data["metrics"]), "cutoff": cutoff})


def _check_whole(name: str, value: object, *, least: int) -> None:
    if type(value) is not int or value < least:
        msg = f"{name} must be a whole number >= {least}, got {value!r}"
        raise ConfigError(msg)
