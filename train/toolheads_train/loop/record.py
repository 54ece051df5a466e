"""What a chunk of steps sums up on the device, and whom to blame for its first step gone wrong."""

from __future__ import annotations

import lightning.pytorch as pl
import torch

from toolheads_train.data.corpus import TrainingCorpus
from toolheads_train.data.sampling import Batch
from toolheads_train.errors import NotFiniteError
from toolheads_train.objectives.objective import Losses
from toolheads_train.settings import OptimizerSettings


class Record:
    """Sums over a chunk, and the batch of the first step that was not finite; all on the device.

    Everything is written in place: a recorded step goes on writing where it did.
    """

    def __init__(self, batch_size: int, device: torch.device) -> None:
        self._sums = torch.zeros(2, device=device)
        self._step = torch.zeros((), dtype=torch.int64, device=device)
        self._bad_step = torch.full((), -1, dtype=torch.int64, device=device)
        self.queries = torch.zeros(batch_size, dtype=torch.int64, device=device)
        self.tools = torch.zeros(batch_size, dtype=torch.int64, device=device)

    def begin(self, step: int) -> None:
        """Say which step comes next."""
        self._step.fill_(step)

    @torch.no_grad()
    def add(self, batch: Batch, losses: Losses) -> None:
        """Take the losses of one step in."""
        loss = losses.rows.detach().mean()
        self._sums += torch.stack([loss, losses.negatives])
        is_first = ~torch.isfinite(loss) & (self._bad_step < 0)
        self._bad_step.copy_(torch.where(is_first, self._step, self._bad_step))
        self.queries.copy_(torch.where(is_first, batch.queries, self.queries))
        self.tools.copy_(torch.where(is_first, batch.tools, self.tools))
        self._step += 1

    def read(self, steps: int, trainer: pl.Trainer) -> tuple[float, float, int]:
        """Mean loss, mean number of negatives and first bad step (-1: none), and start anew."""
        sums = torch.cat([self._sums.double() / max(steps, 1), self._bad_step.double()[None]])
        if trainer.world_size > 1:
            sums = trainer.strategy.all_gather(sums)  # (world, 3)
            sums = torch.cat([sums[:, :2].mean(0), sums[:, 2].max()[None]])
        self._sums.zero_()
        loss, negatives, bad_step = sums.tolist()
        return loss, negatives, int(bad_step)

    def not_finite(
        self, step: int, corpus: TrainingCorpus, optimizer: OptimizerSettings
    ) -> NotFiniteError:
        """Say which rows of the recorded batch are to blame for a step, or that the rate is."""
        queries, tools = self.queries, self.tools
        bad = ~torch.isfinite(corpus.queries[queries]).all(1)
        bad_tools = ~torch.isfinite(corpus.tools[tools]).flatten(1).all(1)
        rows = torch.unique(queries[bad | bad_tools]).tolist()
        if rows:
            names = ", ".join(corpus.query_ids[row] for row in rows[:5])
            msg = (
                f"embeddings must be finite, got NaN or inf at step {step} in query rows "
                f"{', '.join(map(str, rows[:5]))} ({names}) or their tools; verify the cache"
            )
            return NotFiniteError(msg, step=step, rows=tuple(rows))
        rows = queries.tolist()
        msg = (
            f"train/loss must be finite, got NaN or inf at step {step} with finite embeddings, "
            f"query rows {', '.join(map(str, rows[:5]))}, …; lower model.optimizer.lr "
            f"({optimizer.lr}) or set model.optimizer.clip"
        )
        return NotFiniteError(msg, step=step, rows=tuple(rows))
