"""Lightning wiring: one `training_step` is a chunk of optimiser steps, run without a host sync.

Heads, losses and batches are plain torch (see `model`, `objective`, `sampling`); here they meet the
Trainer: precision, devices, logging, checkpoints.
"""

from __future__ import annotations

import logging
import time
from typing import Any, Literal

import lightning.pytorch as pl
import torch
from torch import Tensor

from toolheads.errors import ConfigError
from toolheads_train.data.centres import centres_of
from toolheads_train.data.corpus import TrainingCorpus
from toolheads_train.data.sampling import Batch, BatchSampler
from toolheads_train.data.validation_set import ValidationSet
from toolheads_train.loop.averaging import averaged_copy, update_average
from toolheads_train.loop.building import build_heads
from toolheads_train.loop.captured import CapturedStep, CudaGraphs, Recorder, follow_capture
from toolheads_train.loop.checkpoints import CHECKPOINT_KEY, about_heads, check_same_heads
from toolheads_train.loop.contrast import FastInBatch, why_not_fast
from toolheads_train.loop.devices import AllDevices
from toolheads_train.loop.record import Record
from toolheads_train.loop.validation import DEFAULT_METRICS, validate
from toolheads_train.model.heads import TwoHeads
from toolheads_train.objectives.make import make_objective
from toolheads_train.objectives.matryoshka import Matryoshka
from toolheads_train.objectives.objective import Gather, Objective, OneDevice
from toolheads_train.settings import HeadSettings, LossSettings, OptimizerSettings

logger = logging.getLogger(__name__)

MONITOR = "val/ndcg@10"
"""Metric that chooses the checkpoint: the unweighted mean over the validation sets."""

_HEAD, _LOSS, _OPTIMIZER = HeadSettings(), LossSettings(), OptimizerSettings()


