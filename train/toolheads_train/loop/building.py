"""The heads that a training starts from, out of its settings."""

from __future__ import annotations

import torch
from torch import Tensor

from toolheads.errors import ConfigError
from toolheads.heads.architecture import Architecture
from toolheads_train.model.heads import TwoHeads
from toolheads_train.settings import HeadSettings, LossSettings


def build_heads(
    architecture: Architecture,
    head: HeadSettings,
    loss: LossSettings,
    centres: tuple[Tensor, Tensor] | None = None,
) -> TwoHeads:
    """Heads at the identity, from settings; with (d,) centres of queries and tools, if any.

    Raises:
        ConfigError: If centres are wanted and not given.
    """
    if head.centre != "none" and centres is None:
        msg = f"centres must be given where model.head.centre is {head.centre}, got none"
        raise ConfigError(msg)
    heads = TwoHeads(
        architecture,
        alpha=head.alpha,
        logit_scale=1 / loss.temperature,
        max_logit_scale=1 / loss.min_temperature,
        freeze_action=head.freeze_action,
        shared=head.shared,
        widths=tuple(head.widths),
        centres=centres or (None, None),
        feature_dropout=head.feature_dropout,
        dropout_seed=torch.initial_seed(),
    )
    heads.log_logit_scale.requires_grad_(loss.learn_temperature)
    return heads
