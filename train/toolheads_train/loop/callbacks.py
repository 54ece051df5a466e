"""Callbacks that make the starting heads compete, and keep the best and the last checkpoint."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback, ModelCheckpoint

from toolheads_train.loop.module import MONITOR


class StartingHeadsCompete(Callback):
    """Validates before the first step, so that training has to beat what it starts from."""

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Run the validation loop with the heads at the identity; not on a resumed run."""
        if trainer.global_step == 0:
            trainer.validating = True
            trainer.fit_loop.epoch_loop.val_loop.run()
            trainer.training = True


class Checkpoint(ModelCheckpoint):
    """A `ModelCheckpoint` under one fixed name that also saves before the first step."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            enable_version_counter=False,
            auto_insert_metric_name=False,
            save_on_train_epoch_end=False,
            **settings,
        )
        # Lightning starts at 0, "no need to save when no steps were taken". Here there is.
        self._last_global_step_saved = -1


def best_checkpoint(folder: str) -> Checkpoint:
    """`best.ckpt`: replaced only where the monitored metric is strictly higher."""
    return Checkpoint(dirpath=folder, filename="best", monitor=MONITOR, mode="max", save_top_k=1)


def last_checkpoint(folder: str) -> Checkpoint:
    """`last.ckpt`: the newest validation, to resume from."""
    return Checkpoint(dirpath=folder, filename="last", monitor=None, save_top_k=1)
