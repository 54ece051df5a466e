"""Draws the pictures of docs/training.md from a finished run on the sample catalogue.

    make quickstart && .venv/bin/python docs/pictures/make.py

Reads the run folder (metrics, config, best checkpoint) and repeats its calibration, which is not
random, to show everything that was tried. The pictures are those that a run draws itself, but for
the gains, where the servers of the sample stand for data sets, and for the share of what was
learned.
"""

# ruff: noqa: TID251, T201  (reads a run of the trainer, and says what it wrote)

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import yaml
from PIL import Image

from toolheads.bootstrap import EncoderSettings
from toolheads.evaluation.ranked import Relevant
from toolheads_train.data.folders import FolderSettings, load_folders
from toolheads_train.data.selection import ValidationSettings
from toolheads_train.data.validation_set import ValidationSet
from toolheads_train.loop.checkpoints import heads_from_checkpoint
from toolheads_train.loop.metrics_file import METRICS_FILE, read_metrics
from toolheads_train.loop.module import MONITOR
from toolheads_train.outcome import plots
from toolheads_train.outcome.calibration import Calibration, CalibrationSettings, calibrate

HERE = Path(__file__).parent
VIEWS = {"text": 1.0}
COLORS = 64
"""Of a picture: line drawings need no more, and are a third of the size."""


def main() -> int:
    """Draw all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path, default=Path("quickstart-run/train"))
    parser.add_argument("--out", type=Path, default=HERE)
    args = parser.parse_args()
    config = yaml.safe_load((args.run / "config.yaml").read_text())
    best = torch.load(args.run / "checkpoints" / "best.ckpt", map_location="cpu", weights_only=True)
    heads = heads_from_checkpoint(str(args.run / "checkpoints" / "best.ckpt"))
    settings = CalibrationSettings(**config["calibration"])
    loaded = load_folders(_folders(config["data"], settings), seed=0, label_free=False)
    found = calibrate(heads, loaded.validation_sets, VIEWS, settings)
    (whole,) = loaded.validation_sets
    queries = [query for one in loaded.selection.datasets for query in one.validation]
    servers = [query.relevant[0].partition("/")[0] for query in queries]
    by_server = calibrate(heads, _by_server(whole, servers), VIEWS, fixed(settings, found))

    rows = read_metrics(args.run / METRICS_FILE)
    plots.plot_curves(
        args.out / "curves.png",
        [(step, row["train/loss"]) for step, row in sorted(rows.items()) if "train/loss" in row],
        {"": [(step, row[MONITOR]) for step, row in sorted(rows.items()) if MONITOR in row]},
        best_step=int(best["global_step"]),
    )
    plots.plot_gains(args.out / "gains.png", _ndcg(by_server.frozen), _ndcg(by_server.chosen))
    plots.plot_cutoff(
        args.out / "cutoff.png", found.margins, chosen=found.cutoff.margin, fixed=found.fixed
    )
    plot_shares(args.out / "share.png", found.shares, chosen=found.share)
    for path in args.out.glob("*.png"):
        Image.open(path).convert("RGB").quantize(COLORS).save(path, optimize=True)
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")
    return 0


def fixed(settings: CalibrationSettings, found: Calibration) -> CalibrationSettings:
    """Settings that try nothing but what was chosen."""
    fusion = found.fusion
    lexical = fusion.lexical if fusion else None
    hubness = fusion.hubness if fusion else None
    return replace(
        settings,
        alphas=(found.share,),
        tool_weights=(dict(found.views.tool),),
        clause_weights=(found.views.query.get("clause", 0.0),),
        clause_temperatures=(fusion.clause_temperature,) if fusion else (),
        lexical_weights=(lexical.weight,) if lexical else (),
        lexical_fields=(dict(lexical.fields),) if lexical else settings.lexical_fields,
        hubness_weights=(hubness.weight,) if hubness else (),
    )


def plot_shares(path: Path, shares: Mapping[float, float], *, chosen: float) -> None:
    """Draw the metric over the share of what was learned; 0 is the frozen embedding."""
    with plots._figure(path, 1, width=8.0, height=3.4) as (_, (axes,)):
        axes.set_title("How much of what was learned to keep, validation data")
        axes.set_xlabel("share of what was learned")
        axes.set_ylabel("nDCG@10")
        axes.plot(*zip(*sorted(shares.items()), strict=True), color=plots._BLUE, marker="o")
        axes.plot(
            [chosen],
            [shares[chosen]],
            color=plots._ORANGE,
            marker="o",
            markersize=9,
            linestyle="none",
            label=f"kept: {chosen:g}, {shares[chosen]:.3f}",
        )
        axes.legend(loc="lower right")


def _folders(data: Mapping[str, object], settings: CalibrationSettings) -> FolderSettings:
    """The data of the run, with the views that its calibration tries."""
    return FolderSettings(
        root=tuple(data["root"]),
        cache=data["cache"],
        encoder=EncoderSettings(**data["encoder"]),
        validation=ValidationSettings(**data["validation"]),
        validation_views=settings.views,
        min_jaccard=data["min_jaccard"],
        min_cosine=data["min_cosine"],
    )


def _by_server(whole: ValidationSet, servers: Sequence[str]) -> list[ValidationSet]:
    """One validation set for the requests of each server; all rank the whole catalogue."""
    return [
        _part(whole, server, [row for row, name in enumerate(servers) if name == server])
        for server in sorted(set(servers))
    ]


def _part(whole: ValidationSet, name: str, rows: Sequence[int]) -> ValidationSet:
    """Some queries of a validation set."""
    clauses, offsets = whole.clauses, np.array(whole.clause_offsets)
    spans = [np.arange(offsets[row], offsets[row + 1]) for row in rows]
    relevant, starts = whole.relevant, whole.relevant.offsets
    judged = [np.arange(starts[row], starts[row + 1]) for row in rows]
    at = np.concatenate(judged)
    return replace(
        whole,
        name=name,
        queries=whole.queries[list(rows)],
        clauses=None if clauses is None else clauses[np.concatenate(spans)],
        clause_offsets=tuple(np.cumsum([0, *map(len, spans)]).tolist()),
        texts=tuple(whole.texts[row] for row in rows) if whole.texts else (),
        relevant=Relevant(
            np.cumsum([0, *map(len, judged)]), relevant.rows[at], relevant.grades[at]
        ),
    )


def _ndcg(found: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    return {name: values["ndcg@10"] for name, values in found.items()}


if __name__ == "__main__":
    sys.exit(main())
