"""Reports as JSON files.

Per-query values are part of the file, so that two reports can be compared query by query later.
Equal runs give equal bytes: no time, host or path is in it. Reading checks everything that a
table or a comparison relies on, down to each mean being the mean of its values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from toolheads.data.shared import COUNTS
from toolheads.durable import write_whole
from toolheads.errors import DataError, ToolheadsError
from toolheads.evaluation.report import DatasetReport, Report, ScorerRecord, Summary
from toolheads.evaluation.settings import EvaluationSettings
from toolheads.identity import Fingerprint

FORMAT = "toolheads evaluation report"
VERSION = 1
"""Version of the JSON layout; another one is refused."""

_SAME = 1e-9
"""Largest difference between a stored mean and the mean of the stored values."""

_LARGEST = 1e9
"""No metric comes near it; NaN, infinity and integers beyond float64 are refused with it."""


def write_report(path: Path | str, report: Report) -> None:
    """Write a report, whole or not at all; its folder is made if need be."""
    write_whole(path, f"{report_text(report)}\n".encode())


def read_report(path: Path | str) -> Report:
    """Read what `write_report` wrote.

    Raises:
        DataError: If the file is missing, no report, damaged, or of another version; one line.
    """
    try:
        data = json.loads(Path(path).read_bytes().decode(), parse_constant=_refuse_constant)
    except OSError as e:
        msg = f"{path} must be a report, got what cannot be read: {e.strerror}"
        raise DataError(msg) from e
    except (ValueError, RecursionError) as e:
        msg = f"{path} must be a report in JSON, got {_first_line(e)}"
        raise DataError(msg) from e
    try:
        return _report(data)
    except (ToolheadsError, _BrokenError) as e:
        msg = f"{path} cannot be used: {_first_line(e)}"
        raise DataError(msg) from e


def report_text(report: Report) -> str:
    """The JSON text of a report; values of one metric stand on one line."""
    head = {
        "format": FORMAT,
        "version": VERSION,
        "package": report.package,
        "metrics_version": report.metrics_version,
        "machine": dict(report.machine),
        "scorer": _scorer_json(report.scorer),
        "settings": report.settings.to_json(),
        "macro": _summary_json(report.macro),
        "micro": _summary_json(report.micro),
    }
    lines = [f"{json.dumps(name)}: {_dump(value)}" for name, value in head.items()]
    datasets = ",\n".join(_dataset_text(d, report.summaries[d.name]) for d in report.datasets)
    return "{\n" + ",\n".join(lines) + ',\n"datasets": [\n' + datasets + "\n]\n}"


class _BrokenError(ValueError):
    """The data is no report; the message says what is wrong."""


def _dataset_text(dataset: DatasetReport, summary: Summary) -> str:
    head = {
        "name": dataset.name,
        "digest": dict(dataset.digest),
        "tools": dataset.tools,
        "without_relevant": dataset.without_relevant,
        "summary": _summary_json(summary),
        # A scorer without heads, or with heads that do not know the data set, has none.
        **({} if dataset.in_training is None else {"in_training": dict(dataset.in_training)}),
        "query_ids": list(dataset.query_ids),
    }
    lines = [f"{json.dumps(name)}: {_dump(value)}" for name, value in head.items()]
    values = ",\n".join(
        f"{json.dumps(metric)}: {_dump(values.tolist())}"
        for metric, values in dataset.values.items()
    )
    return "{\n" + ",\n".join(lines) + ',\n"values": {\n' + values + "\n}\n}"


def _scorer_json(scorer: ScorerRecord) -> dict[str, Any]:
    return {
        "name": scorer.name,
        "heads": scorer.heads,
        "heads_sha256": scorer.heads_sha256,
        "fingerprint": None if scorer.fingerprint is None else scorer.fingerprint.to_json(),
        "parameters": dict(scorer.parameters),
    }


def _summary_json(summary: Summary) -> dict[str, Any]:
    return {
        "means": dict(summary.means),
        "intervals": {metric: list(ends) for metric, ends in summary.intervals.items()},
    }


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _report(data: Any) -> Report:
    _need(
        isinstance(data, dict) and data.get("format") == FORMAT,
        f"it must be a {FORMAT}, got another file",
    )
    version = data.get("version")
    _need(version == VERSION, f"it must have report version {VERSION}, got {version!r:.40}")
    settings = EvaluationSettings.from_json(_get(data, "settings", dict))
    metrics = settings.all_metrics
    datasets = [_dataset(given, metrics) for given in _get(data, "datasets", list)]
    names = [dataset.name for dataset, _ in datasets]
    unique = bool(names) and len(set(names)) == len(names)
    _need(unique, f"datasets must have one name each, at least one, got {names}")
    means = {d.name: {m: d.mean(m) for m in metrics} for d, _ in datasets}
    sizes = [len(d.query_ids) for d, _ in datasets]
    macro = {m: float(np.mean([means[name][m] for name in names])) for m in metrics}
    micro = {
        m: float(np.average([means[name][m] for name in names], weights=sizes)) for m in metrics
    }
    return Report(
        scorer=_scorer(_get(data, "scorer", dict)),
        settings=settings,
        datasets=tuple(dataset for dataset, _ in datasets),
        summaries={
            d.name: _summary(summary, means[d.name], owner=d.name) for d, summary in datasets
        },
        macro=_summary(_get(data, "macro", dict), macro, owner="macro"),
        micro=_summary(_get(data, "micro", dict), micro, owner="micro"),
        package=_get(data, "package", str),
        metrics_version=_get(data, "metrics_version", str),
        machine=_get(data, "machine", dict),
    )


def _dataset(data: Any, metrics: tuple[str, ...]) -> tuple[DatasetReport, dict[str, Any]]:
    _need(isinstance(data, dict), f"a data set must be an object, got {type(data).__name__}")
    name = _get(data, "name", str)
    query_ids = _get(data, "query_ids", list)
    unique = _are_texts(query_ids) and len(set(query_ids)) == len(query_ids) > 0
    _need(unique, f"query_ids of {name} must be texts, each once, at least one")
    digest = _get(data, "digest", dict)
    _need(_are_texts(list(digest.values())), f"digest of {name} must map file names to sha256")
    given = _get(data, "values", dict)
    odd = sorted(set(metrics) ^ set(given))
    _need(not odd, f"values of {name} must be those of the settings' metrics, not so: {odd}")
    values = {}
    for metric in metrics:
        is_list = isinstance(given[metric], list) and len(given[metric]) == len(query_ids)
        is_good = is_list and all(map(_is_number, given[metric]))
        _need(is_good, f"values of {name}, {metric}, must be {len(query_ids)} finite numbers")
        values[metric] = np.array(given[metric], dtype=np.float64)
    dataset = DatasetReport(
        name=name,
        digest=digest,
        tools=_get(data, "tools", int),
        without_relevant=_get(data, "without_relevant", int),
        query_ids=tuple(query_ids),
        values=values,
        in_training=_in_training(data, name),
    )
    return dataset, _get(data, "summary", dict)


def _in_training(data: Mapping[str, Any], name: str) -> dict[str, int] | None:
    """The counts of shared tools; a report may do without."""
    if "in_training" not in data:
        return None
    counts: dict[str, int] = _get(data, "in_training", dict)
    are_counts = set(counts) == set(COUNTS) and all(type(n) is int for n in counts.values())
    _need(are_counts, f"in_training of {name} must be whole numbers for {', '.join(COUNTS)}")
    return counts


def _summary(data: dict[str, Any], expected: Mapping[str, float], *, owner: str) -> Summary:
    means, intervals = _get(data, "means", dict), _get(data, "intervals", dict)
    for metric, mean in expected.items():
        got = means.get(metric)
        is_mean = _is_number(got) and abs(got - mean) <= _SAME
        _need(is_mean, f"{metric} of {owner} must be the mean of its values {mean}, got {got}")
        ends = intervals.get(metric)
        is_pair = isinstance(ends, list) and len(ends) == 2 and all(map(_is_number, ends))
        is_interval = is_pair and ends[0] <= ends[1]
        _need(
            is_interval, f"the interval of {metric} of {owner} must be two ends, got {ends!r:.80}"
        )
    return Summary(
        {metric: means[metric] for metric in expected},
        {metric: (intervals[metric][0], intervals[metric][1]) for metric in expected},
    )


def _scorer(data: dict[str, Any]) -> ScorerRecord:
    heads, digest = (_get(data, name, str | None) for name in ("heads", "heads_sha256"))
    fingerprint = _get(data, "fingerprint", dict | None)
    return ScorerRecord(
        name=_get(data, "name", str),
        heads=heads,
        heads_sha256=digest,
        fingerprint=None if fingerprint is None else Fingerprint.from_json(fingerprint),
        parameters=_get(data, "parameters", dict),
    )


def _need(kept: bool, rule: str) -> None:
    if not kept:
        raise _BrokenError(rule)


def _get(data: Mapping[str, Any], name: str, kind: Any) -> Any:
    """One field, of the type it must have."""
    value = data.get(name, data)  # the object itself is never one of its fields
    is_kind = value is not data and isinstance(value, kind) and type(value) is not bool
    got = "nothing" if value is data else type(value).__name__
    _need(is_kind, f"{name} must be {getattr(kind, '__name__', kind)}, got {got}")
    return value


def _are_texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _is_number(value: object) -> bool:
    is_real = isinstance(value, int | float) and not isinstance(value, bool)
    return is_real and -_LARGEST < value < _LARGEST  # type: ignore[operator]  # a number, as checked


def _refuse_constant(name: str) -> NoReturn:
    msg = f"the number {name}, which no metric gives"
    raise ValueError(msg)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
