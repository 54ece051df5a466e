"""From measurements to one table with ratios, and the quality of each test set below it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.ancestor.processes import Measured

CALLBUS, SAME, OWN = "callbus", "toolheads, same heads", "toolheads, own heads"
SYSTEMS = (CALLBUS, SAME, OWN)


@dataclass(frozen=True)
class Row:
    """One process: what was measured from outside, and what it measured itself."""

    kind: str
    """Such as `train 384`, `search 4096`, `start`."""
    system: str
    took: Measured
    own: dict[str, Any]


@dataclass
class Result:
    """Everything that one run found."""

    settings: dict[str, Any]
    machine: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    quality: dict[str, Any] = field(default_factory=dict)
    callbus_training: dict[str, Any] = field(default_factory=dict)
    steps: dict[str, float] = field(default_factory=dict)

    def add(
        self, kind: str, system: str, took: Measured, own: dict[str, Any] | None = None
    ) -> None:
        """Take one process in."""
        self.rows.append(Row(kind, system, took, own or {}))

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self)

    def median(self, kind: str, system: str, value: Callable[[Row], Sequence[float]]) -> float:
        """Median over all values of all processes of one kind.

        Raises:
            ValueError: If there is no such process.
        """
        found = [
            v for row in self.rows if (row.kind, row.system) == (kind, system) for v in value(row)
        ]
        if not found:
            msg = f"{kind} of {system} must have been measured, got nothing"
            raise ValueError(msg)
        return statistics.median(found)


def render(result: Result) -> str:
    """Markdown."""
    parts = [_heading(result), _ratios(result), _quality(result), _notes(result)]
    return "\n\n".join(part for part in parts if part)


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns are aligned as text too; the first to the left, the others right."""
    cells = [list(header), *map(list, rows)]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], rule, *lines[1:]])


def per_1000_pairs(name: str) -> Callable[[Row], list[float]]:
    """Seconds per 1,000 pairs of the counted epochs: all but the first, a warm-up."""

    def value(row: Row) -> list[float]:
        timed = row.own[name]
        return [1000 * s / row.own["pairs"] for s in (timed[1:] or timed)]

    return value


def peak_mb(row: Row) -> list[float]:
    """Largest resident set of the process."""
    return [row.took.peak_mb]


def _own(name: str) -> Callable[[Row], list[float]]:
    return lambda row: [float(row.own[name])]


def _heading(result: Result) -> str:
    m, s = result.machine, result.settings
    versions = {
        name.removeprefix("version:"): value
        for row in result.rows
        for name, value in row.own.items()
        if name.startswith("version:")
    }
    listed = ", ".join(f"{name} {value}" for name, value in sorted(versions.items()))
    quick = " QUICK RUN: sizes too small for figures." if s["quick"] else ""
    return (
        f"{m['cpu']}, {m['cpus']} CPUs, {s['threads']} threads, trainers on {s['device']}; "
        f"Python {m['python']}, {listed}. Data: {s['data']}, {len(s['data_sets'])} sets.{quick}"
    )


def _ratios(result: Result) -> str:
    """The one table: both systems and how many times more callbus takes."""
    width, pairs = result.data["width"], result.data["train_queries"]
    rows = []

    def add(what: str, values: Sequence[float], digits: int) -> None:
        base = values[0]
        cells = [f"{base:,.{digits}f}"]
        for value in values[1:]:
            cells += [f"{value:,.{digits}f}", f"{base / value:.2f}x" if value else "-"]
        rows.append([what, *cells])

    def medians(kind: str, value: Callable[[Row], Sequence[float]]) -> list[float]:
        return [result.median(kind, system, value) for system in SYSTEMS]

    for d in (4096, width):
        seconds = medians(f"train {d}", per_1000_pairs("epoch_s"))
        add(f"training, {d}-d, s per 1,000 pairs", seconds, 3)
        cpu = medians(f"train {d}", per_1000_pairs("epoch_cpu_s"))
        add(f"training, {d}-d, CPU s per 1,000 pairs", cpu, 3)
        add(f"training, {d}-d, s per epoch of {pairs:,}", [s * pairs / 1000 for s in seconds], 1)
        add(f"training, {d}-d, peak MB", medians(f"train {d}", peak_mb), 0)
    tools = result.data["catalogue_tools"]
    for d in (4096, width):
        for name in ("p50", "p99"):
            add(
                f"search, {d}-d, {tools:,} tools, {name} ms",
                medians(f"search {d}", _own(f"{name}_ms")),
                2,
            )
        add(f"search, {d}-d, mean CPU ms", medians(f"search {d}", _own("cpu_ms")), 2)
        add(f"indexing, {d}-d, s", medians(f"search {d}", _own("index_s")), 2)
        add(f"search, {d}-d, peak MB", medians(f"search {d}", peak_mb), 0)
    add("start to first answer, s", medians("start", lambda r: [r.took.wall_s]), 2)
    add("start to first answer, CPU s", medians("start", lambda r: [r.took.cpu_s]), 2)
    add("start to first answer, peak MB", medians("start", peak_mb), 0)
    add("first start, nothing cached, s", medians("first start", lambda r: [r.took.wall_s]), 2)
    header = ["", "callbus", "toolheads, same heads", "ratio", "toolheads, own heads", "ratio"]
    return markdown(header, rows)


def _quality(result: Result) -> str:
    """NDCG@10 of each test set, the best of a line in bold."""
    found = result.quality
    if not found:
        return ""
    labels = ["frozen", *SYSTEMS]
    rows = []
    for name, queries in found["queries"].items():
        rows.append([name, f"{queries:,}", *_bold([found["sets"][s][name] for s in labels])])
    total = f"{sum(found['queries'].values()):,}"
    rows.append(["**macro average**", total, *_bold([found["macro"][s] for s in labels])])
    ends = [found["macro_interval"][s] for s in labels]
    rows.append(["95% interval", "", *(f"[{100 * a:.1f}, {100 * b:.1f}]" for a, b in ends)])
    tests = [
        f"{pair}: {100 * t['difference']:+.2f} "
        f"[{100 * t['interval'][0]:+.2f}, {100 * t['interval'][1]:+.2f}], p {_p(t['p'])}"
        for pair, t in found["tests"].items()
    ]
    table = markdown(["NDCG@10", "queries", *labels], rows)
    return table + "\n\nPaired differences of the macro average: " + "; ".join(tests) + "."


def _notes(result: Result) -> str:
    s, d = result.settings, result.data
    local = max(row.own["pairs"] for row in result.rows if row.kind == f"train {d['width']}")
    return (
        f"Ratio: callbus / toolheads, above 1 toolheads takes less. Medians over {s['rounds']} "
        f"processes each, in turn, and {s['starts']} starts. Training: batches of 512; "
        f"{s['wide_pairs']:,} random pairs at 4096-d, {local:,} real pairs at "
        f'{d["width"]}-d; validation not counted. "Same heads": two hidden layers of 1536 as '
        f"callbus has them. Catalogue: {d['catalogue_tools']:,} tools, "
        f"{d['made_up_tools']:,} of them made up; {d['requests']} requests; the encoder answers "
        "at once."
    )


def _bold(values: Sequence[float]) -> list[str]:
    shown = [f"{100 * value:.2f}" for value in values]
    best = max(shown, key=float)
    return [f"**{cell}**" if cell == best else cell for cell in shown]


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "<0.001"
