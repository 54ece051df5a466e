"""Contrastive over the batch: the tools that its queries drew are each other's negatives."""

from __future__ import annotations

import torch
from torch import Tensor

from toolheads_train.data.corpus import TrainingCorpus
from toolheads_train.data.sampling import Batch
from toolheads_train.model.heads import TwoHeads
from toolheads_train.objectives.losses import info_nce, multi_positive_info_nce
from toolheads_train.objectives.masks import is_known, likely_positives, representatives
from toolheads_train.objectives.objective import Gather, Losses, Stateless
from toolheads_train.objectives.projected import Projected
from toolheads_train.settings import LossSettings


class InBatch(Stateless):
    """InfoNCE: the tools that the batch's queries drew are each other's negatives."""

    def __init__(self, settings: LossSettings, view_weights: Tensor) -> None:
        """Take settings, and the (v,) weights that fold a tool's views into one vector."""
        self._settings, self._view_weights = settings, view_weights

    def __call__(
        self, heads: TwoHeads, corpus: TrainingCorpus, batch: Batch, gather: Gather
    ) -> Losses:
        """Compute the loss of each query, plus that of its tool if both directions are wanted."""
        return self.of(Projected(heads, corpus, batch, gather, self._view_weights))

    def of(self, p: Projected) -> Losses:
        """The same, of a batch that is projected already."""
        settings = self._settings
        logits = p.scale * (p.queries @ p.all_tools.T).float()  # (b, c)
        known = p.known[p.mine]  # (b, c)
        first = representatives(p.groups, groups=p.corpus.group_count)  # (c,)
        negatives = ~known & ~self._doubtful(p)
        if settings.collapse_duplicates:
            negatives = negatives & first
        counted = known & first  # each right tool of the batch once
        if settings.popularity_correction:
            # Of negatives alone: the positive is there because it is the positive, however rarely
            # it is drawn.
            drawn = settings.popularity_correction * self._log_draws(p)  # (c,)
            logits = torch.where(known, logits, logits - drawn)
        hard = self._hard(p)
        if hard is not None:
            columns, left_out = hard
            wide = torch.cat([logits, p.scale * columns], dim=1)  # (b, c + m)
            negatives = torch.cat([negatives, ~left_out], dim=1)
            counted = torch.cat([counted, torch.zeros_like(left_out)], dim=1)
        else:
            wide = logits
        if settings.other_positives == "count":
            rows = multi_positive_info_nce(wide, counted, negatives)
        else:
            rows = info_nce(wide, p.own, negatives)
        if settings.both_directions:
            rows = (rows + queries_of_tools(p, settings)) / 2
        return Losses(rows, negatives.sum(1).float().mean().detach())

    def _doubtful(self, p: Projected) -> Tensor:
        """(b, c) bool: tools that may well be right, or be the positive under another name."""
        doubtful = torch.zeros((), dtype=torch.bool, device=p.corpus.device)
        if self._settings.mask_margin is not None:
            doubtful = likely_positives(p.cosines[p.mine], p.own, self._settings.mask_margin)
        if self._settings.same_tool_cosine is not None:
            doubtful = doubtful | (p.tool_cosines[p.mine] >= self._settings.same_tool_cosine)
        return doubtful

    def _log_draws(self, p: Projected) -> Tensor:
        """(c,) log of how often a batch has each drawn tool as a column, on average.

        logQ correction of a sampled softmax, Bengio and Senécal (2003); each of c draws takes the
        tool with chance Q, so there are c * Q columns of it, or, where copies count once, one
        column with chance 1 - (1 - Q) ** c.
        """
        chances = p.batch.chances
        if chances is None:
            msg = "a batch must have the chances of its tools for popularity_correction"
            raise RuntimeError(msg)
        c = len(chances)
        if self._settings.collapse_duplicates:
            return (-torch.expm1(c * torch.log1p(-chances))).log().float()
        return (c * chances).log().float()

    def _hard(self, p: Projected) -> tuple[Tensor, Tensor] | None:
        """Scores (b, m) of hard negatives, and which of them are none after all."""
        rows = p.batch.negatives[p.mine]  # (b, m)
        if not rows.shape[1]:
            return None
        safe = rows.clamp(min=0)
        tools = p.project_tools(safe)  # (b, m, d)
        scores = torch.einsum("bd,bmd->bm", p.queries, tools).float()
        left_out = (rows < 0) | is_known(p.known_rows[p.mine], p.corpus.groups[safe])
        margin, same = self._settings.mask_margin, self._settings.same_tool_cosine
        if margin is not None or same is not None:
            embedded = p.embedded_tools(safe.flatten()).view(*safe.shape, -1)  # (b, m, d)
            queries, positives = (side[p.mine] for side in p.embedded)
            if margin is not None:
                base = torch.einsum("bd,bmd->bm", queries, embedded)
                left_out |= base > p.cosines.diagonal()[p.mine, None] + margin
            if same is not None:
                left_out |= torch.einsum("bd,bmd->bm", positives, embedded) >= same
        return scores, left_out


def queries_of_tools(p: Projected, settings: LossSettings) -> Tensor:
    """(b,) losses of the other direction: each tool ranks the batch's queries."""
    back = p.scale * (p.tools @ p.all_queries.T).float()  # (b, c)
    negatives = ~p.known.T[p.mine]
    if settings.mask_margin is not None:
        negatives = negatives & ~likely_positives(p.cosines.T[p.mine], p.own, settings.mask_margin)
    return info_nce(back, p.own, negatives)
