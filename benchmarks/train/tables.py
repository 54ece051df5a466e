"""From single processes to tables with ratios and shares of the floor."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from benchmarks.ancestor.processes import Measured

EPOCH = 60_000
"""Pairs of the epoch that tables speak of."""


@dataclass(frozen=True)
class Cell:
    """One system with one shape of heads."""

    name: str
    system: str
    hidden: tuple[int, ...]
    is_bf16: bool
    is_both: bool = False


@dataclass(frozen=True)
class Case:
    """Systems that see the same vectors and batches."""

    name: str
    width: int
    pairs: int
    batch: int
    cells: tuple[Cell, ...]

    def without(self, system: str) -> Case:
        """The same without a system."""
        return replace(self, cells=tuple(c for c in self.cells if c.system != system))


@dataclass
class Found:
    """Everything that was measured."""

    machine: dict[str, Any]
    quick: bool = False
    cases: list[Case] = field(default_factory=list)
    trained: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    floors: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    stacked: list[dict[str, Any]] = field(default_factory=list)
    validation: list[dict[str, Any]] = field(default_factory=list)

    def add(self, case: Case, cell: Cell, took: Measured, own: dict[str, Any]) -> None:
        """Take one training in."""
        row = {**own, "peak_mb": took.peak_mb, "process_s": took.wall_s}
        self.trained.setdefault(_key(case, cell), []).append(row)

    def add_floor(self, case: Case, cell: Cell, own: dict[str, Any]) -> None:
        """Take one measurement of the products in."""
        self.floors.setdefault(_key(case, cell), []).append(own)

    def epoch(self, case: Case, cell: Cell, name: str = "epoch_s") -> float:
        """Median seconds of an epoch, the first of each process left out.

        callbus reports the ends of epochs, so that its first one is left out already.
        """
        skip = 0 if cell.system == "callbus" else 1
        rows = self.trained[_key(case, cell)]
        return float(statistics.median(s for row in rows for s in row[name][skip:]))

    def floor(self, case: Case, cell: Cell) -> tuple[float, float] | None:
        """Median seconds of the products of an epoch, and their GFLOP/s."""
        rows = self.floors.get(_key(case, cell))
        if not rows:
            return None
        seconds = statistics.median(s for row in rows for s in row["epoch_s"])
        return seconds, statistics.median(row["gflops"] for row in rows)

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self)


def render(found: Found) -> str:
    """Markdown: one table for each case, one for many at once, one for validation."""
    parts = [_machine(found)]
    for case in found.cases:
        first = case.cells[0]
        base = found.epoch(case, first)
        rows = []
        for cell in case.cells:
            seconds = found.epoch(case, cell)
            floor = found.floor(case, cell)
            rows.append(
                (
                    cell.name,
                    "-".join(map(str, cell.hidden)),
                    f"{1000 * seconds / case.pairs:.3f}",
                    f"{1000 * found.epoch(case, cell, 'epoch_cpu_s') / case.pairs:.3f}",
                    f"{EPOCH * seconds / case.pairs:.1f}",
                    f"{base / seconds:.2f}x",
                    "" if floor is None else f"{floor[1]:,.0f}",
                    "" if floor is None else f"{100 * floor[0] / seconds:.0f} %",
                )
            )
        head = (
            *(case.name, "hidden", "s per 1,000 pairs", "CPU s", f"s per epoch of {EPOCH:,}"),
            *("speed", "GEMM ceiling, GFLOP/s", "of it"),
        )
        parts.append(table(head, rows))
    if found.stacked:
        parts.append(_stacked(found.stacked))
    if found.validation:
        parts.append(_validation(found.validation))
    return "\n\n".join(parts)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, the first column left, the others right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * w if i == 0 else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join([line(head), f"| {' | '.join(rule)} |", *map(line, rows)])


def _machine(found: Found) -> str:
    m = found.machine
    note = " **Quick run: no figures.**" if found.quick else ""
    load = f"load {m['load_1_min']:.1f} at the start"
    return f"{m['cpu']}, {m['cpus']} CPUs, {m['threads']} threads; {load}.{note}"


def _stacked(rows: Sequence[dict[str, Any]]) -> str:
    lines = []
    shapes = dict.fromkeys((row["task"]["hidden"][0], row["task"]["batch"]) for row in rows)
    for hidden, batch in shapes:
        for is_bf16 in (False, True):
            own = [
                row
                for row in rows
                if (row["task"]["hidden"][0], row["task"]["batch"]) == (hidden, batch)
                and row["bf16"] == is_bf16
            ]
            if own:
                one, every = (statistics.median(r[n] for r in own) for n in ("one_s", "all_s"))
                name = f"hidden {hidden}, batch {batch}, {'bf16' if is_bf16 else 'fp32'}"
                lines.append((name, f"{one:.2f}", f"{every:.2f}", f"{every / one:.2f}"))
    head = (
        f"{rows[0]['task']['width']}-d",
        *("one pair of heads, s", f"{rows[0]['heads']} at once, s", "cost in single ones"),
    )
    return table(head, lines)


def _validation(rows: Sequence[dict[str, Any]]) -> str:
    lines = []
    for width in sorted({row["width"] for row in rows}):
        own = [row for row in rows if row["width"] == width]
        seconds = statistics.median(s for row in own for s in row["seconds"])
        sizes = f"{own[0]['queries']:,}", f"{own[0]['tools']:,}"
        lines.append((f"{width}-d", *sizes, f"{seconds:.2f}"))
    return table(("validation", "queries", "tools", "s"), lines)


def _key(case: Case, cell: Cell) -> str:
    return f"{case.name}: {cell.name}"
