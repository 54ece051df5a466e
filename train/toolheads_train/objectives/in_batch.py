"""Contrastive over the batch: the tools that its queries drew are each other's negatives."""

from __future__ import annotations

import torch
from torch import Tensor

from toolheads_train.data.corpus import TrainingCorpus
from toolheads_train.data.sampling import Batch
from toolheads_train.model.heads import TwoHeads, fold_views
from toolheads_train.objectives.losses import info_nce, multi_positive_info_nce
from toolheads_train.objectives.masks import (
    is_known,
    known_positives,
    likely_positives,
    representatives,
)
from toolheads_train.objectives.objective import Gather, Losses
from toolheads_train.settings import LossSettings


class InBatch:
    """InfoNCE: the tools that the batch's queries drew are each other's negatives."""

    def __init__(self, settings: LossSettings, view_weights: Tensor) -> None:
        """Take settings, and the (v,) weights that fold a tool's views into one vector."""
        self._settings, self._view_weights = settings, view_weights

    def __call__(
        self, heads: TwoHeads, corpus: TrainingCorpus, batch: Batch, gather: Gather
    ) -> Losses:
        """Compute the loss of each query, plus that of its tool if both directions are wanted."""
        b = len(batch.queries) // gather.world_size
        own = torch.arange(gather.rank * b, (gather.rank + 1) * b, device=corpus.device)  # (b,)
        mine, tool_rows = slice(gather.rank * b, (gather.rank + 1) * b), batch.tools
        queries = heads.state(corpus.queries[batch.queries[mine]].float())  # (b, d)
        tools = self._action(heads, corpus, tool_rows[mine])  # (b, d)
        all_tools = gather(tools)  # (c, d)
        scale = heads.log_logit_scale.exp()
        logits = scale * (queries @ all_tools.T).float()  # (b, c)

        known_rows = corpus.known.padded(batch.queries)  # (c, p)
        groups = corpus.groups[tool_rows]  # (c,)
        known = known_positives(known_rows[mine], groups, groups=corpus.group_count)  # (b, c)
        first = representatives(groups, groups=corpus.group_count)  # (c,)
        negatives = ~known
        frozen = self._frozen_cosines(corpus, batch)  # (c, c) or None
        if frozen is not None and self._settings.mask_margin is not None:
            negatives &= ~likely_positives(frozen[mine], own, self._settings.mask_margin)
        if self._settings.collapse_duplicates:
            negatives = negatives & first
        counted = known & first  # each right tool of the batch once
        hard = self._hard(heads, corpus, batch, queries, known_rows, frozen, mine)
        if hard is not None:
            columns, left_out = hard
            wide = torch.cat([logits, scale * columns], dim=1)  # (b, c + m)
            negatives = torch.cat([negatives, ~left_out], dim=1)
            counted = torch.cat([counted, torch.zeros_like(left_out)], dim=1)
        else:
            wide = logits
        if self._settings.other_positives == "count":
            rows = multi_positive_info_nce(wide, counted, negatives)
        else:
            rows = info_nce(wide, own, negatives)
        if self._settings.both_directions:
            back = scale * (tools @ gather(queries).T).float()  # (b, c)
            other = known_positives(known_rows, groups[mine], groups=corpus.group_count).T
            negatives_back = ~other
            if frozen is not None and self._settings.mask_margin is not None:
                likely = likely_positives(frozen.T[mine], own, self._settings.mask_margin)
                negatives_back = negatives_back & ~likely
            rows = (rows + info_nce(back, own, negatives_back)) / 2
        return Losses(rows, negatives.sum(1).float().mean().detach())

    def _action(self, heads: TwoHeads, corpus: TrainingCorpus, rows: Tensor) -> Tensor:
        """(...,) tool rows → (..., d) projections with their views folded."""
        flat = fold_views(heads.action(corpus.tools[rows.flatten()].float()), self._view_weights)
        return flat.view(*rows.shape, -1)

    def _frozen(self, corpus: TrainingCorpus, rows: Tensor) -> Tensor:
        """(n,) tool rows → (n, d) frozen embeddings with their views folded."""
        return fold_views(corpus.tools[rows].float(), self._view_weights)

    @torch.no_grad()
    def _frozen_cosines(self, corpus: TrainingCorpus, batch: Batch) -> Tensor | None:
        if self._settings.mask_margin is None:
            return None
        queries = corpus.queries[batch.queries].float()
        return (queries @ self._frozen(corpus, batch.tools).T).float()  # (c, c)

    def _hard(
        self,
        heads: TwoHeads,
        corpus: TrainingCorpus,
        batch: Batch,
        queries: Tensor,
        known: Tensor,
        frozen: Tensor | None,
        mine: slice,
    ) -> tuple[Tensor, Tensor] | None:
        """Scores (b, m) of hard negatives, and which of them are none after all."""
        rows = batch.negatives[mine]  # (b, m)
        if not rows.shape[1]:
            return None
        safe = rows.clamp(min=0)
        tools = self._action(heads, corpus, safe)  # (b, m, d)
        scores = torch.einsum("bd,bmd->bm", queries, tools).float()
        left_out = (rows < 0) | is_known(known[mine], corpus.groups[safe])
        if frozen is not None and self._settings.mask_margin is not None:
            base = torch.einsum(
                "bd,bmd->bm",
                corpus.queries[batch.queries[mine]].float(),
                self._frozen(corpus, safe.flatten()).view(*safe.shape, -1),
            )
            left_out |= base > frozen.diagonal()[mine, None] + self._settings.mask_margin
        return scores, left_out
