"""Drives callbus, in its own environment: its trainer, its heads, its retriever.

Everything that is measured here is callbus's own code with its own defaults; this file only hands
it vectors that are there already.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.ancestor.exchange import (
    Pairs,
    Rows,
    VectorTable,
    pairs_of,
    percentiles_ms,
    write_json,
)

DEV = "dev.NDCG@10"


def main() -> None:
    """Run one command; the result is a JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(required=True)
    speed = commands.add_parser("speed", help="time its trainer")
    speed.add_argument("--pairs", required=True, help="random:WIDTH or a file")
    speed.add_argument("--count", type=int, required=True)
    speed.set_defaults(run=_speed)
    train = commands.add_parser("train", help="train its heads and project the test sets")
    train.add_argument("--exchange", type=Path, required=True)
    train.add_argument("--heads", type=Path, required=True)
    train.set_defaults(run=_train)
    for one in (speed, train):
        one.add_argument("--epochs", type=int, default=5)
        one.add_argument("--batch", type=int, default=512)
        one.add_argument("--seed", type=int, default=0)
        one.add_argument("--device", default="cpu")
    made = commands.add_parser("make-heads", help="heads of its default shape, random weights")
    made.add_argument("--width", type=int, required=True)
    made.add_argument("--heads", type=Path, required=True)
    made.set_defaults(run=_make_heads)
    search = commands.add_parser("search", help="time its retriever in process")
    search.add_argument("--catalogue", type=Path, required=True)
    search.add_argument("--heads", type=Path, required=True)
    search.set_defaults(run=_search)
    for one in (speed, train, made, search):
        one.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    write_json(args.out, args.run(args))


def _config(args: argparse.Namespace) -> Any:
    """What `callbus finetune` trains with unless it is told otherwise; the skip heads are its
    default shape, and no mined negatives are given."""
    from callbus.finetune import TrainConfig

    return TrainConfig(
        epochs=args.epochs,
        batch=args.batch,
        neg_per_pair=0,
        lr=1e-5,
        weight_decay=0.01,
        warmup=0.05,
        seed=args.seed,
        device=args.device,
        head_cfg={"width": 1536, "depth": 3, "skip": True},
    )


def _batches(pairs: Pairs) -> Any:
    from callbus.finetune import Batches

    positives = pairs.positives
    return Batches(pairs.queries, pairs.tools, positives, [[] for _ in positives])


def _speed(args: argparse.Namespace) -> dict[str, Any]:
    """Seconds of each epoch, evaluation left out: the callback ends each epoch at once."""
    from callbus.finetune import train_heads

    pairs = pairs_of(args.pairs, args.count, args.seed)
    ends: list[tuple[float, float]] = []

    def on_epoch(epoch: int, state: Any, action: Any) -> dict[str, float]:
        ends.append((time.perf_counter(), time.process_time()))
        return {DEV: 0.0}

    train_heads(_batches(pairs), None, _config(args), on_epoch=on_epoch, log=_tell, select=DEV)
    wall, cpu = np.diff(ends, axis=0).T.tolist()
    return {"pairs": len(pairs.queries), "epoch_s": wall, "epoch_cpu_s": cpu, **_versions()}


def _train(args: argparse.Namespace) -> dict[str, Any]:
    """Its trainer, with the epoch chosen by its own scoring of our validation sets.

    callbus takes one development set; the mean over several is what toolheads chooses by, so both
    choose by the same.
    """
    import torch
    from callbus.adapters.heads_np import NumpyHeads, export_npz
    from callbus.finetune import project, train_heads

    sets = [_eval_set(path) for path in sorted((args.exchange / "validation").glob("*.npz"))]

    def on_epoch(epoch: int, state: Any, action: Any) -> dict[str, float]:
        def states(x: Rows) -> Rows:
            rows: Rows = project(state, x, args.device)
            return rows

        def actions(x: Rows) -> Rows:
            rows: Rows = project(action, x, args.device)
            return rows

        found = [one.score(states, actions).overall["NDCG@10"] for one in sets]
        return {DEV: float(np.mean(found))}

    began = time.perf_counter()
    checkpoint, history = train_heads(
        _batches(Pairs.load(args.exchange / "train.npz")),
        None,
        _config(args),
        on_epoch=on_epoch,
        log=_tell,
        select=DEV,
    )
    seconds = time.perf_counter() - began
    torch.save(checkpoint, args.heads.with_suffix(".pt"))
    sha256 = export_npz(args.heads.with_suffix(".pt"), args.heads)
    heads = NumpyHeads(args.heads)
    for path in sorted((args.exchange / "test").glob("*.npz")):
        pairs = Pairs.load(path)
        projected = dataclasses.replace(
            pairs,
            queries=heads.project_states(pairs.queries),
            tools=heads.project_actions(pairs.tools),
        )
        projected.save(args.exchange / "callbus" / path.name)
    return {
        "sha256": sha256,
        "best_epoch": checkpoint["cfg"]["best_epoch"],
        "history": history,
        "seconds": seconds,
        **_versions(),
    }


