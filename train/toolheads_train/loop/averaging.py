"""The moving average of the weights, taken at every optimiser step and not at every chunk.

The averaged heads are what is validated, kept and exported; the others go on training.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from toolheads_train.model.heads import TwoHeads


def averaged_copy(heads: TwoHeads) -> TwoHeads:
    """Heads to average into: equal to these for now, without gradients and without dropout."""
    averaged = copy.deepcopy(heads).requires_grad_(requires_grad=False)
    averaged.state.dropout = averaged.action.dropout = None
    return averaged


@torch.no_grad()
def update_average(averaged: TwoHeads, heads: TwoHeads, decay: float) -> None:
    """Move the average by one step: `averaged = decay * averaged + (1 - decay) * heads`.

    The starting heads keep a share of decay ** steps, so it is worth something from about
    2 / (1 - decay) steps on. Waits for nothing on the host.

    Args:
        averaged: What `averaged_copy` made of these heads.
        heads: After an optimiser step.
        decay: In (0, 1).
    """
    targets: list[Tensor] = [*averaged.parameters()]
    torch._foreach_lerp_(targets, [*heads.parameters()], 1 - decay)
