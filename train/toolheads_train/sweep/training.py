"""Trains a stack of heads: one sampler, one batch for all, each pair with its own settings.

The loop of `HeadsModule` without a Trainer, for what is not kept apart anyway: no checkpoints to
resume from, no logger. A member gets what `toolheads train fit` with its settings gets, up to the
rounding of products of another shape.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from toolheads.errors import ConfigError
from toolheads_train.data.corpus import TrainingCorpus
from toolheads_train.data.sampling import Batch, BatchSampler
from toolheads_train.data.validation_set import ValidationSet
from toolheads_train.errors import NotFiniteError
from toolheads_train.loop.building import build_heads
from toolheads_train.loop.captured import CapturedStep, CudaGraphs, follow_capture
from toolheads_train.loop.contrast import StackedInBatch
from toolheads_train.loop.validation import DEFAULT_METRICS, validate
from toolheads_train.model.heads import TwoHeads
from toolheads_train.model.stacked import StackedHeads
from toolheads_train.sweep.grid import Member, Settings

CHOOSES = "ndcg@10"
"""Metric that chooses the validation whose weights are kept."""

Measured = Mapping[str, Mapping[str, float]]
"""Set, or "" for the mean over the sets → metric → value."""


@dataclass
class Trained:
    """One training of a sweep and the best of its validations."""

    settings: Settings
    heads: TwoHeads
    """On the CPU; those of the best validation."""
    measured: Measured
    """At that validation."""
    start: Measured
    """Before the first step."""
    step: int
    """Optimiser steps before that validation."""
    seconds: float
    """Its share of the time of training, without validation."""
    validation_s: float
    """Seconds of its validations."""
    error: str = ""
    """Why it stopped early; the best until then is kept."""

    @property
    def score(self) -> float:
        """What variants are compared by."""
        return self.measured[""][CHOOSES]


@dataclass(frozen=True)
class Plan:
    """What all members share."""

    epochs: int
    steps_per_epoch: int
    check_every: int
    """Epochs between two validations."""
    max_steps: int = -1
    """-1: no bound beside the epochs."""
    autocast: bool = False
    """Products in bf16."""
    capture: bool = True
    """Replay steps as a CUDA graph where there is one."""

    @property
    def total(self) -> int:
        """Optimiser steps in all."""
        steps = self.epochs * self.steps_per_epoch
        return steps if self.max_steps < 0 else min(steps, self.max_steps)


@dataclass
class StackTraining:
    """Trains members together.

    Attributes:
        heads: The stack.
        seconds: Of training alone.
    """

    members: Sequence[Member]
    corpus: TrainingCorpus
    """On the device."""
    sampler: BatchSampler
    view_weights: Sequence[float]
    plan: Plan
    centres: tuple[Tensor, Tensor] | None = None
    """(d,) of queries and of tools, for heads that are centred; see `centres_of`."""
    seconds: float = 0.0
    step: int = 0
    heads: StackedHeads = field(init=False)

    def __post_init__(self) -> None:
        device = self.corpus.device
        starts = [start_of(member, self.corpus.width, self.centres) for member in self.members]
        self.heads = StackedHeads(starts).to(device)
        settings = self.members[0].loss
        margins = [member.loss.mask_margin for member in self.members]
        self._objective = StackedInBatch(settings, margins, self.view_weights)
        self._slices = [self.heads.slices(i) for i in range(len(self.members))]
        is_cuda = device.type == "cuda"
        self._rates = [torch.zeros((), device=device) for _ in self.members]
        groups = [
            {
                "params": own,
                # A recording reads the rate from a fixed place; elsewhere a number is exact.
                "lr": rate if is_cuda else 0.0,
                "betas": member.optimizer.betas,
                "weight_decay": member.optimizer.weight_decay,
            }
            for member, own, rate in zip(self.members, self._slices, self._rates, strict=True)
        ]
        self._optimizer = torch.optim.AdamW(groups, fused=True)
        self._losses = torch.zeros(len(self.members), device=device)
        can_record = is_cuda and self.plan.capture and self.heads.dropout is None
        self._captured = CapturedStep(self._step, CudaGraphs()) if can_record else None

    def run(self, steps: int) -> list[bool]:
        """Take steps; returns for each member whether all of its losses were finite."""
        began = time.perf_counter()
        self._losses.zero_()
        for _ in range(steps):
            self._set_rates()
            batch = self.sampler.draw()
            if self._captured is None:
                self._step(batch)
            else:
                self._captured(batch)
            self.step += 1
        finite: list[bool] = torch.isfinite(self._losses).tolist()  # waits for the device
        self.seconds += time.perf_counter() - began
        return finite

    def _set_rates(self) -> None:
        for member, group, place in zip(
            self.members, self._optimizer.param_groups, self._rates, strict=True
        ):
            rate = member.optimizer.lr_at(self.step, self.plan.total)
            if isinstance(group["lr"], Tensor):
                place.fill_(rate)
            else:
                group["lr"] = rate

    def _step(self, batch: Batch) -> None:
        kind = self.corpus.device.type
        with torch.autocast(kind, torch.bfloat16, enabled=self.plan.autocast, cache_enabled=False):
            losses, _, _ = self._objective(self.heads, self.corpus, batch)
        self.heads.zero_grad(set_to_none=True)
        torch.autograd.backward(losses.sum())
        self.heads.hand_out_gradients(self._slices)
        for member, own in zip(self.members, self._slices, strict=True):
            if member.optimizer.clip is not None:
                torch.nn.utils.clip_grad_norm_(own, member.optimizer.clip)
        follow_capture(self._optimizer)
        self._optimizer.step()
        self.heads.clamp_logit_scale()
        self._losses += losses.detach()


def start_of(member: Member, width: int, centres: tuple[Tensor, Tensor] | None = None) -> TwoHeads:
    """The heads that `toolheads train fit` starts from with the same seed."""
    own = None if member.head.centre == "none" else centres
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(member.seed)
        return build_heads(member.head.architecture(width), member.head, member.loss, own)


def train_stack(training: StackTraining, sets: Sequence[ValidationSet]) -> list[Trained]:
    """Train to the end, and keep of each member the weights of its best validation.

    A validation replaces an earlier one if its score is strictly higher, so that the untrained
    heads win where training does not help. A member whose loss stops being finite stays at what
    it had.

    Args:
        training: Before its first step.
        sets: At least one, on the device.

    Raises:
        ConfigError: If there is no step to take.
    """
    plan = training.plan
    if plan.total < 0 or plan.check_every < 1:
        msg = f"a sweep must have steps and validations, got {plan.total} steps"
        raise ConfigError(msg)
    weights = torch.tensor(list(training.view_weights), device=training.corpus.device)
    found = [_validated(training, i, sets, weights) for i in range(len(training.members))]
    while training.step < plan.total:
        steps = min(plan.check_every * plan.steps_per_epoch, plan.total - training.step)
        finite = training.run(steps)
        for number, one in enumerate(found):
            if one.error:
                continue
            if not finite[number]:
                one.error = f"its loss became NaN or inf within {steps} steps to {training.step}"
                continue
            try:
                new = _validated(training, number, sets, weights)
            except NotFiniteError as e:
                one.error = str(e)
                continue
            one.validation_s += new.validation_s
            if new.score > one.score:
                one.heads, one.measured, one.step = new.heads, new.measured, new.step
    for one in found:
        one.seconds = training.seconds / len(found)
    return found


def _validated(
    training: StackTraining, number: int, sets: Sequence[ValidationSet], weights: Tensor
) -> Trained:
    began = time.perf_counter()
    heads = training.heads.draw(number).eval()
    measured = validate(heads, sets, weights, DEFAULT_METRICS)
    return Trained(
        settings=training.members[number].settings,
        heads=heads.cpu(),
        measured=measured,
        start=measured,
        step=training.step,
        seconds=0.0,
        validation_s=time.perf_counter() - began,
    )
