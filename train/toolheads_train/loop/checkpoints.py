"""What a checkpoint says beside weights: written, compared with a config, read back as heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from toolheads.errors import ConfigError
from toolheads.heads.architecture import Architecture
from toolheads_train.model.heads import TwoHeads
from toolheads_train.settings import HeadSettings

CHECKPOINT_KEY = "toolheads"
"""Key in a checkpoint of what is not a weight: architecture, settings, sampler."""


def about_heads(heads: TwoHeads, settings: HeadSettings) -> dict[str, Any]:
    """What weights alone do not tell of heads, plain types only."""
    return {
        "architecture": heads.state.architecture.to_json(),
        "alpha": float(heads.state.alpha),
        "freeze_action": settings.freeze_action,
        "shared": settings.shared,
        "widths": list(heads.widths),
    }


def check_same_heads(
    checkpoint: Mapping[str, Any], heads: TwoHeads, state: Mapping[str, Any]
) -> None:
    """Refuse a checkpoint of other heads than a config's.

    Args:
        checkpoint: As it was loaded.
        heads: Of the config.
        state: The module's state of the config, for the names in it.

    Raises:
        ConfigError: If it has another shape, or was trained with other options.
    """
    stored = checkpoint.get(CHECKPOINT_KEY, {})
    mine = heads.state.architecture.to_json()
    if stored.get("architecture") != mine:
        msg = f"a checkpoint must have this config's heads {mine}, got {stored.get('architecture')}"
        raise ConfigError(msg)
    other = sorted(set(checkpoint["state_dict"]) ^ set(state))
    if other or stored.get("widths", []) != list(heads.widths):
        msg = (
            "a checkpoint must be of this config's model.ema, model.head.centre, "
            "model.head.feature_dropout and model.head.widths, got one that differs in "
            f"{other[0] if other else 'widths'}"
        )
        raise ConfigError(msg)


def heads_from_checkpoint(path: str) -> TwoHeads:
    """Read the trained heads out of a checkpoint, on the CPU, without a Trainer.

    They are the averaged ones where the training averaged.

    Raises:
        ConfigError: If the file is no checkpoint of this trainer.
    """
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    stored = checkpoint.get(CHECKPOINT_KEY)
    if stored is None:
        msg = (
            f"{path} must be a checkpoint of `toolheads train`, got one without {CHECKPOINT_KEY!r}"
        )
        raise ConfigError(msg)
    state = checkpoint["state_dict"]
    of = "averaged." if any(name.startswith("averaged.") for name in state) else "heads."
    weights = {
        name.removeprefix(of): value
        for name, value in state.items()
        if name.startswith(of) and ".dropout." not in name
    }
    heads = TwoHeads(
        Architecture.from_json(stored["architecture"]),
        alpha=stored["alpha"],
        freeze_action=stored["freeze_action"],
        shared=stored["shared"],
        widths=tuple(stored.get("widths", ())),
        centres=(weights.get("state.centre"), weights.get("action.centre")),
    )
    heads.load_state_dict(weights)
    return heads
