"""A training config file as the objects it describes, for driving the trainer in process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped, unused-ignore]

from toolheads.bootstrap import EncoderSettings
from toolheads.texts import TextSettings
from toolheads_train.data.modules import FolderData
from toolheads_train.data.sampling import SamplingSettings
from toolheads_train.data.selection import ValidationSettings
from toolheads_train.loop.module import HeadsModule
from toolheads_train.settings import HeadSettings, LossSettings, OptimizerSettings


def heads_module(config: Path) -> HeadsModule:
    """The module of a config."""
    model = _read(config)["model"]
    return HeadsModule(
        HeadSettings(**_tuples(model["head"])),
        LossSettings(**model["loss"]),
        OptimizerSettings(**_tuples(model["optimizer"])),
    )


def folder_data(config: Path, **changes: Any) -> FolderData:
    """The data of a config, with some of its settings replaced."""
    settings = {**_read(config)["data"], **changes}
    parts = {
        "encoder": EncoderSettings,
        "texts": TextSettings,
        "validation": ValidationSettings,
        "sampling": SamplingSettings,
    }
    for name, kind in parts.items():
        if isinstance(settings.get(name), dict):
            settings[name] = kind(**_tuples(settings[name]))
    return FolderData(**settings)


def _read(config: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(config.read_text(encoding="utf-8"))
    return found


def _tuples(settings: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
