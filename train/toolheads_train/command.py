"""The `LightningCLI` of training: config files, the run folder, callbacks and loggers."""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentError, set_parsing_settings
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import Callback, EarlyStopping
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI, SaveConfigCallback
from lightning.pytorch.loggers import Logger, WandbLogger

from toolheads.errors import ConfigError, import_extra
from toolheads.heads.files import WeightDtype
from toolheads_train.data.modules import FolderData
from toolheads_train.loop.callbacks import StartingHeadsCompete, best_checkpoint, last_checkpoint
from toolheads_train.loop.metrics_file import MetricsFile
from toolheads_train.loop.module import MONITOR, HeadsModule, check_precision
from toolheads_train.outcome.calibration import CalibrationSettings
from toolheads_train.outcome.run_folder import RunFolder, written_by_run

CHECKPOINTS = "checkpoints"
"""Folder of best.ckpt and last.ckpt in a run folder."""

CONFIG_FILE = "config.yaml"


@dataclass(frozen=True)
class WandbSettings:
    """Weights & Biases; off unless a project is named."""

    project: str | None = None
    """Name of the project; unset logs to metrics.csv alone."""
    entity: str | None = None
    """User or team; unset takes the account's own."""
    offline: bool = False
    """Write to the run folder only; `wandb sync` uploads later. So does WANDB_MODE=offline."""


def run(words: Sequence[str]) -> None:
    """Parse and run one command.

    Raises:
        ConfigError: If an argument, a config file or a setting breaks its rule.
    """
    with parsing():
        TrainCommand(list(words))


@contextmanager
def parsing() -> Iterator[None]:
    """Logs, warnings and errors as a command has them, for as long as it parses and runs.

    Raises:
        ConfigError: For what the libraries below call a mistake in an argument.
    """
    set_parsing_settings(docstring_parse_attribute_docstrings=True)
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("toolheads_train").setLevel(logging.INFO)
    # Lightning recommends other products at each start.
    logging.getLogger("lightning.pytorch.utilities.rank_zero").addFilter(_is_no_tip)
    with warnings.catch_warnings():
        # Expected here: a run goes on in its own folder; there is no DataLoader to give workers;
        # one that is meant to be split over ranks by Lightning neither.
        warnings.filterwarnings("ignore", message=r".*Checkpoint directory .* exists and is not")
        warnings.filterwarnings("ignore", message=r".*does not have many workers.*")
        warnings.filterwarnings("ignore", message=r".*LightningCLI's args parameter.*")
        # Within an epoch: the sampler, not the loader, knows where it was.
        warnings.filterwarnings("ignore", message=r".*your dataloader is not resumable.*")
        warnings.filterwarnings("ignore", message=r".*isinstance\(treespec, LeafSpec\).*")
        # Lightning's own use of what jsonargparse calls deprecated.
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="lightning")
        warnings.filterwarnings("ignore", message=r"(?s).*JSONARGPARSE_DEPRECATION_WARNINGS")
        try:
            yield
        except (ArgumentError, MisconfigurationException) as e:
            raise ConfigError(" ".join(str(e).split())) from e


