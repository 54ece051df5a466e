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
    widths: tuple[int, ...] = ()
    """Leading entries of a projection that are trained too, rising, so that one file serves them
    alone (Matryoshka): `[64, 128, 256]`. Each costs as much time as the whole loss."""
    feature_dropout: float = 0.0
    """Share of the entries of every embedding that each step sets to zero, in [0, 1). Several
    devices draw other ones than a single device."""
    centre: Literal["none", "corpus"] = "none"
    """`corpus` takes the mean of the training queries out of queries, and that of the training
    tools out of tools; both are stored in the heads file."""

    def __post_init__(self) -> None:
        widths = tuple(self.widths)
        rising = list(widths) == sorted(set(widths)) and all(width >= 1 for width in widths)
        share = self.feature_dropout
        rules = (
            ("widths", list(widths), rising, "rising whole numbers >= 1"),
            ("feature_dropout", share, 0 <= share < 1, "in [0, 1)"),
            (
                "centre",
                self.centre,
                self.centre == "none" or not self.shared,
                "none for a head that both sides share",
            ),
        )
        for name, value, holds, rule in rules:
            if not holds:
                msg = f"model.head.{name} must be {rule}, got {value}"
                raise ConfigError(msg)

    def architecture(self, width: int) -> Architecture:
        """The shape for an encoder of a width.

        Raises:
            ConfigError: If a width to be served is not below it.
        """
        if any(served >= width for served in self.widths):
            msg = (
                f"model.head.widths must be below {width}, the width of the encoder, which is "
                f"always served, got {list(self.widths)}"
            )
            raise ConfigError(msg)
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
    negatives: Literal["in_batch", "catalogue"] = "in_batch"
    """Negatives of a query: the tools that the batch drew, or the tools of a whole catalogue."""
    catalogue: Literal["own", "all"] = "own"
    """Which catalogue: that of the query's own data set, which is what it competes with when it
    is served, or those of all data sets together."""
    refresh_steps: int = 0
    """0 projects the catalogue anew in each step, with gradients to every tool. N keeps
    projections for N steps, without gradients; the batch's own tools are exact always."""
    catalogue_sample: int | None = None
    """Tools drawn at random from the catalogues in each step; unset takes all of them."""
    same_tool_cosine: float | None = None
    """Leave out tools whose frozen cosine to the positive is at least this; unset leaves out
    tools of equal text only."""
    popularity_correction: float = 0.0
    """Share, in [0, 1], of the correction for tools that batches draw often and that are negatives
    too often therefore; for `negatives: in_batch`."""
    same_side: float = 0.0
    """Weight of the same loss with queries among queries of other tools, and tools among tools."""
    distance_penalty: float = 0.0
    """Weight of 1 - cosine of a projection and its embedding, averaged over both sides."""
    distil: Literal["none", "kl", "margin_mse"] = "none"
    """What is learned from a teacher's scores besides: their distribution, or their margins."""
    distil_weight: float = 1.0
    """Weight of the distillation."""
    teacher_temperature: float = 1.0
    """The teacher's scores are divided by it; then they are logits."""

    def __post_init__(self) -> None:
        self._check_extras()
        if not 0 < self.min_temperature <= self.temperature <= 1:
            msg = (
                "model.loss.temperature must be in [min_temperature, 1] with min_temperature > 0, "
                f"got {self.temperature} and min_temperature {self.min_temperature}"
            )
            raise ConfigError(msg)
        if self.mask_margin is not None and not math.isfinite(self.mask_margin):
            msg = f"model.loss.mask_margin must be finite or unset, got {self.mask_margin}"
            raise ConfigError(msg)

    def _check_extras(self) -> None:
        """Rules of the parts that are off by default."""
        sample, same = self.catalogue_sample, self.same_tool_cosine
        rules = (
            ("refresh_steps", self.refresh_steps, self.refresh_steps >= 0, ">= 0"),
            ("catalogue_sample", sample, sample is None or sample >= 1, ">= 1 or unset"),
            ("same_tool_cosine", same, same is None or 0 < same <= 1, "in (0, 1] or unset"),
            (
                "popularity_correction",
                self.popularity_correction,
                0 <= self.popularity_correction <= 1,
                "in [0, 1]",
            ),
            ("same_side", self.same_side, 0 <= self.same_side < math.inf, ">= 0 and finite"),
            (
                "distance_penalty",
                self.distance_penalty,
                0 <= self.distance_penalty < math.inf,
                ">= 0 and finite",
            ),
            (
                "distil_weight",
                self.distil_weight,
                0 < self.distil_weight < math.inf,
                "> 0 and finite",
            ),
            (
                "teacher_temperature",
                self.teacher_temperature,
                0 < self.teacher_temperature < math.inf,
                "> 0 and finite",
            ),
        )
        for name, value, holds, rule in rules:
            if not holds:
                msg = f"model.loss.{name} must be {rule}, got {value}"
                raise ConfigError(msg)
        if self.popularity_correction and self.negatives == "catalogue":
            msg = (
                "model.loss.popularity_correction must be 0 where negatives are a catalogue, whose "
                f"tools all count once, got {self.popularity_correction}"
            )
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
