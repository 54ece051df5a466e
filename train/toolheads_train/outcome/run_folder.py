"""What a finished run leaves in its folder: heads, digest, card, plots and a summary.

A callback. It works on the best checkpoint once training is over; a run that an error stops
leaves its metrics, its config and the reason.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint

from toolheads.arrays import Floats
from toolheads.durable import write_whole
from toolheads.heads.files import WeightDtype
from toolheads_train.data.modules import FolderData
from toolheads_train.data.validation_set import ValidationSet
from toolheads_train.loop.checkpoints import heads_from_checkpoint
from toolheads_train.loop.metrics_file import METRICS_FILE, read_metrics
from toolheads_train.loop.module import MONITOR, HeadsModule
from toolheads_train.model.heads import TwoHeads
from toolheads_train.outcome.calibration import (
    MACRO,
    Calibration,
    CalibrationSettings,
    calibrate,
    check_views,
    scaled,
)
from toolheads_train.outcome.card import Card, DataRecord, model_card
from toolheads_train.outcome.described import chosen, portable, records_of, trust_of
from toolheads_train.outcome.export import (
    BACKBONE_KEY,
    Backbone,
    Export,
    export_heads,
    package_versions,
)
from toolheads_train.outcome.plots import plot_curves, plot_cutoff, plot_gains

logger = logging.getLogger(__name__)

HEADS_FILE = "heads.npz"
CARD_FILE = "README.md"
SUMMARY_FILE = "summary.json"
CURVES_FILE, GAINS_FILE, CUTOFF_FILE = "curves.png", "gains.png", "cutoff.png"

_WRITTEN = (
    *(METRICS_FILE, HEADS_FILE, f"{HEADS_FILE}.sha256", CARD_FILE, SUMMARY_FILE),
    *(CURVES_FILE, GAINS_FILE, CUTOFF_FILE),
)

_PARITY_ROWS = 128
"""Embeddings of queries, and as many of tools, that numpy and torch are compared on."""

_DEFAULT = CalibrationSettings()


class RunFolder(Callback):
    """Calibrates, exports and reports when a fit ends. See the module."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "heads",
        config: Mapping[str, Any] | None = None,
        calibration: CalibrationSettings = _DEFAULT,
        dtype: WeightDtype = "float16",
    ) -> None:
        """Take settings.

        Args:
            folder: Where to write.
            name: Name of the heads.
            config: The resolved config of the run.
            calibration: What is tried after training.
            dtype: Precision of the weights in the heads file.
        """
        self._folder, self._name = folder, name
        self._config = dict(config or {})
        self._calibration, self._dtype = calibration, dtype
        self._began = time.monotonic()

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Refuse settings now that would fail only when training is done."""
        self._began = time.monotonic()
        sets, views = _validation(trainer)
        check_views(sets, views, self._calibration)

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Add the backbone, so that a checkpoint alone can be exported."""
        backbone = _backbone(trainer)
        if backbone is not None:
            checkpoint[BACKBONE_KEY] = backbone.to_state()

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Leave what there is, and why there is no more."""
        if not trainer.is_global_zero:
            return
        self._save_metrics(trainer)
        reason = str(exception) or type(exception).__name__
        self._summarise({"status": "stopped", "error": reason, "steps": trainer.global_step})

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write everything; the Trainer has put the module back on the CPU by now."""
        if not trainer.is_global_zero or not isinstance(pl_module, HeadsModule):
            return
        self._save_metrics(trainer)
        heads, best_step = _best(trainer, pl_module)
        heads.to(trainer.strategy.root_device)
        sets, views = _validation(trainer)
        calibration = calibrate(heads, sets, views, self._calibration)
        summary: dict[str, Any] = {
            "status": "finished",
            "best_step": best_step,
            "steps": trainer.global_step,
            **chosen(calibration),
        }
        files = self._plots(calibration, best_step)
        backbone = _backbone(trainer)
        if backbone is not None:
            data = trainer.datamodule  # type: ignore[attr-defined, unused-ignore]
            exported = self._export(trainer, heads, sets, backbone, calibration, data, best_step)
            files += [HEADS_FILE, f"{HEADS_FILE}.sha256", CARD_FILE]
            summary |= {
                **trust_of(data.loaded),
                "sha256": exported.sha256,
                "cosine": exported.cosine,
                "weights_cosine": exported.weights_cosine,
            }
        self._summarise(summary | {"files": sorted(files)})
        self._tell(calibration, best_step, trainer.global_step, backbone is not None)

    def _export(
        self,
        trainer: pl.Trainer,
        heads: TwoHeads,
        sets: Sequence[ValidationSet],
        backbone: Backbone,
        calibration: Calibration,
        data: FolderData,
        best_step: int,
    ) -> Export:
        """Heads file with the chosen settings, and its card."""
        records, guarded = records_of(data)
        trust = trust_of(data.loaded)
        with scaled(heads, calibration.share):
            alpha = float(heads.state.alpha)
            training = self._training(calibration, records, guarded, trust, best_step)
            exported = export_heads(
                self._folder / HEADS_FILE,
                heads,
                backbone,
                _parity_rows(sets),
                views=calibration.views,
                cutoff=calibration.cutoff,
                training=training,
                dtype=self._dtype,
                fusion=calibration.fusion,
            )
        card = Card(
            name=self._name,
            export=exported,
            fingerprint=backbone.fingerprint,
            parameters=sum(p.numel() for n, p in heads.named_parameters() if "logit" not in n),
            calibration=calibration,
            alpha=alpha,
            best_step=best_step,
            steps=trainer.global_step,
            data=records,
            guarded=guarded,
            left_out=trust.get("left_out", {}),
            near=trust.get("near_vectors", {}),
            shared=trust.get("shared_tools", {}),
            training=training,
        )
        write_whole(self._folder / CARD_FILE, model_card(card).encode())
        return exported

    def _training(
        self,
        calibration: Calibration,
        records: Sequence[DataRecord],
        guarded: Sequence[str],
        trust: Mapping[str, Any],
        best_step: int,
    ) -> dict[str, Any]:
        """The training block of the header: no time, no place, so that equal runs are equal."""
        return {
            "name": self._name,
            "seed": self._config.get("seed_everything"),
            "data_seed": self._config.get("data", {}).get("seed"),
            "config": portable(self._config),
            "packages": package_versions(),
            "data": {one.name: one.to_json() for one in records},
            "licences": sorted({one.licence for one in records if one.licence}),
            "guarded": list(guarded),
            **trust,
            "best_step": best_step,
            **chosen(calibration),
        }

    def _plots(self, calibration: Calibration, best_step: int) -> list[str]:
        """Draw what there is to draw; returns the names of the files."""
        plot_gains(
            self._folder / GAINS_FILE,
            {name: values["ndcg@10"] for name, values in calibration.frozen.items()},
            {name: values["ndcg@10"] for name, values in calibration.chosen.items()},
        )
        plot_cutoff(
            self._folder / CUTOFF_FILE,
            calibration.margins,
            chosen=calibration.cutoff.margin,
            fixed=calibration.fixed,
        )
        rows = read_metrics(self._folder / METRICS_FILE)
        if not rows:
            return [CUTOFF_FILE, GAINS_FILE]
        names = [name for name in calibration.frozen if name]
        keys = {"": MONITOR} | {name: f"val/{name}/ndcg@10" for name in names}
        plot_curves(
            self._folder / CURVES_FILE,
            _column(rows, "train/loss"),
            {name: _column(rows, key) for name, key in keys.items()},
            best_step=best_step,
        )
        return [CURVES_FILE, CUTOFF_FILE, GAINS_FILE, METRICS_FILE]

    def _summarise(self, what: Mapping[str, Any]) -> None:
        """`summary.json`; the one file of a run that holds a duration."""
        seconds = round(time.monotonic() - self._began, 2)
        summary = {"name": self._name, **what, "seconds": seconds}
        text = json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False)
        write_whole(self._folder / SUMMARY_FILE, f"{text}\n".encode())

    def _tell(self, calibration: Calibration, best: int, steps: int, has_heads: bool) -> None:
        metric, cutoff = calibration.metric, calibration.cutoff
        before, after = (x[MACRO][metric] for x in (calibration.frozen, calibration.chosen))
        share = 100 * calibration.share
        logger.info("kept step %d of %d, and %.0f %% of what was learned", best, steps, share)
        logger.info("validation %s: frozen %.4f, heads %.4f", metric, before, after)
        logger.info("adaptive cut: margin %g, at most %d hits", cutoff.margin, cutoff.max_k)
        logger.info("%s: %s", "heads, card and plots" if has_heads else "plots", self._folder)

    def _save_metrics(self, trainer: pl.Trainer) -> None:
        for one in trainer.loggers:
            one.save()