class TrainCommand(LightningCLI):
    """`fit` and `validate`, with everything that a run writes under `<runs>/<name>/`."""

    def __init__(self, words: list[str]) -> None:
        super().__init__(
            model_class=HeadsModule,
            datamodule_class=FolderData,
            save_config_callback=_SaveConfig,
            save_config_kwargs={"overwrite": True, "config_filename": CONFIG_FILE},
            trainer_class=Trainer,
            trainer_defaults={"log_every_n_steps": 1, "num_sanity_val_steps": 0},
            seed_everything_default=0,
            parser_kwargs={
                "exit_on_error": False,
                "prog": "toolheads train",
                "description": (
                    "Train heads on cached vectors: fit, or validate a checkpoint. A checkpoint "
                    "becomes a heads file by `toolheads train export --help`."
                ),
            },
            args=words,
            auto_configure_optimizers=False,
            load_from_checkpoint_support=False,
        )

    @staticmethod
    def subcommands() -> dict[str, set[str]]:
        """The commands, and the arguments of the Trainer's methods that are not options."""
        names = {"model", "train_dataloaders", "val_dataloaders", "dataloaders", "datamodule"}
        return {"fit": names, "validate": names}

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add what belongs to neither the model, nor the data, nor the Trainer."""
        parser.add_argument("--name", type=str, default="heads", help="name of the run's folder")
        parser.add_argument("--runs", type=str, default="runs", help="folder of all runs")
        parser.add_argument(
            "--overwrite", type=bool, default=False, help="replace a run that has this name"
        )
        parser.add_argument(
            "--patience",
            type=int | None,
            default=None,
            help=f"stop after this many validations without a better {MONITOR}",
        )
        parser.add_argument("--wandb", type=WandbSettings, default=WandbSettings())
        parser.add_argument(
            "--calibration", type=CalibrationSettings, default=CalibrationSettings()
        )
        parser.add_argument(
            "--export_dtype",
            type=WeightDtype,
            default="float16",
            help="precision of the weights in heads.npz",
        )
        parser.link_arguments(
            ("calibration.tool_weights", "calibration.clause_weights"),
            "data.validation_views",
            compute_fn=_tried_views,
        )

    @property
    def folder(self) -> Path:
        """Where the run writes."""
        return Path(self._get(self.config, "runs"), self._get(self.config, "name"))

    def before_instantiate_classes(self) -> None:
        """Resolve the checkpoint, and refuse to write over another run."""
        config = self.config[self.subcommand]
        config["trainer"]["default_root_dir"] = str(self.folder)
        path = config.get("ckpt_path")
        if path in ("best", "last"):
            found = self.folder / CHECKPOINTS / f"{path}.ckpt"
            config["ckpt_path"] = str(found)
        if config.get("ckpt_path") and not Path(config["ckpt_path"]).is_file():
            what = f"no file {config['ckpt_path']}"
            msg = f"ckpt_path must be best, last or a checkpoint file, got {what}"
            raise ConfigError(msg)
        patience = config.get("patience")
        if patience is not None and patience < 1:
            msg = f"patience must be >= 1, got {patience}"
            raise ConfigError(msg)
        is_first = (
            os.environ.get("LOCAL_RANK", "0") == "0"
        )  # other ranks start after it has written
        used = (self.folder / CONFIG_FILE).exists() or (self.folder / CHECKPOINTS).exists()
        if self.subcommand == "fit" and is_first and used and not config.get("ckpt_path"):
            if not config["overwrite"]:
                msg = (
                    f"name must be new, got {self.folder}, which holds a run; continue it with "
                    "--ckpt_path last, replace it with --overwrite true, or choose another --name"
                )
                raise ConfigError(msg)
            _forget(self.folder)

    def after_instantiate_classes(self) -> None:
        """Refuse early what would be refused after hours of embedding."""
        check_precision(self.trainer)

    def instantiate_trainer(self, **settings: Any) -> Trainer:
        """Add loggers and callbacks."""
        logger = self._get(self.config_init, "trainer")["logger"]
        if logger is None or logger is True:
            settings["logger"] = self._loggers()
        own = self._get(self.config_init, "trainer")["callbacks"] or []
        own = own if isinstance(own, list) else [own]
        settings["callbacks"] = [*own, *self._callbacks()] if self.subcommand == "fit" else own
        return super().instantiate_trainer(**settings)

    def _loggers(self) -> list[Logger]:
        if self.subcommand != "fit":
            return []
        found: list[Logger] = [MetricsFile(self.folder)]
        settings: WandbSettings = self._get(self.config_init, "wandb")
        if settings.project is not None:
            import_extra("wandb", user="toolheads train", extra="train")
            found.append(
                WandbLogger(
                    project=settings.project,
                    entity=settings.entity,
                    name=self._get(self.config, "name"),
                    save_dir=str(self.folder),
                    offline=settings.offline,
                )
            )
        return found

    def _callbacks(self) -> list[Callback]:
        """Checkpoints last: what they store includes the state of the others."""
        found: list[Callback] = [StartingHeadsCompete()]
        patience = self._get(self.config, "patience")
        if patience is not None:
            found.append(
                EarlyStopping(
                    MONITOR, mode="max", patience=patience, check_on_train_epoch_end=False
                )
            )
        found.append(
            RunFolder(
                self.folder,
                name=self._get(self.config, "name"),
                config=self._resolved(),
                calibration=self._get(self.config_init, "calibration"),
                dtype=self._get(self.config, "export_dtype"),
            )
        )
        where = str(self.folder / CHECKPOINTS)
        return [*found, best_checkpoint(where), last_checkpoint(where)]

    def _resolved(self) -> dict[str, Any]:
        """The config of the command with all defaults, as plain data."""
        config = self.config[self.subcommand].clone().as_dict()
        config.pop("config", None)  # the files it was read from
        plain: dict[str, Any] = json.loads(json.dumps(config, default=str))
        return plain


class _SaveConfig(SaveConfigCallback):
    """Saves the config beside a run that trains; a validation writes nothing."""

    def setup(self, trainer: Trainer, pl_module: Any, stage: str) -> None:
        if stage == "fit":
            super().setup(trainer, pl_module, stage)


def _is_no_tip(record: logging.LogRecord) -> bool:
    return "Tip:" not in record.getMessage()


def _tried_views(
    tool_weights: tuple[dict[str, float], ...], clause_weights: tuple[float, ...]
) -> list[str]:
    """Views that validation needs for what calibration tries."""
    tried = CalibrationSettings(
        tool_weights=tuple(tool_weights), clause_weights=tuple(clause_weights)
    )
    return list(tried.views)


def _forget(folder: Path) -> None:
    """Remove what an earlier run of the same name would mix with."""
    checkpoints = folder.glob(f"{CHECKPOINTS}/*.ckpt")
    for path in (folder / CONFIG_FILE, *written_by_run(folder), *checkpoints):
        path.unlink(missing_ok=True)
