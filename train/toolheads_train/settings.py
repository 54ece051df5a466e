"""Settings of the training module, one dataclass for each part of a config file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from toolheads.errors import ConfigError
from toolheads.heads.architecture import Activation, Architecture, InputScaling


@dataclass(frozen=True)
class HeadSettings:
    """Shape of both heads. The width is the encoder's and is not set here."""

    hidden: tuple[int, ...] = (384,)
    """Widths of the hidden layers. Small ones generalise better to unseen tools."""
    activation: Activation = "gelu"
    """`gelu`; or `identity`, which makes one hidden layer a low-rank linear map."""
    input_scaling: InputScaling = "none"
    """`none`, `sqrt` (times the root of the width) or `layernorm`, before the first layer."""
    hidden_norm: bool = False
    """LayerNorm in the second and later hidden layers."""
    alpha: float = 1.0
    """Share of the network in a projection; 0 is the frozen embedding."""
    freeze_action: bool = False
    """Leave tools at their frozen embeddings and train the query side only."""
    shared: bool = False
    """One head for queries and tools."""

    def architecture(self, width: int) -> Architecture:
        """The shape for an encoder of a width."""
        return Architecture(
            width=width,
            hidden=tuple(self.hidden),
            activation=self.activation,
            input_scaling=self.input_scaling,
            hidden_norm=self.hidden_norm,
        )


@dataclass(frozen=True)
class LossSettings:
    """What is a positive, what is a negative, and how sharp the softmax is."""

    both_directions: bool = True
    """Also rank the batch's queries for each tool, not only its tools for each query."""
    other_positives: Literal["mask", "count"] = "mask"
    """Other right tools of a query that are in the batch: left out, or positives too."""
    collapse_duplicates: bool = True
    """Count a tool that several queries of the batch drew as one negative, not as several."""
    mask_margin: float | None = 0.0
    """Leave out negatives whose frozen cosine to the query exceeds the positive's by more than
    this; unset keeps them all."""
    temperature: float = 0.05
    """Temperature at the start; logits are divided by it."""
    min_temperature: float = 0.01
    """Lower bound of the learned temperature; the upper one is 1."""
    learn_temperature: bool = True
    """Train the temperature with the heads."""

    def __post_init__(self) -> None:
        if not 0 < self.min_temperature <= self.temperature <= 1:
            msg = (
                "model.loss.temperature must be in [min_temperature, 1] with min_temperature > 0, "
                f"got {self.temperature} and min_temperature {self.min_temperature}"
            )
            raise ConfigError(msg)
        if self.mask_margin is not None and not math.isfinite(self.mask_margin):
            msg = f"model.loss.mask_margin must be finite or unset, got {self.mask_margin}"
            raise ConfigError(msg)


@dataclass(frozen=True)
class OptimizerSettings:
    """AdamW and its schedule."""

    lr: float = 1e-4
    """Peak learning rate."""
    weight_decay: float = 0.01
    """Decay of all parameters; of a head that starts as the identity, it pulls back to it."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of the moments."""
    warmup_share: float = 0.05
    """Share of all steps in which the rate rises from 0, in [0, 1]."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """What the rate does beside the warm-up: fall to 0 along a cosine, or nothing."""
    clip: float | None = None
    """Largest norm of the gradient; unset does not clip."""

    def __post_init__(self) -> None:
        rules = (
            ("lr", self.lr, self.lr > 0 and math.isfinite(self.lr), "> 0"),
            ("weight_decay", self.weight_decay, self.weight_decay >= 0, ">= 0"),
            ("betas", self.betas, all(0 <= beta < 1 for beta in self.betas), "in [0, 1)"),
            ("warmup_share", self.warmup_share, 0 <= self.warmup_share <= 1, "in [0, 1]"),
            ("clip", self.clip, self.clip is None or self.clip > 0, "> 0 or unset"),
        )
        for name, value, holds, rule in rules:
            if not holds:
                msg = f"model.optimizer.{name} must be {rule}, got {value}"
                raise ConfigError(msg)

    def lr_at(self, step: int, total: int) -> float:
        """Learning rate of one optimiser step.

        The warm-up is a factor of the cosine, as in the published recipe, so the peak is a
        little below `lr`.

        Args:
            step: From 0.
            total: Steps of the whole training.
        """
        warmup = self.warmup_share * total
        rise = min(1.0, (step + 1) / warmup) if warmup >= 1 else 1.0
        fall = 0.5 * (1 + math.cos(math.pi * min(step / total, 1.0)))
        return self.lr * rise * (fall if self.schedule == "cosine" else 1.0)
