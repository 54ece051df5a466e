"""A toy world for training tests: tools are random directions, queries are turned tools."""

from __future__ import annotations

from pathlib import Path

import lightning.pytorch as pl
import numpy as np
import torch

from toolheads.arrays import normalized
from toolheads.evaluation.ranked import Relevant
from toolheads_train.data.corpus import Source, TrainingCorpus, build_corpus
from toolheads_train.data.modules import TensorData
from toolheads_train.data.sampling import SamplingSettings
from toolheads_train.data.validation_set import ValidationSet
from toolheads_train.loop.callbacks import StartingHeadsCompete, best_checkpoint, last_checkpoint
from toolheads_train.loop.metrics_file import MetricsFile
from toolheads_train.loop.module import HeadsModule
from toolheads_train.settings import HeadSettings, LossSettings, OptimizerSettings

WIDTH = 16

HARMLESS = (
    "ignore:.*LeafSpec.*:DeprecationWarning",
    "ignore:.*LeafSpec.*:FutureWarning",
    "ignore:.*Checkpoint directory.*exists and is not empty",
    "ignore:.*your dataloader is not resumable.*",
    "ignore:.*no pre-optimization state was saved.*",
    "ignore:.*callbacks used to create the checkpoint need to be provided.*",
)
"""Warnings of Lightning about itself, and about a run that goes on in its own folder."""


def unit(n, d=WIDTH, seed=0):
    return normalized(np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32))


def turned(tools, seed=1, strength=0.5):
    """The same turn for every tool: what a head can learn."""
    d = tools.shape[1]
    turn = np.eye(d) + strength * np.random.default_rng(seed).normal(size=(d, d))
    return normalized((tools @ turn).astype(np.float32))


def pairs(n=64, name="toy", seed=0, **more) -> Source:
    tools = unit(n, seed=seed)
    return Source(
        name=name,
        queries=turned(tools),
        tools=tools,
        groups=[f"{name} {row}" for row in range(n)],
        positives=[[row] for row in range(n)],
        **more,
    )


def validation_of(source: Source, rows=None) -> ValidationSet:
    rows = range(len(source.queries)) if rows is None else rows
    positives = [source.positives[row] for row in rows]
    offsets = np.cumsum([0, *map(len, positives)])
    flat = np.array([row for one in positives for row in one], dtype=np.int64)
    return ValidationSet(
        name=source.name,
        queries=torch.from_numpy(source.queries[list(rows)]),
        tools=torch.from_numpy(source.tools)[:, None],
        relevant=Relevant(offsets.astype(np.int64), flat, np.ones_like(flat)),
    )


def toy_data(*, batch_size=16, steps=10, chunk=5, seed=0, corpus: TrainingCorpus | None = None):
    source = pairs()
    return TensorData(
        build_corpus([source]) if corpus is None else corpus,
        [validation_of(source)],
        SamplingSettings(batch_size=batch_size, steps_per_epoch=steps),
        seed=seed,
        chunk_steps=chunk,
    )


def toy_module(*, lr=1e-2, hidden=(8,), seed=0, mask_margin=None, **loss):
    torch.manual_seed(seed)
    return HeadsModule(
        HeadSettings(hidden=hidden),
        LossSettings(mask_margin=mask_margin, **loss),
        OptimizerSettings(lr=lr),
    )


def trainer(folder: Path | None, *, epochs=3, callbacks=(), **settings) -> pl.Trainer:
    """A quiet CPU trainer; with a folder, one that writes checkpoints and metrics there."""
    checkpoints = []
    if folder is not None:
        checkpoints = [best_checkpoint(str(folder)), last_checkpoint(str(folder))]
    defaults = {
        "accelerator": "cpu",
        "devices": 1,
        "max_epochs": epochs,
        "logger": False if folder is None else MetricsFile(folder),
        "callbacks": [StartingHeadsCompete(), *callbacks, *checkpoints],
        "enable_checkpointing": folder is not None,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "num_sanity_val_steps": 0,
        "log_every_n_steps": 1,
    }
    return pl.Trainer(**{**defaults, **settings})


def weights_of(module: HeadsModule):
    return {name: value.detach().clone() for name, value in module.heads.state_dict().items()}


def same(one, two, **tolerance) -> bool:
    return one.keys() == two.keys() and all(
        torch.allclose(one[name], two[name], **tolerance) if tolerance
        else torch.equal(one[name], two[name])
        for name in one
    )  # fmt: skip
