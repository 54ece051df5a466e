"""One config of a sweep with its data: parsed, trained alone or in a stack, measured, exported."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback
from torch import nn

from toolheads.errors import ConfigError
from toolheads_train.command import TrainCommand
from toolheads_train.data.centres import centres_of
from toolheads_train.data.modules import FolderData
from toolheads_train.data.sampling import BatchSampler, steps_of_epoch
from toolheads_train.data.validation_set import ValidationSet
from toolheads_train.errors import NotFiniteError
from toolheads_train.loop.contrast import why_not_stacked
from toolheads_train.loop.module import HeadsModule
from toolheads_train.loop.validation import DEFAULT_METRICS, validate
from toolheads_train.model.heads import TwoHeads
from toolheads_train.outcome.export import Backbone, export_heads, package_versions
from toolheads_train.sweep.grid import Member, Settings
from toolheads_train.sweep.training import Measured, Plan, StackTraining, Trained, train_stack


@dataclass
class Setup:
    """One parsed config with its data."""

    module: HeadsModule
    data: FolderData
    trainer: pl.Trainer
    seed: int
    best: Best

    @property
    def device(self) -> torch.device:
        """Where it trains."""
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


class Parsed(TrainCommand):
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


class Best(Callback):
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
        measured = measured_of(values)
        if not self.start:
            self.start = measured
        if self.heads is None or measured[""]["ndcg@10"] > self.measured[""]["ndcg@10"]:
            self.heads = copy.deepcopy(pl_module.served).cpu()
            self.measured, self.step = measured, trainer.global_step


def measured_of(values: dict[str, float]) -> Measured:
    """`val/<set>/<metric>` → set → metric; the mean over the sets under ""."""
    found: dict[str, dict[str, float]] = {}
    for name, value in values.items():
        parts = re.fullmatch(r"val/(?:(.+)/)?([a-z]+@\d+)", name)
        if parts:
            found.setdefault(parts[1] or "", {})[parts[2]] = value
    return found
