"""Drives toolheads, in its own environment: the same measurements as `callbus_side`."""

from __future__ import annotations

import argparse
import json
import logging
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.ancestor.exchange import VectorTable, pairs_of, percentiles_ms, write_json

from toolheads.arrays import Floats
from toolheads.data import read_tools
from toolheads.embedder import Embedder
from toolheads.heads import Architecture, Head, Heads, HeadsHeader, load_heads, save_heads
from toolheads.identity import PROBE_TEXTS, EncoderIdentity, Fingerprint
from toolheads.scorers.clm import CLMScorer
from toolheads.texts import TextSettings


def main() -> None:
    """Run one command; the result is a JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(required=True)
    speed = commands.add_parser("speed", help="time the trainer")
    speed.add_argument("--config", type=Path, required=True)
    speed.add_argument("--pairs", required=True, help="random:WIDTH or a file")
    speed.add_argument("--count", type=int, required=True)
    speed.add_argument("--epochs", type=int, default=5)
    speed.add_argument("--batch", type=int, default=512)
    speed.add_argument("--seed", type=int, default=0)
    speed.add_argument("--device", default="cpu")
    speed.set_defaults(run=_speed)
    made = commands.add_parser("make-heads", help="heads with random weights")
    made.add_argument("--width", type=int, required=True)
    made.add_argument("--hidden", type=int, nargs="+", required=True)
    made.add_argument("--heads", type=Path, required=True)
    made.set_defaults(run=_make_heads)
    search = commands.add_parser("search", help="time the scorer in process")
    search.add_argument("--catalogue", type=Path, required=True)
    search.add_argument("--heads", required=True, metavar="NAME|FILE")
    search.set_defaults(run=_search)
    for one in (speed, made, search):
        one.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    write_json(args.out, args.run(args))


def _speed(args: argparse.Namespace) -> dict[str, Any]:
    """Seconds of each epoch, without validation and checkpoints."""
    import lightning.pytorch as pl
    from benchmarks.ancestor.recipe import heads_module

    from toolheads_train.data.corpus import Source, build_corpus
    from toolheads_train.data.modules import TensorData
    from toolheads_train.data.sampling import SamplingSettings

    class Clock(pl.Callback):
        def __init__(self) -> None:
            self.epochs: list[tuple[float, float]] = []
            self._began = self._now()

        def on_train_epoch_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
            self._began = self._now()

        def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
            (wall, cpu), (wall_0, cpu_0) = self._now(), self._began
            self.epochs.append((wall - wall_0, cpu - cpu_0))

        @staticmethod
        def _now() -> tuple[float, float]:
            return time.perf_counter(), time.process_time()

    pairs = pairs_of(args.pairs, args.count, args.seed)
    names = [str(row) for row in range(len(pairs.tools))]
    corpus = build_corpus([Source("pairs", pairs.queries, pairs.tools, names, pairs.positives)])
    # One pass over the pairs is an epoch here, whatever a pass is in the config.
    sampling = SamplingSettings(batch_size=args.batch, power=1.0)
    pl.seed_everything(args.seed, verbose=False)
    clock = Clock()
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    trainer = pl.Trainer(
        accelerator="gpu" if args.device == "cuda" else "cpu",
        devices=1,
        max_epochs=args.epochs,
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[clock],
    )
    data = TensorData(corpus, [], sampling, seed=args.seed, chunk_steps=25)
    trainer.fit(heads_module(args.config), datamodule=data)
    wall, cpu = (list(column) for column in zip(*clock.epochs, strict=True))
    found = {"pairs": len(pairs.queries), "epoch_s": wall, "epoch_cpu_s": cpu}
    return {**found, **_versions("torch", "lightning")}


def _make_heads(args: argparse.Namespace) -> dict[str, Any]:
    """For timing alone: a search costs the same whatever the weights are."""
    shape = Architecture(args.width, hidden=tuple(args.hidden), hidden_norm=len(args.hidden) > 1)
    rng = np.random.default_rng(0)
    weights = {
        name: rng.normal(scale=0.01, size=size).astype(np.float32)
        for name, size in shape.shapes.items()
    }
    identity = EncoderIdentity("random", "", "mean", 0, args.width, "float32")
    header = HeadsHeader(Fingerprint(identity, TextSettings()))
    head = Head(shape, 1.0, weights)
    probe = np.eye(len(PROBE_TEXTS), args.width, dtype=np.float32)
    args.heads.parent.mkdir(parents=True, exist_ok=True)
    return {"sha256": save_heads(args.heads, Heads(head, head, header, probe))}


class _TableEncoder:
    """The encoder port over the table. The probe is the one of the heads: whether the vectors are
    theirs is not what is measured."""

    def __init__(self, table: VectorTable, heads: Heads) -> None:
        self._table = table
        self._probe = dict(zip(PROBE_TEXTS, heads.probe, strict=True))
        self.identity = heads.fingerprint.encoder

    def encode(self, texts: Sequence[str]) -> Floats:
        if texts and texts[0] in self._probe:
            return np.stack([self._probe[text] for text in texts])
        return self._table.rows(texts)

    def close(self) -> None:
        """Nothing is open."""


def _search(args: argparse.Namespace) -> dict[str, Any]:
    """`CLMScorer.search`, which the command line and the facade answer with."""
    requests = json.loads((args.catalogue / "requests.json").read_text(encoding="utf-8"))
    heads = load_heads(args.heads, allow_unverified=True)
    embedder = Embedder(
        _TableEncoder(VectorTable.load(args.catalogue / "table"), heads), heads.texts
    )
    scorer = CLMScorer(heads, embedder)
    tools = read_tools(args.catalogue / "toolheads" / "tools.jsonl")
    began = time.perf_counter()
    scorer.index(tools)
    indexed = time.perf_counter() - began
    for text in requests[:20]:
        scorer.search(text)
    seconds, shown, cpu = [], 0, time.process_time()
    for text in requests:
        began = time.perf_counter()
        hits = scorer.search(text)
        seconds.append(time.perf_counter() - began)
        shown += len(hits)
    return {
        "tools": len(tools),
        "requests": len(requests),
        "index_s": indexed,
        "cpu_ms": 1000 * (time.process_time() - cpu) / len(requests),
        "mean_hits": shown / len(requests),
        **percentiles_ms(seconds),
        **_versions(),
    }


def _versions(*more: str) -> dict[str, str]:
    from importlib.metadata import version

    return {f"version:{name}": version(name) for name in ("toolheads", "numpy", *more)}


if __name__ == "__main__":
    main()
