"""What a run says of itself, as JSON: its config, its data, what was left out, what was chosen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from toolheads.data.datasets import dataset_folders
from toolheads_train.data.folders import LoadedFolders
from toolheads_train.data.modules import FolderData
from toolheads_train.outcome.calibration import Calibration
from toolheads_train.outcome.card import DataRecord, licence_of

_PLACES = ("root", "cache", "overlap")
"""Settings of data that say where things are on one machine: no part of a heads file."""

_TRAINER = (
    *("precision", "max_epochs", "max_steps", "deterministic", "check_val_every_n_epoch"),
    *("val_check_interval", "accumulate_grad_batches", "num_nodes"),
)
"""Settings of the Trainer that can change a weight; the others are about how it is shown."""


def portable(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a resolved config that makes heads what they are: no places, no addresses."""
    found = {name: config[name] for name in ("model", "calibration", "patience") if name in config}
    data = {n: v for n, v in config.get("data", {}).items() if n not in _PLACES}
    if "encoder" in data:
        data["encoder"] = {"kind": data["encoder"].get("kind")}
    trainer = config.get("trainer", {})
    trainer = {n: trainer[n] for n in _TRAINER if trainer.get(n) is not None}
    found |= {"data": data, "trainer": trainer}
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def chosen(calibration: Calibration) -> dict[str, Any]:
    """What calibration chose and measured, JSON types only, to six digits."""
    cutoff = calibration.cutoff
    point = next(p for p in calibration.margins if p.margin == cutoff.margin)
    measured = {
        which: {
            name or "mean": {metric: round(value, 6) for metric, value in values.items()}
            for name, values in table.items()
        }
        for which, table in (
            ("frozen", calibration.frozen),
            ("trained", calibration.trained),
            ("heads", calibration.chosen),
        )
    }
    shown = {name: round(value, 6) for name, value in asdict(point).items()}
    return {
        "share": calibration.share,
        "views": calibration.views.to_json(),
        **({} if calibration.fusion is None else {"fusion": calibration.fusion.to_json()}),
        "cutoff": cutoff.to_json(),
        "adaptive": shown,
        "metrics": measured,
    }


def trust_of(loaded: LoadedFolders | None) -> dict[str, Any]:
    """What was left out for being too near a held-out set, and what is near all the same."""
    if loaded is None:
        return {}
    counts = loaded.selection.counts.items()
    return {
        "left_out": {why: count for why, count in counts if count},
        "near_vectors": dict(loaded.selection.near),
        "shared_tools": {name: one.to_json() for name, one in loaded.shared.items()},
    }


def records_of(data: FolderData) -> tuple[list[DataRecord], list[str]]:
    """Data sets that were used, and the names of those that were only guarded."""
    loaded = data.loaded
    if loaded is None:
        return [], []
    folders = {one.resolve().name: one for one in dataset_folders(data.folders.folders)}
    used = {one.dataset.name: one.dataset for one in loaded.selection.datasets}
    label_free = _label_free_counts(loaded)
    used |= {d.name: d for d, _ in loaded.selection.catalogues if d.name in label_free}
    queries = {one.dataset.name: one for one in loaded.selection.datasets}
    records = [
        DataRecord(
            name=name,
            tools=len(dataset.tools),
            train=len(queries[name].train) if name in queries else 0,
            validation=len(queries[name].validation) if name in queries else 0,
            label_free=label_free.get(name, 0),
            sha256=dict(sorted(dataset.digest.items())),
            licence=licence_of(folders[name]) if name in folders else "",
        )
        for name, dataset in sorted(used.items())
    ]
    read = {key.rpartition("/")[0] for key in loaded.digests if "/" in key}
    return records, sorted(read - set(used))


def _label_free_counts(loaded: LoadedFolders) -> dict[str, int]:
    """Catalogue → pairs made of it, of whatever kind."""
    corpus = loaded.corpus
    sizes = np.diff(corpus.source_offsets).tolist()
    rows = zip(corpus.names, sizes, corpus.label_free, strict=True)
    counts: dict[str, int] = {}
    for name, size, free in rows:
        if free:
            catalogue = name.rpartition(" (label-free")[0]
            counts[catalogue] = counts.get(catalogue, 0) + size
    return counts
