"""Contrastive losses: pure functions of logits and masks, one value for each row.

A loss sees a table of logits with one row for each anchor and one column for each candidate. What
the columns are (the batch's tools, mined negatives, a whole catalogue) is the caller's choice, as
is what counts as a negative (see `masks`).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  torch's own convention
from torch import Tensor


def info_nce(logits: Tensor, own: Tensor, negatives: Tensor) -> Tensor:
    """InfoNCE with one positive for each row.

    `-log(exp(s_own) / (exp(s_own) + sum over negatives exp(s)))`, van den Oord et al. (2018),
    https://arxiv.org/abs/1807.03748, eq. 4. Columns that are neither are left out.

    Args:
        logits: (b, c) float, scaled scores.
        own: (b,) int64, column of each row's positive.
        negatives: (b, c) bool; False at the positive.

    Returns:
        (b,) float32, in nats; 0 for a row without negatives.
    """
    positive = logits.gather(1, own[:, None]).squeeze(1).float()  # (b,)
    return F.softplus(_log_sum_exp(logits, negatives) - positive)


def multi_positive_info_nce(logits: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
    """Mean over a row's positives of its InfoNCE, each with the other positives left out.

    The reading of several positives that is robust to wrong ones: each must beat the negatives,
    none must beat another positive.

    Args:
        logits: (b, c) float, scaled scores.
        positives: (b, c) bool, at least one True in each row.
        negatives: (b, c) bool, disjoint from `positives`.

    Returns:
        (b,) float32, in nats.
    """
    each = F.softplus(_log_sum_exp(logits, negatives)[:, None] - logits.float())  # (b, c)
    return (each * positives).sum(1) / positives.sum(1)


def _log_sum_exp(logits: Tensor, keep: Tensor) -> Tensor:
    """Over the kept columns, float32; -inf, with a gradient of 0, where none is kept."""
    return logits.float().masked_fill(~keep, -torch.inf).logsumexp(1)


def log_sum_exp_of_products(
    anchors: Tensor, candidates: Tensor, keep: Tensor, shift: Tensor | None = None
) -> Tensor:
    """Log of the sum over the kept candidates of exp(anchor · candidate + shift).

    The table of logits is never kept for the backward pass: the gradient of a row with respect
    to its anchor is the candidates' mean under the softmax, which the forward pass has at hand,
    and candidates that need no gradient cost nothing more. For those that do, the logits are
    computed again.

    Args:
        anchors: (b, d) float, scaled by 1 / temperature.
        candidates: (m, d) float of the same dtype, m >= 1.
        keep: (b, m) bool.
        shift: (m,) float32 added to the logits of each candidate; without a gradient.

    Returns:
        (b,) float32; -inf, with a gradient of 0, where none is kept.
    """
    sums: Tensor
    sums, _ = _LogSumExpOfProducts.apply(  # type: ignore[no-untyped-call]
        anchors, candidates, keep, shift
    )
    return sums


class _LogSumExpOfProducts(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(
        anchors: Tensor, candidates: Tensor, keep: Tensor, shift: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        logits = _masked_products(anchors, candidates, keep, shift)  # (b, m)
        top = logits.amax(1, keepdim=True)
        top = top.masked_fill(top == -torch.inf, 0.0)
        shares = (logits - top).exp()
        total = shares.sum(1, keepdim=True)  # (b, 1)
        means = (shares.to(candidates.dtype) @ candidates).float()  # (b, d)
        means = means / total.clamp(min=torch.finfo(torch.float32).tiny)
        return (total.log() + top).squeeze(1), means

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        anchors, candidates, keep, shift = inputs
        sums, means = output
        ctx.mark_non_differentiable(means)
        if ctx.needs_input_grad[1]:
            ctx.save_for_backward(means, anchors, candidates, keep, shift, sums)
        else:
            ctx.save_for_backward(means)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        means, *more = ctx.saved_tensors
        to_anchors = gradient[:, None] * means
        if not more:
            return to_anchors, None, None, None
        anchors, candidates, keep, shift, sums = more
        logits = _masked_products(anchors, candidates, keep, shift)
        sums = sums.masked_fill(sums == -torch.inf, 0.0)
        shares = (logits - sums[:, None]).exp() * gradient[:, None]  # (b, m)
        to_candidates = shares.to(anchors.dtype).T @ anchors
        return to_anchors.to(anchors.dtype), to_candidates, None, None


def _masked_products(
    anchors: Tensor, candidates: Tensor, keep: Tensor, shift: Tensor | None
) -> Tensor:
    """(b, m) float32."""
    logits = (anchors @ candidates.T).float()
    if shift is not None:
        logits = logits + shift
    return logits.masked_fill(~keep, -torch.inf)
