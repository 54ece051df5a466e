"""The report of an evaluation: what was measured, under which settings, on which data.

Knows no file: `toolheads.evaluation.report_file` reads and writes reports.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from toolheads.errors import ConfigError
from toolheads.evaluation.metrics import METRICS_VERSION, Values
from toolheads.evaluation.settings import EvaluationSettings
from toolheads.evaluation.statistics import bootstrap_means, interval
from toolheads.identity import Fingerprint

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class ScorerRecord:
    """What is known about the scorer that was measured."""

    name: str
    """Its short name: `bm25`, `dense`, `clm`."""
    heads: str | None = None
    """Name of its heads; None without heads."""
    heads_sha256: str | None = None
    """Digest of the heads file; None without heads or for heads that come from no file."""
    fingerprint: Fingerprint | None = None
    """Encoder and text formats of its vectors; None for a scorer without vectors."""
    parameters: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """Everything else that shapes its scores, JSON types: views, k1, b, …"""

    @property
    def label(self) -> str:
        """What a table calls it: the scorer, its heads or its model, and what was switched off."""
        model = self.fingerprint.encoder.model if self.fingerprint else ""
        without = ", ".join(self.parameters.get("without", ()))
        parts = (self.name, self.heads or model, f"without {without}" if without else "")
        return " ".join(part for part in parts if part)


@dataclass(frozen=True)
class DatasetReport:
    """Values of one data set.

    Attributes:
        name: Name of the data set.
        digest: File name → sha256 of the data it was read from.
        tools: Size of the corpus.
        without_relevant: Queries of the split that were left out as no tool is relevant to them.
        query_ids: Ranked queries, in order.
        values: Metric → (q,) float64, one for each query.
        in_training: How many of its tools the training of the scorer's heads has met, see
            `toolheads.data.shared.SharedTools`; None where that is not known.
    """

    name: str
    digest: Mapping[str, str]
    tools: int
    without_relevant: int
    query_ids: tuple[str, ...]
    values: Mapping[str, Values]
    in_training: Mapping[str, int] | None = None

    def mean(self, metric: str) -> float:
        """Mean over the queries."""
        return float(self.values[metric].mean())


@dataclass(frozen=True)
class Summary:
    """Means with their bootstrap intervals."""

    means: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Report:
    """Everything about one evaluation of one scorer.

    Attributes:
        scorer: What was measured.
        settings: Under which settings.
        datasets: On which data, with the values of each query.
        summaries: Data set → means over its queries.
        macro: Means over data sets: each counts the same.
        micro: Means over all queries of all data sets.
        package: Version of this package.
        metrics_version: Version of the metrics' definitions.
        machine: Kind of machine and libraries; never its name.
    """

    scorer: ScorerRecord
    settings: EvaluationSettings
    datasets: tuple[DatasetReport, ...]
    summaries: Mapping[str, Summary]
    macro: Summary
    micro: Summary
    package: str
    metrics_version: str
    machine: Mapping[str, Any]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of all metrics."""
        return self.settings.all_metrics


def make_report(
    scorer: ScorerRecord, settings: EvaluationSettings, datasets: Sequence[DatasetReport]
) -> Report:
    """Sum up the values of all data sets.

    Raises:
        ConfigError: If there is no data set, or two have one name.
    """
    names = [dataset.name for dataset in datasets]
    if not names or len(set(names)) != len(names):
        msg = f"datasets must have one name each, at least one, got {', '.join(names) or 'none'}"
        raise ConfigError(msg)
    metrics = settings.all_metrics
    values = {d.name: np.stack([d.values[m] for m in metrics], axis=1) for d in datasets}
    drawn = bootstrap_means(values, resamples=settings.resamples, seed=settings.seed)
    sizes = np.array([len(d.query_ids) for d in datasets], dtype=np.float64)
    means = {name: v.mean(axis=0) for name, v in values.items()}

    def summary(weights: Values) -> Summary:
        """Figures of a weighted mean of data sets, and of each draw of it."""
        total = sum(w * drawn[name] for w, name in zip(weights, names, strict=True))
        value = sum(w * means[name] for w, name in zip(weights, names, strict=True))
        return Summary(
            {m: float(value[i]) for i, m in enumerate(metrics)},
            {
                m: interval(total[:, i], confidence=settings.confidence)
                for i, m in enumerate(metrics)
            },
        )

    one = np.eye(len(names))
    return Report(
        scorer=scorer,
        settings=settings,
        datasets=tuple(datasets),
        summaries={name: summary(one[i]) for i, name in enumerate(names)},
        macro=summary(np.full(len(names), 1 / len(names))),
        micro=summary(sizes / sizes.sum()),
        package=version("toolheads"),
        metrics_version=METRICS_VERSION,
        machine=machine_kind(),
    )


def machine_kind() -> dict[str, Any]:
    """CPU model and count, system and the libraries that compute; no name of the machine."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        model = next(iter(named), model)
    return {
        "cpu": model,
        "cpus": os.cpu_count() or 0,
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