def _eval_set(path: Path) -> Any:
    from callbus.domain import Query
    from callbus.finetune import EvalSet

    pairs = Pairs.load(path)
    queries = [
        Query(str(i), "", {str(row): grade for row, grade in one.items()})
        for i, one in enumerate(pairs.relevant)
    ]
    ids = [str(row) for row in range(len(pairs.tools))]
    return EvalSet(path.stem, queries, ids, pairs.tools, pairs.queries)


def _make_heads(args: argparse.Namespace) -> dict[str, Any]:
    """For timing alone: a search costs the same whatever the weights are."""
    import torch
    from callbus.adapters.clm import make_head
    from callbus.adapters.heads_np import export_npz

    torch.manual_seed(0)
    shape = {"width": 1536, "depth": 3, "layernorm": True, "skip": True}
    heads = [make_head(**shape, proj=args.width, hidden=args.width) for _ in range(2)]
    cfg = {**shape, "projection_dim": args.width, "hidden_size": args.width, "activation": "gelu"}
    checkpoint = {
        "state_head": heads[0].state_dict(),
        "action_head": heads[1].state_dict(),
        "logit_scale": torch.tensor(3.0),
        "cfg": cfg,
    }
    args.heads.parent.mkdir(parents=True, exist_ok=True)
    torch.save(checkpoint, args.heads.with_suffix(".pt"))
    return {"sha256": export_npz(args.heads.with_suffix(".pt"), args.heads)}


class _TableEncoder:
    """Its encoder port, over the table."""

    name = "table"

    def __init__(self, table: VectorTable) -> None:
        self._table = table

    def encode(self, texts: Sequence[str], *, kind: str = "document") -> Rows:
        return self._table.rows(texts)


def _search(args: argparse.Namespace) -> dict[str, Any]:
    """`Retriever.search`, which its command line and its server answer with."""
    from callbus.adapters.clm import CLMScorer
    from callbus.adapters.heads_np import NumpyHeads
    from callbus.adapters.index_numpy import NumpyIndex
    from callbus.cut import DEFAULT_MARGIN, AdaptiveK
    from callbus.retriever import Retriever, tidy

    requests = json.loads((args.catalogue / "requests.json").read_text(encoding="utf-8"))
    table = VectorTable.load(args.catalogue / "table")
    encoder = _TableEncoder(table.also(requests, [tidy(text) for text in requests]))
    heads = NumpyHeads(args.heads)
    began = time.perf_counter()
    retriever = Retriever(
        args.catalogue / "callbus",
        lambda: CLMScorer(encoder, heads, "documentation", "plain", index=NumpyIndex()),
        rule=AdaptiveK(margin=DEFAULT_MARGIN),
    )
    indexed = time.perf_counter() - began
    for text in requests[:20]:
        retriever.search(text)
    seconds, shown, cpu = [], 0, time.process_time()
    for text in requests:
        began = time.perf_counter()
        result = retriever.search(text)
        seconds.append(time.perf_counter() - began)
        shown += len(result.hits)
    tools = len(retriever.tools())
    return {
        "tools": tools,
        "requests": len(requests),
        "index_s": indexed,
        "cpu_ms": 1000 * (time.process_time() - cpu) / len(requests),
        "mean_hits": shown / len(requests),
        **percentiles_ms(seconds),
        **_versions(),
    }


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {f"version:{name}": version(name) for name in ("callbus", "numpy", "torch")}


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
