"""`toolheads train sweep`: every combination of a grid, at once where it goes."""

from __future__ import annotations

import argparse
import copy
import json
import logging
import math
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn

from toolheads.durable import write_whole
from toolheads.errors import ConfigError
from toolheads.heads import load_heads, save_heads
from toolheads.heads.bundle import Heads
from toolheads_train.command import TrainCommand, parsing
from toolheads_train.data.centres import centres_of
from toolheads_train.data.modules import FolderData
from toolheads_train.data.sampling import BatchSampler, steps_of_epoch
from toolheads_train.data.validation_set import ValidationSet
from toolheads_train.errors import NotFiniteError
from toolheads_train.loop.callbacks import StartingHeadsCompete
from toolheads_train.loop.contrast import why_not_stacked
from toolheads_train.loop.module import HeadsModule
from toolheads_train.loop.validation import DEFAULT_METRICS, validate
from toolheads_train.model.heads import TwoHeads
from toolheads_train.outcome.export import Backbone, export_heads, package_versions
from toolheads_train.outcome.soup import How, soup
from toolheads_train.sweep.grid import Grid, Member, Settings, label, variant_of, wandb_sweep, words
from toolheads_train.sweep.report import Row, combined, render, rows_of
from toolheads_train.sweep.training import (
    Measured,
    Plan,
    StackTraining,
    Trained,
    train_stack,
)

logger = logging.getLogger(__name__)

TABLE_FILE, TEXT_FILE = "table.json", "table.md"

MOST_AT_ONCE = 16
"""Pairs of heads that are trained together by default."""


