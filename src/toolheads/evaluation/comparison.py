"""Two reports query by query: differences, their intervals and how likely they are by chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolheads.errors import ConfigError
from toolheads.evaluation.protocol import check_comparable
from toolheads.evaluation.report import Report
from toolheads.evaluation.statistics import bootstrap_means, holm, interval, permutation_p

PERMUTATIONS = 10_000
"""Sign vectors of the permutation test; the smallest p is 1 / 10,001."""


@dataclass(frozen=True)
class Difference:
    """One line of a comparison: B minus A.

    Attributes:
        name: Data set, or `macro`.
        queries: How many queries stand behind it.
        a: Mean of the first report.
        b: Mean of the second report.
        interval: Ends of the bootstrap interval of b - a.
        p: Two-sided paired permutation test.
        holm_p: p corrected for the number of data sets; None for the macro average, which is one
            test of its own.
    """

    name: str
    queries: int
    a: float
    b: float
    interval: tuple[float, float]
    p: float
    holm_p: float | None

    @property
    def difference(self) -> float:
        """B minus A."""
        return self.b - self.a


@dataclass(frozen=True)
class Comparison:
    """Differences of two reports in one metric.

    Attributes:
        metric: Name such as `ndcg@10`.
        datasets: One line for each data set, in the order of the first report.
        macro: The mean over data sets.
        confidence: Coverage of the intervals.
        permutations: Random sign vectors of the test.
        seed: Of bootstrap and test.
    """

    metric: str
    datasets: tuple[Difference, ...]
    macro: Difference
    confidence: float
    permutations: int
    seed: int


def compare(
    a: Report,
    b: Report,
    *,
    metric: str = "ndcg@10",
    names: Sequence[str] = ("the first report", "the second report"),
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Comparison:
    """Compare two reports of the same queries.

    Args:
        a: The base.
        b: What is held against it; differences are b - a.
        metric: Name of a metric both have, adaptive ones included.
        names: What the errors call the reports.
        permutations: Random sign vectors of the test, >= 1.
        seed: Of bootstrap and test.

    Raises:
        ConfigError: If they differ in anything but the scorer, or have no such metric.
    """
    check_comparable(list(zip(names, (a, b), strict=True)))
    for name, report in zip(names, (a, b), strict=True):
        if metric not in report.metrics:
            msg = f"metric must be one of {name}: {', '.join(report.metrics)}; got {metric!r}"
            raise ConfigError(msg)
    theirs = {d.name: d.values[metric] for d in b.datasets}
    differences = {d.name: theirs[d.name] - d.values[metric] for d in a.datasets}
    confidence, resamples = a.settings.confidence, a.settings.resamples
    drawn = bootstrap_means(differences, resamples=resamples, seed=seed)
    ps = [
        permutation_p({name: values}, resamples=permutations, seed=seed)
        for name, values in differences.items()
    ]
    lines = tuple(
        Difference(
            name=dataset.name,
            queries=len(dataset.query_ids),
            a=dataset.mean(metric),
            b=float(theirs[dataset.name].mean()),
            interval=interval(drawn[dataset.name][:, 0], confidence=confidence),
            p=p,
            holm_p=corrected,
        )
        for dataset, p, corrected in zip(a.datasets, ps, holm(ps), strict=True)
    )
    macro = Difference(
        name="macro",
        queries=sum(line.queries for line in lines),
        a=float(np.mean([line.a for line in lines])),
        b=float(np.mean([line.b for line in lines])),
        interval=interval(
            np.mean([means[:, 0] for means in drawn.values()], axis=0), confidence=confidence
        ),
        p=permutation_p(differences, resamples=permutations, seed=seed),
        holm_p=None,
    )
    return Comparison(metric, lines, macro, confidence, permutations, seed)
