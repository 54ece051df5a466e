"""Several devices of one training: rows of all of them together, with gradients."""

from __future__ import annotations

import lightning.pytorch as pl
from torch import Tensor


class AllDevices:
    """Gather with gradients, through the Trainer's strategy."""

    def __init__(self, module: pl.LightningModule) -> None:
        self._module = module
        self.rank, self.world_size = module.global_rank, module.trainer.world_size

    def __call__(self, rows: Tensor) -> Tensor:
        """(b, ...) → (world_size * b, ...), in rank order."""
        gathered = self._module.all_gather(rows, sync_grads=True)
        if not isinstance(gathered, Tensor):
            msg = f"a gathered tensor must be a tensor, got {type(gathered).__name__}"
            raise TypeError(msg)
        return gathered.flatten(0, 1)
