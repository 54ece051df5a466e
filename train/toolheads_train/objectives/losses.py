"""Contrastive losses: pure functions of logits and masks, one value for each row.

A loss sees a table of logits with one row for each anchor and one column for each candidate. What
the columns are (the batch's tools, mined negatives, a whole catalogue) is the caller's choice, as
is what counts as a negative (see `masks`).
"""

from __future__ import annotations

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