def main(argv: Sequence[str]) -> int:
    """Train every combination of a grid and print a table.

    Words that are not listed are settings of `toolheads train fit`, the same for all.
    """
    parser = argparse.ArgumentParser(
        prog="toolheads train sweep",
        description=main.__doc__,
        epilog="example: toolheads train sweep --config configs/minilm.yaml --grid grid.yaml "
        "--out runs/sweep --data.root DATA",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--config", type=Path, required=True, help="config of `fit`")
    parser.add_argument(
        "--grid", type=Path, required=True, help="YAML: dotted name of a setting → list of values"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/sweep"), help="default: runs/sweep")
    parser.add_argument(
        "--at-once",
        type=int,
        default=MOST_AT_ONCE,
        help=f"most pairs of heads trained together (default: {MOST_AT_ONCE}); 1: one by one",
    )
    parser.add_argument(
        "--soup",
        choices=("mean", "join"),
        help="also make one heads file of all seeds of a variant; see `toolheads train soup`",
    )
    parser.add_argument(
        "--ensemble", action="store_true", help="also rank by the mean score of all seeds"
    )
    parser.add_argument(
        "--wandb-sweep", type=Path, metavar="OUT.yaml", help="also write the grid for W&B agents"
    )
    args, more = parser.parse_known_args(list(argv))
    if args.at_once < 1:
        msg = f"at-once must be >= 1, got {args.at_once}"
        raise ConfigError(msg)
    if not args.config.is_file() or not args.grid.is_file():
        missing = args.config if not args.config.is_file() else args.grid
        msg = f"config and grid must be files, got no file {missing}"
        raise ConfigError(msg)
    grid = Grid.read(args.grid)
    if args.wandb_sweep is not None:
        write_whole(args.wandb_sweep, wandb_sweep(grid, args.config).encode())
    with parsing():
        sweep = Sweep(args.config, grid, args.out, more, at_once=args.at_once)
        rows = sweep.run(soup_how=args.soup, ensemble=args.ensemble)
    sys.stdout.write(render(rows) + "\n")
    return 0


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
        setups: list[_Setup] = []
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

    def _train(self, setup: _Setup, apart: Settings) -> list[Trained]:
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

    def _setup(self, settings: Settings) -> _Setup:
        """Parse the config with some settings, and read its data unless that was done before."""
        best = _Best()
        options = ["fit", "--config", str(self._config), *self._more, *words(settings)]
        parsed = _Parsed(options, [StartingHeadsCompete(), best])
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
        return _Setup(parsed.model, data, parsed.trainer, parsed.seed, best)

    def _export(self, trained: Sequence[Trained], setups: Sequence[_Setup]) -> dict[str, Path]:
        """Heads files of the best seed of each variant; label → file."""
        best: dict[str, tuple[Trained, _Setup]] = {}
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
        setups: Sequence[_Setup],
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
                measured = setup.validated(_Ensemble([one.heads for one in group]))
                found.append(combined("ensemble", row, measured, start))
            if how is not None:
                path = self._out / _file_name(row.label) / f"soup-{how}.npz"
                made = self._soup(path, group, setup, how)
                measured = setup.validated(_torch_heads(made))
                file = str(path.relative_to(self._out))
                found.append(combined("soup", row, measured, start, file))
        return found

    def _soup(self, path: Path, group: Sequence[Trained], setup: _Setup, how: How) -> Heads:
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


@dataclass
class _Setup:
    """One parsed config with its data."""

    module: HeadsModule
    data: FolderData
    trainer: pl.Trainer
    seed: int
    best: _Best

    @property
    def device(self) -> torch.device:
        device: torch.device = self.trainer.strategy.root_device
        return device

    @property
    def why_not_together(self) -> str | None:
        """The first setting that a stack has nothing for."""
        module, trainer = self.module, self.trainer
        if module.ema is not None:
            return "model.ema"
        if trainer.world_size != 1:
            return "trainer.devices"
        return why_not_stacked(module.loss, self.data.sampling)

    def train(self, settings: Sequence[Settings]) -> list[Trained]:
        """Train several at once."""
        module, data, trainer = self.module, self.data, self.trainer
        members = [
            Member.of(one, self.seed, module.head, module.loss, module.optimizer)
            for one in settings
        ]
        corpus = data.corpus.to(self.device, module.store_dtype)
        epochs = trainer.max_epochs if trainer.max_epochs is not None else -1
        if epochs < 0 and trainer.max_steps < 0:
            msg = "trainer.max_epochs or trainer.max_steps must be >= 0, got neither"
            raise ConfigError(msg)
        steps = steps_of_epoch(corpus, data.sampling)
        plan = Plan(
            epochs=epochs if epochs >= 0 else -(-trainer.max_steps // steps),
            steps_per_epoch=steps,
            check_every=trainer.check_val_every_n_epoch or 1,
            max_steps=trainer.max_steps,
            autocast=trainer.precision == "bf16-mixed",
            capture=module.capture == "auto",
        )
        sampler = BatchSampler(corpus, data.sampling, seed=data.seed, total_steps=plan.total)
        weights, is_centred = torch.tensor(data.view_weights), module.head.centre == "corpus"
        centres = centres_of(data.corpus, weights) if is_centred else None
        training = StackTraining(members, corpus, sampler, data.view_weights, plan, centres)
        return train_stack(training, self._sets())

    def train_by_trainer(self, settings: Settings) -> Trained:
        """Train one as `toolheads train fit` does, for what a stack has nothing for."""
        error = ""
        try:
            self.trainer.fit(self.module, datamodule=self.data)
        except NotFiniteError as e:
            error = str(e)
        best = self.best
        if best.heads is None:
            raise ConfigError(error or "trainer must validate at least once, got no validation")
        seconds = best.seconds
        return Trained(
            settings, best.heads, best.measured, best.start, best.step, seconds,
            best.validation_s, error,
        )  # fmt: skip

    def validated(self, heads: nn.Module) -> Measured:
        """Metrics of anything that projects both sides."""
        weights = torch.tensor(self.data.view_weights, device=self.device)
        heads = heads.to(self.device)
        return validate(heads, self._sets(), weights, DEFAULT_METRICS)  # type: ignore[arg-type]

    def export(self, path: Path, one: Trained) -> None:
        """Write a heads file with the alpha and the views of the training, not calibrated."""
        loaded = self.data.loaded
        if loaded is None:
            msg = "data must be read before heads are exported, got nothing read yet"
            raise ConfigError(msg)
        path.parent.mkdir(parents=True, exist_ok=True)
        views = self.data.folders.tool_views
        backbone = Backbone(loaded.fingerprint, loaded.probe, views)
        sets = self.data.validation_sets
        rows = torch.cat([sets[0].queries[:128], sets[0].tools[:128, 0]]).float().cpu().numpy()
        about = {
            "name": path.parent.name,
            "sweep": dict(one.settings),
            "best_step": one.step,
            "packages": package_versions(),
        }
        export_heads(path, one.heads, backbone, rows, training=about)

    def _sets(self) -> list[ValidationSet]:
        return [one.to(self.device) for one in self.data.validation_sets]


class _Parsed(TrainCommand):
    """A config as objects, without running anything."""

    def __init__(self, options: list[str], callbacks: list[Callback]) -> None:
        self._own_callbacks = callbacks
        super().__init__(options)

    @property
    def plain(self) -> dict[str, Any]:
        """The resolved config."""
        return self._resolved()

    @property
    def seed(self) -> int:
        """Of the weights."""
        return int(self._get(self.config, "seed_everything") or 0)

    def before_instantiate_classes(self) -> None:
        """A sweep has a folder of its own."""

    def instantiate_trainer(self, **settings: Any) -> pl.Trainer:
        """Nothing is logged or stored."""
        quiet = {
            "logger": False,
            "callbacks": self._own_callbacks,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
        }
        config = self._get(self.config_init, "trainer", default={})
        return pl.Trainer(**{**config, **settings, **quiet})

    def _run_subcommand(self, subcommand: str) -> None:
        """Not here."""


class _Best(Callback):
    """Keeps the weights of the best validation in memory."""

    def __init__(self) -> None:
        self.heads: TwoHeads | None = None
        self.measured: Measured = {}
        self.start: Measured = {}
        self.step, self.validation_s = 0, 0.0
        self._began: float | None = None
        self._ended = 0.0

    @property
    def seconds(self) -> float:
        """Of training, without validation."""
        return 0.0 if self._began is None else self._ended - self._began - self.validation_s

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """The first validation may have run already; it is not part of this span."""
        self._began, self.validation_s = time.perf_counter(), 0.0
        self._ended = self._began

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        """Training lasts to here at least."""
        self._ended = time.perf_counter()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Keep the weights if they are better."""
        if not isinstance(pl_module, HeadsModule):
            return
        values = {name: float(value) for name, value in trainer.callback_metrics.items()}
        self.validation_s += values.get("val/seconds", 0.0)
        self._ended = time.perf_counter()
        measured = _measured(values)
        if not self.start:
            self.start = measured
        if self.heads is None or measured[""]["ndcg@10"] > self.measured[""]["ndcg@10"]:
            self.heads = copy.deepcopy(pl_module.served).cpu()
            self.measured, self.step = measured, trainer.global_step


class _Ensemble(nn.Module):
    """Heads whose score is the mean of the scores of several: their projections side by side."""

    def __init__(self, heads: Sequence[TwoHeads]) -> None:
        super().__init__()
        self.all = list(heads)

    def state(self, x: Tensor) -> Tensor:
        """(n, d) → (n, S * d)."""
        return self._joined([one.state(x) for one in self.all])

    def action(self, x: Tensor) -> Tensor:
        """(n, v, d) → (n, v, S * d)."""
        return self._joined([one.action(x) for one in self.all])

    def _joined(self, rows: list[Tensor]) -> Tensor:
        return torch.cat(rows, dim=-1) / math.sqrt(len(rows))

    def to(self, device: torch.device) -> _Ensemble:  # type: ignore[override]
        """All of them on a device."""
        return _Ensemble([one.to(device) for one in self.all])


def _measured(values: dict[str, float]) -> Measured:
    """`val/<set>/<metric>` → set → metric; the mean over the sets under ""."""
    found: dict[str, dict[str, float]] = {}
    for name, value in values.items():
        parts = re.fullmatch(r"val/(?:(.+)/)?([a-z]+@\d+)", name)
        if parts:
            found.setdefault(parts[1] or "", {})[parts[2]] = value
    return found


def _torch_heads(heads: Heads) -> TwoHeads:
    """Heads of a file as modules, for validation on the device."""
    made = TwoHeads(heads.state.architecture)
    for module, head in ((made.state, heads.state), (made.action, heads.action)):
        with torch.no_grad():
            for name, weight in module.named_parameters():
                weight.copy_(torch.from_numpy(head.weights[name].copy()))
            module.alpha.fill_(head.alpha)
    return made


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
