"""Trains without a fold of the data sets, and measures on their training requests.

The data sets with training requests are dealt into two folds. Test requests are not touched. sgd
is left out, as in the packaged heads. The checkpoint is chosen on the requests it is measured on,
so read differences between rows, not a row as a result.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

CONFIG = Path(__file__).parents[2] / "configs" / "minilm.yaml"
FOLDS = (
    ("toolbench", "toollinkos", "glaive_demo", "aws_cli", "metatool"),
    ("seal_tools", "toolrl_rlla", "azure_cli", "gorilla_apibench", "tldr_commands"),
)


class Folds:
    """Runs the trainer for each fold.

    Args:
        data: Folder of data sets.
        cache: Folder of their vectors.
        work: Folder for the experiments.
    """

    def __init__(self, data: Path, cache: Path, work: Path) -> None:
        self.data, self.cache, self.work = data, cache, work

    def heads(self, name: str, fold: int) -> Path:
        """The heads file that `fit` wrote."""
        return self._experiment(name, fold) / "heads.npz"

    def fit(self, name: str, fold: int, options: Sequence[str]) -> Mapping[str, float]:
        """Train without a fold.

        Returns:
            Data set of the fold → gain in nDCG@10 over the frozen vectors, in points.
        """
        experiment = self._experiment(name, fold)
        self.command(
            "fit",
            *("--config", str(CONFIG), "--name", experiment.name, "--runs", str(self.work)),
            *("--overwrite", "true", *self.data_options(fold), *options),
            "--trainer.enable_progress_bar=false",
        )
        metrics = json.loads((experiment / "summary.json").read_text())["metrics"]
        return {
            one: 100 * (metrics["heads"][one]["ndcg@10"] - metrics["frozen"][one]["ndcg@10"])
            for one in FOLDS[fold]
        }

    def data_options(self, fold: int) -> list[str]:
        """What of the data is used."""
        return [
            *(f"--data.root=[{self.data}]", "--data.exclude=[sgd]", f"--data.cache={self.cache}"),
            "--data.validation.by=given",
            f"--data.validation.datasets=[{','.join(FOLDS[fold])}]",
        ]

    def command(self, *words: str) -> None:
        """Run `toolheads train`; ends the program with its words if it fails."""
        command = [sys.executable, "-m", "toolheads.entrypoints.cli", "train", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(words)}: {done.stderr[-2000:]}")

    def _experiment(self, name: str, fold: int) -> Path:
        return self.work / f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}-{fold}"


def row(name: str, gains: Mapping[str, float], *cells: str) -> str:
    """A line of a table: name, mean gain, worst data set, and more cells."""
    worst = min(gains, key=lambda one: gains[one])
    mean = sum(gains.values()) / len(gains)
    return (
        " | ".join([f"| {name}", f"{mean:+.2f}", f"{gains[worst]:+.2f} ({worst})", *cells]) + " |"
    )
