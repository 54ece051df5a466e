"""The training module of `toolheads train`, started from given heads instead of the identity."""

from __future__ import annotations

from collections.abc import Callable

import lightning.pytorch as pl
import torch
from torch import Tensor

from toolheads.heads import Heads
from toolheads_train.learn.objective import SoftNegatives
from toolheads_train.learn.settings import LearnSettings
from toolheads_train.learn.starting import from_heads
from toolheads_train.loop.module import MONITOR, HeadsModule
from toolheads_train.model.heads import TwoHeads
from toolheads_train.objectives.objective import Objective
from toolheads_train.settings import HeadSettings


class LearnModule(HeadsModule):
    """Trains given heads on."""

    def __init__(
        self, given: Heads, settings: LearnSettings, measure: Callable[[TwoHeads], float]
    ) -> None:
        """Take the heads, whose shape and weights are the start.

        Args:
            given: The heads.
            settings: How to train.
            measure: What chooses the checkpoint, higher is better. It may not move the heads.
        """
        shape = given.state.architecture
        head = HeadSettings(
            hidden=shape.hidden,
            activation=shape.activation,
            input_scaling=shape.input_scaling,
            hidden_norm=shape.hidden_norm,
            alpha=given.state.alpha,
            widths=given.header.widths,
        )
        super().__init__(head, settings.loss, settings.optimizer)
        self._soft_weight = settings.soft_negative_weight
        self.heads = from_heads(given, settings.loss)
        self._measure = measure

    def objective(self, view_weights: Tensor) -> Objective:
        """The objective of `toolheads train`, with the preferences of the log beside it."""
        return SoftNegatives(super().objective(view_weights), self._soft_weight, view_weights)

    def validation_step(self, batch: int, batch_idx: int) -> None:
        """Measure the heads as they would be served."""
        self.log(MONITOR, self._measure(self.served), batch_size=1)


def best_heads(module: HeadsModule, checkpoint: str) -> tuple[TwoHeads, int]:
    """The heads of a checkpoint of this module, on the CPU, and the step they are of."""
    stored = torch.load(checkpoint, map_location="cpu", weights_only=True)
    prefix = "heads."
    weights = {
        name.removeprefix(prefix): value
        for name, value in stored["state_dict"].items()
        if name.startswith(prefix)
    }
    heads = module.heads.to("cpu")
    heads.load_state_dict(weights)
    return heads, int(stored["global_step"])


def quiet_trainer(epochs: int, callbacks: list[pl.Callback]) -> pl.Trainer:
    """A trainer on one device that prints and logs nothing."""
    return pl.Trainer(
        accelerator="auto",
        devices=1,
        max_epochs=epochs,
        logger=False,
        callbacks=callbacks,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        log_every_n_steps=1,
    )
