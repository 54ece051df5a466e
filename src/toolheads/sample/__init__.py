"""The package's own sample catalogue: invented servers, their tools, and requests for them.

Small enough to train on within a minute, and split by tool like the real data sets, so that every
command can be tried without data of one's own. See docs/sample.md.
"""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

from toolheads.data import Dataset, read_dataset

SAMPLE_NAME = "sample"
"""What `--data` and configs say instead of a folder."""

__all__ = ["SAMPLE_NAME", "dataset_path", "sample_dataset", "sample_folder"]


def sample_folder() -> Path:
    """The folder with `tools.jsonl` and `queries.jsonl`, as the package was installed."""
    return Path(str(files(__name__)))


def dataset_path(where: str | os.PathLike[str]) -> Path:
    """The folder that a command line or a config names: `sample` is the sample catalogue.

    A folder of that name is reached as `./sample`.
    """
    return sample_folder() if where == SAMPLE_NAME else Path(where)


def sample_dataset() -> Dataset:
    """Read the sample catalogue, under the name `sample`."""
    return read_dataset(sample_folder())
