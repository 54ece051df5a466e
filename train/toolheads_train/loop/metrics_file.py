"""The default logger: one CSV, a row for each step that logged; resuming goes on with it."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only

METRICS_FILE = "metrics.csv"


class MetricsFile(Logger):
    """Writes `metrics.csv`: the first column is the number of optimiser steps done.

    What is logged at one step shares a row. A run that is resumed at step s keeps the rows before
    what it logs first, and replaces the others: they are of steps that are taken again.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._rows: dict[int, dict[str, float]] | None = None

    @property
    def name(self) -> str:
        """Name of the run."""
        return self._folder.name

    @property
    def version(self) -> str:
        """A run has one version."""
        return ""

    @property
    def save_dir(self) -> str:
        """The run folder."""
        return str(self._folder)

    @property
    def log_dir(self) -> str:
        """The run folder."""
        return str(self._folder)

    @property
    def path(self) -> Path:
        """The file."""
        return self._folder / METRICS_FILE

    @rank_zero_only  # type: ignore[untyped-decorator, unused-ignore]
    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Nothing: the config is saved as a file of its own."""

    @rank_zero_only  # type: ignore[untyped-decorator, unused-ignore]
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Add values to the row of a step."""
        at = step or 0
        if self._rows is None:
            self._rows = {s: row for s, row in read_metrics(self.path).items() if s < at}
        self._rows.setdefault(at, {}).update(metrics)

    @rank_zero_only  # type: ignore[untyped-decorator, unused-ignore]
    def save(self) -> None:
        """Write the file, whole or not at all."""
        if not self._rows:
            return
        columns = sorted({name for row in self._rows.values() for name in row})
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        with part.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["step", *columns])
            for step, row in sorted(self._rows.items()):
                writer.writerow([step, *(row.get(name, "") for name in columns)])
        part.replace(self.path)

    @rank_zero_only  # type: ignore[untyped-decorator, unused-ignore]
    def finalize(self, status: str) -> None:
        """Write what is left."""
        self.save()


def read_metrics(path: Path) -> dict[int, dict[str, float]]:
    """Step → metrics logged there; empty when there is no file."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {
            int(row.pop("step")): {name: float(value) for name, value in row.items() if value}
            for row in csv.DictReader(file)
        }
