"""From a heads file back to torch: the counterpart of `toolheads_train.outcome.export`."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import torch

from toolheads.arrays import Floats
from toolheads.errors import ConfigError, HeadsFormatError
from toolheads.heads import Heads
from toolheads.heads.convert import LEAST_COSINE, least_cosine
from toolheads.heads.files import WeightDtype, heads_from_bytes, heads_to_bytes
from toolheads_train.model.heads import HeadModule, TwoHeads
from toolheads_train.outcome.export import to_head
from toolheads_train.settings import LossSettings


def from_heads(given: Heads, loss: LossSettings) -> TwoHeads:
    """Torch heads with the weights and alphas of given ones, ready to be trained on.

    A head with alpha 0 has nothing to train, since its weights change no projection: it stays
    as it is.

    Args:
        given: As they were loaded; the two may be of different shapes.
        loss: For the temperature, which a heads file does not hold.

    Raises:
        ConfigError: If both alphas are 0.
    """
    if given.state.alpha == 0 and given.action.alpha == 0:
        msg = (
            f"heads must have an alpha that is not 0 to be trained on, got {given.name!r:.80}, "
            "which leaves every vector as it is; train heads first"
        )
        raise ConfigError(msg)
    heads = TwoHeads(
        given.state.architecture,
        logit_scale=1 / loss.temperature,
        max_logit_scale=1 / loss.min_temperature,
        widths=given.header.widths,
    )
    heads.log_logit_scale.requires_grad_(loss.learn_temperature)
    for side, head in (("state", given.state), ("action", given.action)):
        setattr(heads, side, HeadModule.of(head).requires_grad_(head.alpha != 0))
    return heads


def to_heads(trained: TwoHeads, given: Heads, dtype: WeightDtype, batch: Floats) -> Heads:
    """What `given` becomes with trained weights, as it will be read back from a file.

    Everything but the weights is that of the given heads. The weights go through the precision
    of the file, so that what is measured is what is served.

    Args:
        trained: Made by `from_heads` of `given`.
        given: Where it started.
        dtype: Precision of the weights in the file.
        batch: (n, d) embeddings to compare numpy and torch on, n >= 1.

    Raises:
        HeadsFormatError: If numpy does not project as torch does.
    """
    cpu = copy.deepcopy(trained).to("cpu").eval()
    state, action = to_head(cpu.state), to_head(cpu.action)
    changed = dataclasses.replace(given, state=state, action=action, sha256="")
    with torch.no_grad():
        cosines = [
            least_cosine(head(batch), module(torch.from_numpy(batch)).numpy())
            for head, module in ((state, cpu.state), (action, cpu.action))
        ]
    if not float(np.min(cosines)) >= LEAST_COSINE:  # NaN as well
        msg = (
            f"numpy must project as the trained heads, cosine >= {LEAST_COSINE}, got "
            f"{float(np.min(cosines)):.7f}"
        )
        raise HeadsFormatError(msg)
    return heads_from_bytes(heads_to_bytes(changed, dtype=dtype), "the trained heads")
