"""Measures rankings: metrics, TREC files, reports, statistics and tables."""

from toolheads.evaluation.metrics import (
    ADAPTIVE_METRICS,
    DEFAULT_CUTOFFS,
    METRICS_VERSION,
    Metric,
    Values,
    default_metrics,
)
from toolheads.evaluation.ranked import (
    NO_ROW,
    Relevant,
    adaptive_metrics,
    per_query_metrics,
    ranked_metrics,
)

__all__ = [
    "ADAPTIVE_METRICS",
    "DEFAULT_CUTOFFS",
    "METRICS_VERSION",
    "NO_ROW",
    "Metric",
    "Relevant",
    "Values",
    "adaptive_metrics",
    "default_metrics",
    "per_query_metrics",
    "ranked_metrics",
]
