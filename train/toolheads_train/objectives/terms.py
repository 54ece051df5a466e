"""What may be added to a contrastive objective: same-side losses, distance, distillation."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812  torch's own convention
from torch import Tensor

from toolheads_train.data.corpus import csr_rows
from toolheads_train.objectives.masks import likely_positives
from toolheads_train.objectives.projected import Projected
from toolheads_train.settings import LossSettings


def same_side(p: Projected, settings: LossSettings) -> Tensor:
    """(b,) losses of a pair among its own sides: queries among queries, tools among tools.

    The score of the pair has to beat that of its query with queries of other tools, and that of
    its tool with other tools; the mean of both. The extra terms of the improved contrastive loss
    of Li et al. (2023), https://arxiv.org/abs/2308.03281, each with a softmax of its own.
    """
    pair = p.scale * (p.queries * p.tools).sum(1)  # (b,)
    # Two pairs are one if either's tool is right for the other's query.
    apart = ~(p.known | p.known.T)[p.mine]  # (b, c)
    if settings.mask_margin is not None:
        apart = apart & ~likely_positives(p.cosines[p.mine], p.own, settings.mask_margin)
    if settings.same_tool_cosine is not None:
        apart = apart & (p.tool_cosines[p.mine] < settings.same_tool_cosine)
    losses = []
    for mine, every in ((p.queries, p.all_queries), (p.tools, p.all_tools)):
        logits = p.scale * (mine @ every.T).float()  # (b, c)
        others = logits.masked_fill(~apart, -torch.inf).logsumexp(1)
        losses.append(F.softplus(others - pair))
    return (losses[0] + losses[1]) / 2


def distance(p: Projected) -> Tensor:
    """(b,) 1 - cosine of what the heads give and what they are given, mean of both sides.

    In [0, 2]; 0 where the heads are the identity. A tool of several views has their mean. Heads
    that are narrowed to some leading entries are compared with the same entries.
    """
    kept = p.heads.state.kept
    queries = p.corpus.queries[p.batch.queries[p.mine]].float()[..., :kept]
    tools = p.corpus.tools[p.batch.tools[p.mine]].float()[..., :kept]  # (b, v, d)
    moved = 1 - F.cosine_similarity(p.queries[..., :kept], queries, dim=-1)
    moved_tools = (1 - F.cosine_similarity(p.tool_views[..., :kept], tools, dim=-1)).mean(1)
    return (moved + moved_tools) / 2


def distillation(p: Projected, settings: LossSettings) -> Tensor:
    """(b,) losses against a teacher's scores of a few tools of each query.

    Teacher's scores divided by `teacher_temperature` and cosines divided by the temperature are
    both logits. `kl`: KL divergence of the softmax of the latter from that of the former, over
    the scored tools. `margin_mse`: the mean squared difference of margins between the tool that
    the teacher likes best and each other one, after Hofstätter et al. (2020),
    https://arxiv.org/abs/2010.02666.

    Returns:
        (b,) float32; 0 for a query with fewer than two scores.
    """
    corpus, queries = p.corpus, p.batch.queries[p.mine]
    lists = corpus.teacher
    if lists.longest < 2:
        return torch.zeros(len(queries), device=corpus.device)
    rows = lists.padded(queries)  # (b, t)
    places = torch.arange(len(lists.values), device=corpus.device)
    at = csr_rows(lists.offsets, places, queries, longest=lists.longest)
    is_scored = rows >= 0
    is_used = is_scored.sum(1) > 1  # (b,)
    teacher = corpus.teacher_scores[at.clamp(min=0)] / settings.teacher_temperature
    tools = p.project_tools(rows.clamp(min=0))  # (b, t, d)
    student = p.scale * torch.einsum("bd,btd->bt", p.queries, tools).float()
    if settings.distil == "kl":
        # A finite floor: the softmax of nothing but -inf is NaN.
        floor = torch.finfo(torch.float32).min / 2
        wanted = teacher.masked_fill(~is_scored, floor).log_softmax(1)
        given = student.masked_fill(~is_scored, floor).log_softmax(1)
        each = wanted.exp() * (wanted - given)
        return torch.where(is_scored, each, 0.0).sum(1) * is_used
    best = teacher.masked_fill(~is_scored, -torch.inf).argmax(1, keepdim=True)  # (b, 1)
    margins = teacher.gather(1, best) - teacher
    given = student.gather(1, best) - student
    squares = torch.where(is_scored, (margins - given).square(), 0.0).sum(1)
    return squares / (is_scored.sum(1) - 1).clamp(min=1) * is_used