class HeadsModule(pl.LightningModule):
    """Trains a `TwoHeads` on a `TrainingCorpus`."""

    heads: TwoHeads
    averaged: TwoHeads | None

    def __init__(
        self,
        head: HeadSettings = _HEAD,
        loss: LossSettings = _LOSS,
        optimizer: OptimizerSettings = _OPTIMIZER,
        store_dtype: str = "float32",
        ema: float | None = None,
        capture: Literal["auto", "never"] = "auto",
    ) -> None:
        """Take settings; the heads are built when the width of the embeddings is known.

        Args:
            head: Shape of both heads.
            loss: Positives, negatives, temperature.
            optimizer: AdamW and its schedule.
            store_dtype: Precision of the embeddings on the device: float32, bfloat16 or float16.
            ema: Decay, in (0, 1), of a moving average of the weights over optimiser steps, which
                is then what is validated and exported; null exports the weights themselves.
            capture: `auto` records a step as a CUDA graph and replays it, where there is one CUDA
                device and the loss allows it; `never` runs each step anew.

        Raises:
            ConfigError: If the precision is none of these, or the decay breaks its rule.
        """
        super().__init__()
        self.automatic_optimization = False
        self.head, self.loss, self.optimizer = head, loss, optimizer
        dtypes = {t: getattr(torch, t) for t in ("float32", "bfloat16", "float16")}
        if store_dtype not in dtypes:
            msg = f"model.store_dtype must be one of {', '.join(dtypes)}, got {store_dtype!r}"
            raise ConfigError(msg)
        self.store_dtype: torch.dtype = dtypes[store_dtype]
        if ema is not None and not 0 < ema < 1:
            msg = f"model.ema must be in (0, 1) or null, got {ema}"
            raise ConfigError(msg)
        self.ema, self.averaged = ema, None
        self.capture = capture
        self._captured: CapturedStep | None = None
        self._sampler_state: dict[str, Any] | None = None
        self._objective_state: dict[str, Any] | None = None
        self._objective: Objective | None = None
        self._sets: list[ValidationSet] = []

    # -- before the first step ------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        """Build the heads: identity at the start, the same for the same seed."""
        check_precision(self.trainer)
        if hasattr(self, "heads"):
            return
        # The seed counts, not what was drawn since: reading data may draw numbers too.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(torch.initial_seed())
            architecture = self.head.architecture(self._data.width)
            weights = torch.tensor(self._data.view_weights)
            is_centred = self.head.centre == "corpus"
            centres = centres_of(self._data.corpus, weights) if is_centred else None
            self.heads = build_heads(architecture, self.head, self.loss, centres)
        self.averaged = None if self.ema is None else averaged_copy(self.heads)

    @property
    def served(self) -> TwoHeads:
        """The heads that are validated and exported: the averaged ones, if there are some."""
        return self.heads if self.averaged is None else self.averaged

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """One fused AdamW over everything that is trained."""
        settings = self.optimizer
        return torch.optim.AdamW(
            [p for p in self.parameters() if p.requires_grad],
            lr=settings.lr,
            betas=settings.betas,
            weight_decay=settings.weight_decay,
            fused=True,
        )

    def on_fit_start(self) -> None:
        """Put the corpus on the device, once, and continue the sampler of a checkpoint."""
        self._corpus: TrainingCorpus = self._data.corpus.to(self.device, self.store_dtype)
        self._view_weights = torch.tensor(self._data.view_weights, device=self.device)
        self._objective = self._fast_objective() or self.objective(self._view_weights)
        if self.head.widths:
            self._objective = Matryoshka(
                lambda: self.objective(self._view_weights), self.head.widths
            )
        self._sampler: BatchSampler = self._data.sampler(self._corpus)
        if self._sampler_state is not None:
            self._sampler.load_state_dict(self._sampler_state)
        if self._objective_state is not None:
            self._objective.load_state_dict(self._objective_state)
        self._gather: Gather = OneDevice() if self.trainer.world_size == 1 else AllDevices(self)
        size = self._data.sampling.batch_size
        if size % self.trainer.world_size:
            msg = (
                "data.sampling.batch_size must be a multiple of the number of devices "
                f"({self.trainer.world_size}), got {size}"
            )
            raise ConfigError(msg)
        self._record = Record(size, self.device)
        self._total_steps = self._planned_steps()
        recorder = self._recorder()
        if recorder is not None:
            self._captured = CapturedStep(self._step, recorder)
        self._lr: Tensor | None = None

    def on_train_end(self) -> None:
        """Let go of the recorded step: it points to weights that are about to move."""
        self._captured = None

    def objective(self, view_weights: Tensor) -> Objective:
        """What is minimised; a subclass may put another objective here."""
        return make_objective(self.loss, view_weights)

    def _fast_objective(self) -> Objective | None:
        """The objective with its gradient made by hand, where that is faster.

        Under autocast, for what it can do. In float32 it would round other bits than `InBatch`.
        """
        is_fast = (
            self.trainer.precision == "bf16-mixed"
            and self.trainer.world_size == 1
            and self._has_own_objective
            and why_not_fast(self.head, self.loss, self._data.sampling) is None
        )
        return FastInBatch(self.loss, self._data.view_weights) if is_fast else None

    @property
    def _has_own_objective(self) -> bool:
        return type(self).objective is HeadsModule.objective

    def _recorder(self) -> Recorder | None:
        """What records a step; None where it is run anew each time."""
        if self.capture == "never" or self.device.type != "cuda":
            return None
        rules = (
            (self.trainer.world_size == 1, "several devices"),
            (self._has_own_objective, "an objective of its own"),
            (self.loss.negatives == "in_batch", "model.loss.negatives"),
            (not self.head.feature_dropout, "model.head.feature_dropout"),
        )
        why = next((why for holds, why in rules if not holds), None)
        if why is not None:
            logger.info("steps are not captured as a CUDA graph, because of %s", why)
            return None
        return CudaGraphs()

    # -- training -------------------------------------------------------------------------------

    def training_step(self, batch: int, batch_idx: int) -> None:
        """Run a chunk of optimiser steps.

        Args:
            batch: How many, cut where the epoch or the training ends.
            batch_idx: Number of the chunk in its epoch.
        """
        (optimizer,) = self.trainer.optimizers
        first = self.trainer.global_step
        steps = min(
            batch,
            self._sampler.steps_per_epoch - self._sampler.step_in_epoch,
            self._total_steps - first,
        )
        began = time.perf_counter()
        self._record.begin(first)
        for step in range(first, first + steps):
            self._optimise(optimizer, step)
        _count_steps(self.trainer, steps)
        self._log_chunk(first, steps, began)

    def _optimise(self, optimizer: torch.optim.Optimizer, step: int) -> None:
        """One optimiser step. Nothing in here waits for the device."""
        lr = self.optimizer.lr_at(step, self._total_steps)
        batch = self._sampler.draw()
        if self._captured is not None:
            self._set_lr(optimizer, lr)
            self._captured(batch)
            return
        for group in optimizer.param_groups:
            group["lr"] = lr
        self._step(batch)

    def _set_lr(self, optimizer: torch.optim.Optimizer, lr: float) -> None:
        """The learning rate where a recorded step reads it."""
        if self._lr is None:
            # Here and not earlier: a checkpoint brings param groups of its own.
            self._lr = torch.tensor(lr, device=self.device)
            for group in optimizer.param_groups:
                group["lr"] = self._lr
        self._lr.fill_(lr)

    def _step(self, batch: Batch) -> None:
        """One optimiser step on a batch. All that it reads of the host is the same each time."""
        (optimizer,) = self.trainer.optimizers
        if self._objective is None:
            msg = "the objective must be made in on_fit_start"
            raise RuntimeError(msg)
        losses = self._objective(self.heads, self._corpus, batch, self._gather)
        optimizer.zero_grad(set_to_none=True)
        self.manual_backward(losses.rows.mean())
        if self.optimizer.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters(), self.optimizer.clip)
        follow_capture(optimizer)  # here, as a checkpoint may be of a captured training
        optimizer.step()
        self.heads.clamp_logit_scale()
        if self.averaged is not None and self.ema is not None:
            update_average(self.averaged, self.heads, self.ema)
        self._record.add(batch, losses)

    def _log_chunk(self, first: int, steps: int, began: float) -> None:
        """Read the device's buffers, the only wait of a chunk, and log them."""
        loss, negatives, bad_step = self._record.read(steps, self.trainer)
        if bad_step >= 0:
            raise self._record.not_finite(bad_step, self._corpus, self.optimizer)
        elapsed = time.perf_counter() - began
        self.log_dict({"train/loss": loss}, prog_bar=True)
        self.log_dict(
            {
                "train/negatives": negatives,
                "train/temperature": float((-self.heads.log_logit_scale.detach()).exp()),
                "train/lr": self.optimizer.lr_at(first + steps - 1, self._total_steps),
                "epoch": float(self.trainer.current_epoch),
                "step": float(first + steps),
            }
        )
        rate = steps * self._data.sampling.batch_size / elapsed
        self.log("pairs/s", rate, prog_bar=True)

    # -- validation -----------------------------------------------------------------------------

    def on_validation_start(self) -> None:
        """Put the validation sets on the device, once."""
        if not self._sets:
            self._sets = [one.to(self.device) for one in self._data.validation_sets]
            self._view_weights = torch.tensor(self._data.view_weights, device=self.device)

    def validation_step(self, batch: int, batch_idx: int) -> None:
        """Rank all validation sets; one step is the whole validation."""
        began = time.perf_counter()
        # In full precision always: a metric must not depend on the training's precision.
        with torch.autocast(self.device.type, enabled=False):
            found = validate(self.served, self._sets, self._view_weights, DEFAULT_METRICS)
        values = {f"val/{name}": value for name, value in found.pop("").items()}
        for set_name, metrics in found.items():
            values |= {f"val/{set_name}/{name}": value for name, value in metrics.items()}
        values |= {
            "val/seconds": time.perf_counter() - began,
            "epoch": float(self.trainer.current_epoch),
            "step": float(self.trainer.global_step),
        }
        shared = self.trainer.world_size > 1  # the same on all ranks, as each validates alone
        self.log(MONITOR, values.pop(MONITOR), prog_bar=True, batch_size=1, sync_dist=shared)
        self.log_dict(values, batch_size=1, sync_dist=shared)

    # -- checkpoints ----------------------------------------------------------------------------

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add what weights alone do not tell."""
        checkpoint[CHECKPOINT_KEY] = {
            **about_heads(self.heads, self.head),
            "sampler": self._sampler.state_dict(),
            "objective": {} if self._objective is None else self._objective.state_dict(),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the sampler's state until the sampler exists.

        Raises:
            ConfigError: If the checkpoint is of heads of another shape.
        """
        check_same_heads(checkpoint, self.heads, self.state_dict())
        stored = checkpoint[CHECKPOINT_KEY]
        self._sampler_state, self._objective_state = stored["sampler"], stored["objective"]

    # -- the data module and the plan -------------------------------------------------------------

    @property
    def _data(self) -> Any:
        """The data module: `corpus`, `sampler`, `sampling`, `validation_sets`, `view_weights`."""
        return self.trainer.datamodule  # type: ignore[attr-defined, unused-ignore]

    def _planned_steps(self) -> int:
        """Optimiser steps of the whole training, for the schedule.

        Raises:
            ConfigError: If neither epochs nor steps bound it.
        """
        epochs, steps = self.trainer.max_epochs, self.trainer.max_steps
        plans = [steps] if steps >= 0 else []
        if epochs is not None and epochs >= 0:
            plans.append(epochs * self._sampler.steps_per_epoch)
        if not plans:
            msg = "trainer.max_epochs or trainer.max_steps must be >= 0, got neither"
            raise ConfigError(msg)
        return min(plans)


def check_precision(trainer: pl.Trainer) -> None:
    """Refuse precisions that need a loss scaler or would round the weights themselves.

    Raises:
        ConfigError: If it is another than float32 or bf16 autocast.
    """
    if trainer.precision not in ("32-true", "bf16-mixed"):
        msg = f"trainer.precision must be 32-true or bf16-mixed, got {trainer.precision}"
        raise ConfigError(msg)


def _count_steps(trainer: pl.Trainer, steps: int) -> None:
    """Tell the Trainer of optimiser steps that did not go through its wrapper.

    The wrapper costs more than a step of small heads. `global_step` is this count: schedules,
    logs, `max_steps` and resuming depend on it.
    """
    progress = trainer.fit_loop.epoch_loop.manual_optimization.optim_step_progress
    for count in (progress.total, progress.current):
        count.ready += steps
        count.completed += steps
