"""What reports must have in common to be compared, and what a published figure must follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolheads.errors import ConfigError
from toolheads.evaluation.metrics import METRICS_VERSION, default_metrics
from toolheads.evaluation.report import DatasetReport, Report

PROTOCOL_SPLIT = "test"
PROTOCOL_K = 100


def check_comparable(reports: Sequence[tuple[str, Report]]) -> None:
    """Refuse reports that do not measure the same thing on the same queries.

    The adaptive cutoff is no part of it: as the heads, it belongs to what is measured.

    Args:
        reports: (name for the error, report), at least one.

    Raises:
        ConfigError: Naming everything that differs from the first report.
    """
    (first_name, first), *others = reports
    for name, other in others:
        found = list(_differences(first, other))
        if found:
            msg = f"{first_name} and {name} must be comparable, they differ in {'; '.join(found)}"
            raise ConfigError(msg)


def check_protocol(name: str, report: Report) -> None:
    """Refuse a report whose figures must not be published beside others.

    Raises:
        ConfigError: Naming each rule that is broken.
    """
    s = report.settings
    missing = [metric for metric in default_metrics() if metric not in s.metrics]
    broken = {
        f"split {PROTOCOL_SPLIT}, got {s.split}": s.split != PROTOCOL_SPLIT,
        f"all queries, got limit {s.limit}": s.limit is not None,
        f"k {PROTOCOL_K}, got {s.k}": s.k != PROTOCOL_K,
        "every line of the data, got skip_bad": s.skip_bad,
        f"all metrics of the protocol, got none of {', '.join(missing)}": bool(missing),
        f"{METRICS_VERSION}, got {report.metrics_version}": (
            report.metrics_version != METRICS_VERSION
        ),
        "digests of its data, got none": not all(d.digest for d in report.datasets),
        "the sha256 of its heads, got none": bool(
            report.scorer.heads and not report.scorer.heads_sha256
        ),
    }
    rules = [rule for rule, is_broken in broken.items() if is_broken]
    if rules:
        msg = f"{name} must follow the protocol: {'; '.join(rules)}"
        raise ConfigError(msg)


def _differences(a: Report, b: Report) -> Iterator[str]:
    """What differs, in words."""
    pairs = {
        "metric definitions": (a.metrics_version, b.metrics_version),
        "split": (a.settings.split, b.settings.split),
        "limit": (a.settings.limit, b.settings.limit),
        "k": (a.settings.k, b.settings.k),
        "skip_bad": (a.settings.skip_bad, b.settings.skip_bad),
        "confidence": (a.settings.confidence, b.settings.confidence),
        "metrics": _only(a.settings.metrics, b.settings.metrics),
        "data sets": _only([d.name for d in a.datasets], [d.name for d in b.datasets]),
    }
    for name, (one, two) in pairs.items():
        if one != two:
            yield f"{name} ({one} and {two})"
    theirs = {d.name: d for d in b.datasets}
    for mine in a.datasets:
        if mine.name in theirs:
            yield from _dataset_differences(mine, theirs[mine.name])


def _dataset_differences(a: DatasetReport, b: DatasetReport) -> Iterator[str]:
    for file in sorted({*a.digest, *b.digest}):
        one, two = a.digest.get(file, "none"), b.digest.get(file, "none")
        if one != two:
            yield f"digest of {a.name}/{file} ({one[:12]} and {two[:12]})"
    if a.query_ids != b.query_ids:
        what = "order" if set(a.query_ids) == set(b.query_ids) else "choice"
        yield f"{what} of queries of {a.name} ({len(a.query_ids)} and {len(b.query_ids)})"


def _only(a: Sequence[str], b: Sequence[str]) -> tuple[str, str]:
    """What each of two lists has alone, as text."""
    one, two = (", ".join(sorted(set(x) - set(y))) for x, y in ((a, b), (b, a)))
    return one or "none more", two or "none more"
