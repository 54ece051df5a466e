"""What a sweep found: one row for each variant, as text and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from toolheads_train.sweep.grid import Settings, label, variant_of
from toolheads_train.sweep.training import CHOOSES, Measured, Trained


@dataclass(frozen=True)
class Row:
    """One variant, over its seeds."""

    label: str
    settings: Settings
    kind: str
    """`frozen`, `heads`, `soup` or `ensemble`."""
    scores: tuple[float, ...]
    """nDCG@10 of each seed, mean over the validation sets, in [0, 1]."""
    gains: dict[str, float]
    """Set → nDCG@10 above the untrained heads, mean over the seeds."""
    steps: tuple[int, ...] = ()
    """Optimiser steps before the validation that was kept, of each seed."""
    seconds: float = 0.0
    """Of training all of it, without validation."""
    validation_s: float = 0.0
    file: str = ""
    """Heads file of the best seed, in the folder of the sweep."""
    errors: tuple[str, ...] = field(default=())

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return statistics.fmean(self.scores)

    @property
    def spread(self) -> float:
        """Standard deviation over the seeds; 0 for one."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else 0.0

    @property
    def worst(self) -> tuple[str, float]:
        """The set with the smallest gain."""
        return min(self.gains.items(), key=lambda item: (item[1], item[0]))

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        own = {"mean": self.mean, "spread": self.spread, "worst": list(self.worst)}
        return {**asdict(self), **own}


def rows_of(trained: Sequence[Trained]) -> list[Row]:
    """The untrained heads and then all variants, best first; equal ones in the grid's order."""
    found: dict[str, list[Trained]] = {}
    for one in trained:
        found.setdefault(label(variant_of(one.settings)), []).append(one)
    rows = [_row(name, group) for name, group in found.items()]
    # Settings such as alpha do not move untrained heads: their last layer is zero.
    start = trained[0].start
    sets = {name: 0.0 for name in start if name}
    frozen = Row("frozen", {}, "frozen", (start[""][CHOOSES],), sets)
    return [frozen, *sorted(rows, key=lambda row: -row.mean)]


def combined(kind: str, base: Row, measured: Measured, start: Measured, file: str = "") -> Row:
    """A row for what was made of all seeds of a variant."""
    return Row(
        f"{base.label}, {kind} of {len(base.scores)}",
        base.settings,
        kind,
        (measured[""][CHOOSES],),
        gains_of([measured], start),
        file=file,
    )


def gains_of(measured: Sequence[Measured], start: Measured) -> dict[str, float]:
    """Set → gain over the untrained heads, mean over several measurements."""
    return {
        name: statistics.fmean(one[name][CHOOSES] - start[name][CHOOSES] for one in measured)
        for name in start
        if name
    }


def render(rows: Sequence[Row]) -> str:
    """A table for a terminal or a Markdown page; nDCG@10 in percent."""
    head = ("variant", "seeds", "val/ndcg@10", "spread", "worst set", "seconds")
    lines = [
        (
            row.label + (" (stopped)" if any(row.errors) else ""),
            str(len(row.scores)),
            f"{100 * row.mean:.2f}",
            f"{100 * row.spread:.2f}" if len(row.scores) > 1 else "",
            "" if row.kind == "frozen" else f"{row.worst[0]} {100 * row.worst[1]:+.2f}",
            f"{row.seconds:.1f}" if row.seconds else "",
        )
        for row in rows
    ]
    widths = [max(len(line[i]) for line in (head, *lines)) for i in range(len(head))]
    left = {0, 4}

    def written(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join(padded)} |"

    rule = ("-" * w if i in left else "-" * (w - 1) + ":" for i, w in enumerate(widths))
    return "\n".join([written(head), f"| {' | '.join(rule)} |", *map(written, lines)])


def _row(name: str, group: Sequence[Trained]) -> Row:
    return Row(
        name,
        variant_of(group[0].settings),
        "heads",
        tuple(one.score for one in group),
        gains_of([one.measured for one in group], group[0].start),
        tuple(one.step for one in group),
        sum(one.seconds for one in group),
        sum(one.validation_s for one in group),
        errors=tuple(one.error for one in group),
    )