def written_by_run(folder: Path) -> list[Path]:
    """What a run leaves beside its config and its checkpoints, whether it is there or not."""
    return [folder / name for name in _WRITTEN]


def _best(trainer: pl.Trainer, module: HeadsModule) -> tuple[TwoHeads, int]:
    """The heads of the best checkpoint, and the step it was written at."""
    for callback in trainer.checkpoint_callbacks:
        if not isinstance(callback, ModelCheckpoint) or callback.monitor != MONITOR:
            continue
        if callback.best_model_path:
            path = callback.best_model_path
            step = torch.load(path, map_location="cpu", weights_only=True)["global_step"]
            return heads_from_checkpoint(path), int(step)
    return module.served, trainer.global_step


def _validation(trainer: pl.Trainer) -> tuple[list[ValidationSet], dict[str, float]]:
    """The validation sets, and the views of their tools with the weights of training."""
    data = trainer.datamodule  # type: ignore[attr-defined, unused-ignore]
    views = dict(data.folders.tool_views) if isinstance(data, FolderData) else {"text": 1.0}
    return list(data.validation_sets), views


def _backbone(trainer: pl.Trainer) -> Backbone | None:
    """What a heads file needs beside weights; None for data that came from no encoder."""
    data = trainer.datamodule  # type: ignore[attr-defined, unused-ignore]
    if not isinstance(data, FolderData) or data.loaded is None:
        return None
    return Backbone(data.loaded.fingerprint, data.loaded.probe, data.folders.tool_views)


def _parity_rows(sets: Sequence[ValidationSet]) -> Floats:
    """(n, d) real embeddings, of queries and of tools."""
    queries = torch.cat([one.queries[:_PARITY_ROWS] for one in sets])[:_PARITY_ROWS]
    tools = torch.cat([one.tools[:_PARITY_ROWS, 0] for one in sets])[:_PARITY_ROWS]
    rows: Floats = torch.cat([queries, tools]).float().cpu().numpy()
    return rows


def _column(rows: Mapping[int, Mapping[str, float]], name: str) -> list[tuple[int, float]]:
    return [(step, row[name]) for step, row in sorted(rows.items()) if name in row]
