"""One grid over one config: what trains with what, and the folder that it leaves."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from toolheads.durable import write_whole
from toolheads.errors import ConfigError
from toolheads.heads import load_heads, save_heads
from toolheads.heads.bundle import Heads
from toolheads_train.data.modules import FolderData
from toolheads_train.data.validation_set import ValidationSet
from toolheads_train.loop.callbacks import StartingHeadsCompete
from toolheads_train.loop.module import HeadsModule
from toolheads_train.outcome.soup import How, soup
from toolheads_train.sweep.combining import Ensemble, torch_heads
from toolheads_train.sweep.grid import Grid, Settings, label, variant_of, words
from toolheads_train.sweep.report import Row, combined, render, rows_of
from toolheads_train.sweep.setup import Best, Parsed, Setup
from toolheads_train.sweep.training import Trained

logger = logging.getLogger(__name__)

TABLE_FILE, TEXT_FILE = "table.json", "table.md"

MOST_AT_ONCE = 16
"""Pairs of heads that are trained together by default."""


class Sweep:
    """One grid over one config."""

    def __init__(
        self,
        config: Path,
        grid: Grid,
        out: Path,
        more: Sequence[str] = (),
        *,
        at_once: int = MOST_AT_ONCE,
    ) -> None:
        """Take places and settings; nothing is read yet.

        Args:
            config: Config file of `fit`.
            grid: What varies.
            out: Folder of the table and of the heads files.
            more: Further options of `fit`.
            at_once: Most pairs of heads trained together.
        """
        self._config, self._grid, self._out = config, grid, out
        self._more, self._at_once = list(more), at_once
        self._loaded: dict[str, FolderData] = {}
        self._sets: dict[int, list[ValidationSet]] = {}

    def run(self, *, soup_how: How | None = None, ensemble: bool = False) -> list[Row]:
        """Train everything, write the folder, return the rows of the table."""
        began = time.monotonic()
        trained: list[Trained] = []
        setups: list[Setup] = []
        logger.info("%d trainings", len(self._grid))
        for apart in self._grid.apart():
            setup = self._setup(apart)
            new = self._train(setup, apart)
            trained += new
            setups += [setup] * len(new)
        rows = rows_of(trained)
        written = self._export(trained, setups)
        rows = [_with_file(row, written) for row in rows]
        rows += self._combinations(rows, trained, setups, soup_how, is_ensemble=ensemble)
        self._write(rows, time.monotonic() - began)
        return rows

    def _train(self, setup: Setup, apart: Settings) -> list[Trained]:
        """All combinations of what may differ in a stack, for one of what may not."""
        every = [{**apart, **own} for own in self._grid.together()]
        reason = setup.why_not_together
        if reason is not None or self._at_once == 1:
            if reason is not None and len(every) > 1:
                logger.info("one by one, because of %s: %s", reason, label(apart))
            return [self._train_one(settings) for settings in every]
        found: list[Trained] = []
        for first in range(0, len(every), self._at_once):
            chunk = every[first : first + self._at_once]
            new = setup.train(chunk)
            logger.info("%d at once, %.1f s: %s", len(chunk), sum(t.seconds for t in new),
                        label(variant_of(apart)))  # fmt: skip
            found += new
        return found

    def _train_one(self, settings: Settings) -> Trained:
        setup = self._setup(settings)
        one = setup.train_by_trainer(settings)
        logger.info("%.1f s: %s", one.seconds, label(settings))
        return one

    def _setup(self, settings: Settings) -> Setup:
        """Parse the config with some settings, and read its data unless that was done before."""
        best = Best()
        options = ["fit", "--config", str(self._config), *self._more, *words(settings)]
        parsed = Parsed(options, [StartingHeadsCompete(), best])
        data = parsed.datamodule
        if not isinstance(data, FolderData) or not isinstance(parsed.model, HeadsModule):
            msg = f"a sweep must have data folders, got {type(data).__name__}"
            raise ConfigError(msg)
        key = json.dumps(
            {
                "data": {
                    name: value
                    for name, value in parsed.plain["data"].items()
                    if name not in ("sampling", "chunk_steps")
                },
                "label_free": data.sampling.needs_label_free,
            },
            sort_keys=True,
            default=str,
        )
        if key in self._loaded:
            _share(self._loaded[key], data)
        else:
            data.setup("fit")
            self._loaded[key] = data
        return Setup(parsed.model, data, parsed.trainer, parsed.seed, best)

    def _export(self, trained: Sequence[Trained], setups: Sequence[Setup]) -> dict[str, Path]:
        """Heads files of the best seed of each variant; label → file."""
        best: dict[str, tuple[Trained, Setup]] = {}
        for one, setup in zip(trained, setups, strict=True):
            name = label(variant_of(one.settings))
            if name not in best or one.score > best[name][0].score:
                best[name] = (one, setup)
        found = {}
        for name, (one, setup) in best.items():
            found[name] = self._out / _file_name(name) / "heads.npz"
            setup.export(found[name], one)
        return found

    def _combinations(
        self,
        rows: Sequence[Row],
        trained: Sequence[Trained],
        setups: Sequence[Setup],
        how: How | None,
        *,
        is_ensemble: bool,
    ) -> list[Row]:
        """Rows for what is made of all seeds of a variant."""
        found: list[Row] = []
        for row in rows:
            pairs = [
                (one, setup)
                for one, setup in zip(trained, setups, strict=True)
                if row.kind == "heads" and label(variant_of(one.settings)) == row.label
            ]
            if len(pairs) < 2:
                continue
            group, setup = [one for one, _ in pairs], pairs[0][1]
            start = group[0].start
            if is_ensemble:
                measured = setup.validated(Ensemble([one.heads for one in group]))
                found.append(combined("ensemble", row, measured, start))
            if how is not None:
                path = self._out / _file_name(row.label) / f"soup-{how}.npz"
                made = self._soup(path, group, setup, how)
                measured = setup.validated(torch_heads(made))
                file = str(path.relative_to(self._out))
                found.append(combined("soup", row, measured, start, file))
        return found

    def _soup(self, path: Path, group: Sequence[Trained], setup: Setup, how: How) -> Heads:
        parts = []
        for number, one in enumerate(group):
            part = path.with_name(f"seed-{number}.npz")
            setup.export(part, one)
            parts.append(load_heads(part))
        save_heads(path, soup(parts, how, name=path.parent.name))
        return load_heads(path)

    def _write(self, rows: Sequence[Row], seconds: float) -> None:
        found = {
            "config": self._config.name,
            "grid": {name: list(values) for name, values in self._grid.values.items()},
            "options": self._more,
            "seconds": round(seconds, 2),
            "rows": [row.to_json() for row in rows],
        }
        text = json.dumps(found, indent=2, ensure_ascii=False, default=str)
        self._out.mkdir(parents=True, exist_ok=True)
        write_whole(self._out / TABLE_FILE, f"{text}\n".encode())
        write_whole(self._out / TEXT_FILE, f"{render(rows)}\n".encode())


def _share(source: FolderData, data: FolderData) -> None:
    """Take what another data module of the same settings has read."""
    data.loaded, data._corpus = source.loaded, source.corpus
    data.validation_sets = list(source.validation_sets)


def _with_file(row: Row, written: dict[str, Path]) -> Row:
    path = written.get(row.label)
    if path is None or row.kind != "heads":
        return row
    return replace(row, file=f"{path.parent.name}/{path.name}")


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9=._-]+", "_", name)[:120]
