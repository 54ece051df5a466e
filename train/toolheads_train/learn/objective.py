"""What a passed-over tool teaches: that the called one should have stood above it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  torch's own convention
from torch import Tensor

from toolheads_train.data.corpus import TrainingCorpus
from toolheads_train.data.sampling import Batch
from toolheads_train.model.heads import TwoHeads, fold_views
from toolheads_train.objectives.masks import is_known
from toolheads_train.objectives.objective import Gather, Losses, Objective


class SoftNegatives:
    """Another objective, plus a weighted preference of called over passed-over tools.

    `weight * mean over passed-over tools of log(1 + exp((s_passed - s_called) / temperature))`,
    the pairwise logistic loss of Burges et al. (2005), https://doi.org/10.1145/1102351.1102363,
    eq. 3 with a target of 1. A passed-over tool is no label: it may be right as well, and was
    shown because it is near. As one more negative of the softmax it would, being the nearest of
    all, outweigh all others; as a preference of low weight it is one opinion beside them, and
    one that is met, once the called tool stands above, fades out. The base objective sees none
    of these tools.
    """

    def __init__(self, base: Objective, weight: float, view_weights: Tensor) -> None:
        """Take the objective, the weight, and the (v,) weights of a tool's views."""
        self._base, self._weight, self._view_weights = base, weight, view_weights

    def __call__(
        self, heads: TwoHeads, corpus: TrainingCorpus, batch: Batch, gather: Gather
    ) -> Losses:
        """Compute the loss of each query of the device's share."""
        rows = batch.negatives  # (b, m)
        losses = self._base(heads, corpus, replace(batch, negatives=rows[:, :0]), gather)
        if not rows.shape[1] or not self._weight:
            return losses
        b = len(rows) // gather.world_size
        mine = slice(gather.rank * b, (gather.rank + 1) * b)
        rows, query_rows = rows[mine], batch.queries[mine]
        safe = rows.clamp(min=0)
        known = is_known(corpus.known.padded(query_rows), corpus.groups[safe])
        counts = (rows >= 0) & ~known  # (b, m)
        queries = heads.state(corpus.queries[query_rows].float())  # (b, d)
        called = self._action(heads, corpus, batch.tools[mine])  # (b, d)
        passed = self._action(heads, corpus, safe.flatten()).view(*safe.shape, -1)  # (b, m, d)
        ahead = torch.einsum("bd,bmd->bm", queries, passed - called[:, None])
        scale = heads.log_logit_scale.detach().exp()  # the base objective sets the temperature
        each = F.softplus(scale * ahead) * counts
        return replace(
            losses,
            rows=losses.rows + self._weight * each.sum(1) / counts.sum(1).clamp(min=1),
        )

    def state_dict(self) -> dict[str, Any]:
        """That of the base objective."""
        return self._base.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was called."""
        self._base.load_state_dict(state)

    def _action(self, heads: TwoHeads, corpus: TrainingCorpus, rows: Tensor) -> Tensor:
        """(n,) tool rows → (n, d) projections with their views folded."""
        return fold_views(heads.action(corpus.tools[rows].float()), self._view_weights)
