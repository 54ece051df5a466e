"""What a sweep varies: settings and their values, every combination of them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped, unused-ignore]

from toolheads.errors import ConfigError
from toolheads_train.settings import HeadSettings, LossSettings, OptimizerSettings

SEEDS = ("seed_everything", "data.seed")
"""Settings whose values are repeats of a variant and no variants of their own."""

TOGETHER = (
    "seed_everything",
    "model.optimizer.lr",
    "model.optimizer.weight_decay",
    "model.loss.temperature",
    "model.loss.mask_margin",
    "model.head.alpha",
)
"""Settings in which pairs of heads that train at once may differ: they share shapes and batches."""

Settings = Mapping[str, Any]
"""Dotted name → value."""


@dataclass(frozen=True)
class Grid:
    """Values of each setting."""

    values: Mapping[str, Sequence[Any]]

    @classmethod
    def read(cls, path: Path) -> Grid:
        """Read a YAML file: dotted name of a setting → list of its values.

        Raises:
            ConfigError: If it is not that.
        """
        try:
            found = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.YAMLError as e:
            msg = f"grid must be a YAML file, got {path}: {' '.join(str(e).split())}"
            raise ConfigError(msg) from e
        return cls.of(found)

    @classmethod
    def of(cls, found: object) -> Grid:
        """Check what a file holds.

        Raises:
            ConfigError: If it is no mapping of names to lists that have something in them.
        """
        if not isinstance(found, dict) or not found:
            msg = f"grid must map settings to lists of values, got {found!r:.80}"
            raise ConfigError(msg)
        for name, values in found.items():
            if not isinstance(name, str) or not isinstance(values, list) or not values:
                msg = f"grid must have a list of values for {name}, got {values!r:.80}"
                raise ConfigError(msg)
            texts = [json.dumps(value, sort_keys=True) for value in values]
            if len(set(texts)) != len(texts):
                msg = f"grid must have different values for {name}, got {values!r:.80}"
                raise ConfigError(msg)
        return cls({name: tuple(values) for name, values in found.items()})

    def __len__(self) -> int:
        """Trainings in all."""
        count = 1
        for values in self.values.values():
            count *= len(values)
        return count

    def apart(self) -> Iterator[Settings]:
        """Combinations of what cannot differ within a stack."""
        return self._combinations(lambda name: name not in TOGETHER)

    def together(self) -> Iterator[Settings]:
        """Combinations of what can."""
        return self._combinations(lambda name: name in TOGETHER)

    def _combinations(self, is_wanted: Any) -> Iterator[Settings]:
        names = [name for name in self.values if is_wanted(name)]
        for values in product(*(self.values[name] for name in names)):
            yield dict(zip(names, values, strict=True))


@dataclass(frozen=True)
class Member:
    """One pair of heads of a stack: its own settings, the rest is shared."""

    settings: Settings
    """What the grid gave it, all of it."""
    seed: int
    """Of the weights at the start."""
    head: HeadSettings
    loss: LossSettings
    optimizer: OptimizerSettings

    @classmethod
    def of(
        cls,
        settings: Settings,
        seed: int,
        head: HeadSettings,
        loss: LossSettings,
        optimizer: OptimizerSettings,
    ) -> Member:
        """Put the grid's values of `TOGETHER` into settings.

        Raises:
            ConfigError: If a value breaks the rule of its setting.
        """
        changed: dict[str, dict[str, Any]] = {"head": {}, "loss": {}, "optimizer": {}}
        for name, value in settings.items():
            if name in TOGETHER and name.startswith("model."):
                _, part, field = name.split(".")
                changed[part][field] = _number(name, value)
        return cls(
            settings,
            int(settings.get("seed_everything", seed)),
            replace(head, **changed["head"]),
            replace(loss, **changed["loss"]),
            replace(optimizer, **changed["optimizer"]),
        )


def variant_of(settings: Settings) -> Settings:
    """What is compared: everything but seeds."""
    return {name: value for name, value in settings.items() if name not in SEEDS}


def label(settings: Settings) -> str:
    """A variant in a table: `optimizer.lr=0.001 loss.mask_margin=0`; `as configured` if empty."""
    parts = [f"{name.removeprefix('model.')}={_shown(value)}" for name, value in settings.items()]
    return " ".join(parts) or "as configured"


def words(settings: Settings) -> list[str]:
    """Settings as options of `toolheads train fit`."""
    return [f"--{name}={_shown(value)}" for name, value in settings.items()]


def wandb_sweep(grid: Grid, config: Path, project: str = "toolheads") -> str:
    """The same grid as a sweep file of Weights & Biases, which runs `toolheads train fit`.

    Its agent gives each run an id; the run's folder is named after it.
    """
    run = f"exec toolheads train fit --config {shlex.quote(str(config))}"
    run += f' --name "sweep-$WANDB_RUN_ID" --wandb.project {shlex.quote(project)} "$@"'
    sweep = {
        "method": "grid",
        "metric": {"name": "val/ndcg@10", "goal": "maximize"},
        "parameters": {
            name: {"values": [_of_agent(value) for value in values]}
            for name, values in grid.values.items()
        },
        "command": ["sh", "-c", run, "sh", "${args}"],
    }
    text: str = yaml.safe_dump(sweep, sort_keys=False)
    return text


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _of_agent(value: object) -> object:
    """A value that an agent writes as `words` does: of its own, it writes Python's `None`."""
    return value if isinstance(value, bool | int | float | str) else _shown(value)


def _number(name: str, value: object) -> float | None:
    """YAML reads `1e-4` as a text."""
    if value is None:
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as e:
        msg = f"{name} must be a number, got {value!r}"
        raise ConfigError(msg) from e
