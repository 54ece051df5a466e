"""The training module of `toolheads train`, started from given heads instead of the identity."""

from __future__ import annotations

import lightning.pytorch as pl
import numpy as np
import torch
from torch import Tensor

from toolheads.arrays import Ids
from toolheads.evaluation.ranked import NO_ROW, ranked_metrics
from toolheads.heads import Heads
from toolheads_train.data.validation_set import ValidationSet
from toolheads_train.errors import NotFiniteError
from toolheads_train.learn.objective import SoftNegatives
from toolheads_train.learn.settings import LearnSettings
from toolheads_train.learn.starting import from_heads
from toolheads_train.loop.module import MONITOR, HeadsModule
from toolheads_train.model.heads import TwoHeads, fold_views
from toolheads_train.objectives.objective import Objective
from toolheads_train.settings import HeadSettings


class LearnModule(HeadsModule):
    """Trains given heads on."""

    def __init__(self, given: Heads, settings: LearnSettings, shown: Ids) -> None:
        """Take the heads, whose shape and weights are the start.

        Args:
            given: The heads.
            settings: How to train.
            shown: (q, k) int64 rows of the tools that each validation request showed, filled with
                `NO_ROW`; these alone are ranked.
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
        self._shown = torch.from_numpy(shown)

    def objective(self, view_weights: Tensor) -> Objective:
        """The objective of `toolheads train`, with the preferences of the log beside it."""
        return SoftNegatives(super().objective(view_weights), self._soft_weight, view_weights)

    def validation_step(self, batch: int, batch_idx: int) -> None:
        """Rank the tools that were shown: the log judges no others (see `decision.measured`)."""
        (one,) = self._sets
        with torch.autocast(self.device.type, enabled=False):
            rows = ranked_rows(self.served, one, self._shown.to(self.device), self._view_weights)
        values = ranked_metrics(rows.cpu().numpy(), one.relevant, ("ndcg@10",))["ndcg@10"]
        self.log(MONITOR, float(np.mean(values)), batch_size=1)


@torch.no_grad()
def ranked_rows(heads: TwoHeads, one: ValidationSet, shown: Tensor, view_weights: Tensor) -> Tensor:
    """The shown tools of each query, best first; equal scores in the order they were shown.

    Args:
        heads: On the device of the set.
        one: q queries and n tools.
        shown: (q, k) int64 rows of the tools, filled with `NO_ROW`.
        view_weights: (v,) float32.

    Returns:
        (q, k) int64, filled with `NO_ROW`.

    Raises:
        NotFiniteError: If a score is NaN or infinite.
    """
    used, place = torch.unique(shown.clamp(min=0), return_inverse=True)
    tools = fold_views(heads.action(one.tools[used].float()), view_weights)  # (u, d)
    queries = heads.state(one.queries.float())  # (q, d)
    scores = (queries @ tools.T).gather(1, place)  # (q, k)
    bad = torch.nonzero(~torch.isfinite(scores).all(1)).flatten().tolist()
    if bad:
        msg = f"scores in validation must be finite, got NaN or inf in {len(bad)} rows"
        raise NotFiniteError(msg, step=-1, rows=tuple(bad))
    scores = scores.masked_fill(shown == NO_ROW, -torch.inf)
    return shown.gather(1, scores.argsort(dim=1, descending=True, stable=True))


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
