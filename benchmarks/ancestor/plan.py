"""How large a run is: the full one, and a quick one that shows whether everything works."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Size:
    """Sizes of one run."""

    rounds: int
    """How often both trainers run, in turn: A B A B for two."""
    epochs_timed: int
    """Epochs of each of these runs; the first is a warm-up and is not counted."""
    wide_pairs: int
    """Pairs of one epoch at 4096-d."""
    local_pairs: int
    """Pairs of one epoch at the encoder's width."""
    epochs: int
    """Epochs of the heads whose quality is measured."""
    max_queries: int | None
    """Most training queries of one data set; None takes all."""
    catalogue: int
    """Tools that are searched."""
    requests: int
    starts: int
    """Starts of each command, in turn."""


FULL = Size(
    rounds=2,
    epochs_timed=2,
    wide_pairs=2048,
    local_pairs=8192,
    epochs=5,
    max_queries=None,
    catalogue=10_000,
    requests=500,
    starts=5,
)
QUICK = Size(
    rounds=1,
    epochs_timed=2,
    wide_pairs=512,
    local_pairs=1024,
    epochs=1,
    max_queries=200,
    catalogue=500,
    requests=50,
    starts=1,
)

_QUICK_SETS = 2
"""Data sets with training queries, and as many without, that a quick run takes."""


def data_folders(root: Path, *, quick: bool) -> list[Path]:
    """The data sets of a folder, or it itself; the smallest few for a quick run."""
    if (root / "tools.jsonl").is_file():
        return [root]
    folders = sorted(folder for folder in root.iterdir() if (folder / "tools.jsonl").is_file())
    if not folders:
        msg = f"DATA_DIR must be a data set or hold some, got no tools.jsonl in {root} or below it"
        raise ValueError(msg)
    if not quick:
        return folders
    by_size = sorted(folders, key=lambda folder: (folder / "tools.jsonl").stat().st_size)
    splits = {folder: set(_splits(folder)) for folder in by_size}
    both = [f for f in by_size if {"train", "test"} <= splits[f]][:_QUICK_SETS]
    test = [f for f in by_size if "test" in splits[f] and "train" not in splits[f]][:_QUICK_SETS]
    return sorted([*both, *test]) or folders


def _splits(folder: Path) -> Iterator[str]:
    queries = folder / "queries.jsonl"
    if queries.is_file():
        with queries.open(encoding="utf-8") as lines:
            for line in lines:
                yield str(json.loads(line).get("split", "test"))
