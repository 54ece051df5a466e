"""Heads for one catalogue with labelled requests of its own, beside what a team would try first.

    python -m benchmarks.in_domain.run DATA [--cache DIR] [--work DIR] [--only NAME ...]
        [--heads NAME|FILE] [--without-all] [OPTION ...]

For each data set of DATA that has training and test requests: frozen vectors, nearest training
requests, a logistic-regression probe on frozen vectors, the general heads, heads of
`configs/in-domain.yaml` trained on that data set alone (as they are served, and without the views,
clauses and words that serving adds), and one heads file trained on all of them.
nDCG@10 on the test requests, over the whole catalogue; apart for requests whose tools all occur in
training requests (what a probe can know) and for the others. The probe's L2 strength, the number of
neighbours and the heads' checkpoint are chosen on the same tenth of the training requests. The
probe puts the tools it has seen above all others, which have their frozen cosine among themselves.

At most 5,000 training requests of a data set are used, the same for all systems. Each OPTION
(`--model.optimizer.lr=1e-3`) goes to the trainer. Trained heads and fitted probes are kept in the
work folder, and what is there is not made again. Seconds are CPU seconds of one thread.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from benchmarks.in_domain.probe import Chosen, Labelled, choose_neighbours, choose_probe
from benchmarks.in_domain.table import (
    ALL,
    FROZEN,
    GENERAL,
    NEAREST,
    OWN,
    OWN_ALONE,
    PROBE,
    Measured,
    render,
)

import toolheads
from toolheads.arrays import Floats
from toolheads.bootstrap import EncoderSettings, make_encoder
from toolheads.data import Dataset, read_dataset
from toolheads.data.datasets import QUERIES_FILE, dataset_folders
from toolheads.domain import Query
from toolheads.durable import write_whole
from toolheads.embedder import Embedder
from toolheads.evaluation.evaluate import evaluate
from toolheads.evaluation.ranked import Relevant, ranked_metrics
from toolheads.evaluation.report import machine_kind
from toolheads.evaluation.settings import EvaluationSettings
from toolheads.heads import load_heads
from toolheads.texts import TextSettings
from toolheads_train.cli import main as train
from toolheads_train.data.embedding import embed_selection
from toolheads_train.data.folders import FolderSettings, read_selection
from toolheads_train.data.selection import ValidationSettings

CONFIG = Path(__file__).parents[2] / "configs" / "in-domain.yaml"
METRIC = "ndcg@10"
SEED = 0
MOST = 5_000
"""Training requests of one data set."""
VALIDATION = ValidationSettings(by="query", share=0.1, max_queries=500, min_queries=20)
MIN_COSINE = 0.97
EPOCHS_OF_ALL = 60
"""For the heads of all sets, which have as many requests as all of them together."""


@dataclass(frozen=True)
class Prepared:
    """One data set with its vectors."""

    dataset: Dataset
    labelled: Labelled
    tools: Floats
    validation: Floats
    validation_relevant: Relevant
    test: tuple[Query, ...]
    test_vectors: Floats


@dataclass(frozen=True)
class Trained:
    """Heads of one training."""

    heads: Path
    cpu_s: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".cache/toolheads"))
    parser.add_argument("--work", type=Path, default=Path("runs/in-domain"))
    parser.add_argument("--only", nargs="+", metavar="NAME", help="default: all that can be used")
    parser.add_argument("--heads", default="minilm", metavar="NAME|FILE", help="general heads")
    parser.add_argument("--without-all", action="store_true", help="no heads of all sets")
    args, options = parser.parse_known_args()
    torch.set_num_threads(1)
    folders = _usable(args.data, args.only)
    own = {folder.name: _train(folder.name, [folder], args, options) for folder in folders}
    of_all = None
    if not args.without_all:
        more = [f"--trainer.max_epochs={EPOCHS_OF_ALL}"]
        of_all = _train("of-all-sets", folders, args, [*options, *more])
    encoder = make_encoder(EncoderSettings())
    embedder = Embedder(encoder, TextSettings(), args.cache)
    found = []
    for folder in folders:
        found.append(_measured(folder, embedder, args, own[folder.name], of_all))
        _tell(f"{folder.name}: measured")
    encoder.close()
    kind = ", ".join(str(value) for value in machine_kind().values())
    seconds = "" if of_all is None else f" Heads of all sets trained for {of_all.cpu_s:.0f} CPU s."
    print(render(found, f"{kind}; one thread, seed {SEED}, all-MiniLM-L6-v2.{seconds}"))
    return 0


def _usable(data: Path, only: Sequence[str] | None) -> list[Path]:
    """Folders of data sets that have training and test requests."""
    folders = [f for f in dataset_folders(data) if (f / QUERIES_FILE).exists()]
    folders = [f for f in folders if only is None or f.name in only]
    usable = []
    for folder in folders:
        dataset = read_dataset(folder)
        if all(any(q.relevant for q in dataset.split(split)) for split in ("train", "test")):
            usable.append(folder)
    if not usable:
        sys.exit(f"DATA must hold data sets with training and test requests, got none in {data}")
    return usable


def _train(
    name: str, folders: Sequence[Path], args: argparse.Namespace, options: Sequence[str]
) -> Trained:
    """Train heads on some data sets, unless the work folder has them."""
    folder = args.work / name
    took = folder / "cpu_s.json"
    if not took.exists():
        words = [
            *("fit", "--config", str(CONFIG), "--name", name, "--runs", str(args.work)),
            *("--overwrite", "true", f"--data.root=[{','.join(map(str, folders))}]"),
            *(f"--data.cache={args.cache}", f"--data.max_queries={MOST}"),
            f"--data.validation.by={VALIDATION.by}",
            f"--data.validation.share={VALIDATION.share}",
            f"--data.validation.max_queries={VALIDATION.max_queries}",
            f"--data.validation.min_queries={VALIDATION.min_queries}",
            *(f"--data.min_cosine={MIN_COSINE}", f"--seed_everything={SEED}"),
            *(f"--data.seed={SEED}", "--trainer.accelerator=cpu"),
            *("--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false"),
            *options,
        ]
        began = time.process_time()
        if train(words):
            sys.exit(f"{name}: the training ended with an error")
        write_whole(took, json.dumps(time.process_time() - began).encode())
        _tell(f"{name}: trained")
    return Trained(folder / "heads.npz", float(json.loads(took.read_text())))


def _measured(
    folder: Path,
    embedder: Embedder,
    args: argparse.Namespace,
    own: Trained,
    of_all: Trained | None,
) -> Measured:
    """Baselines and heads on the test requests of one data set."""
    p = _prepared(folder, embedder)
    row_of = {tool.id: row for row, tool in enumerate(p.dataset.tools)}
    relevant = Relevant.from_qrels([query.relevance for query in p.test], row_of)
    values, chosen, cpu_s = _baselines(p, relevant, args.work / folder.name / "baselines.json")
    alone = load_heads(own.heads)
    scores = alone.state(p.test_vectors) @ alone.action(p.tools).T
    values |= {
        FROZEN: _metric(p.test_vectors @ p.tools.T, relevant).tolist(),
        GENERAL: _of_heads(args.heads, p, embedder, args.cache),
        OWN_ALONE: _metric(scores, relevant).tolist(),
        OWN: _of_heads(own.heads, p, embedder, args.cache),
    }
    if of_all is not None:
        values[ALL] = _of_heads(of_all.heads, p, embedder, args.cache)
    seen = set(p.labelled.seen.tolist())
    return Measured(
        name=folder.name,
        train=len(p.labelled.queries),
        validation=len(p.validation),
        tools=len(p.tools),
        seen_tools=len(seen),
        seen=tuple(all(row_of[tool] in seen for tool in query.relevant) for query in p.test),
        values={name: tuple(one) for name, one in values.items()},
        chosen=chosen,
        cpu_s={**cpu_s, OWN: own.cpu_s},
    )


def _baselines(
    p: Prepared, relevant: Relevant, stored: Path
) -> tuple[dict[str, list[float]], dict[str, float], dict[str, float]]:
    """Values of probe and neighbours, what was chosen, seconds; kept, as a probe takes long."""
    if not stored.exists():

        def on_validation(scores: Floats) -> float:
            return float(_metric(scores, p.validation_relevant).mean())

        given = (p.labelled, p.tools, p.validation, on_validation, p.test_vectors)
        values, chosen, cpu_s = {}, {}, {}
        choosers: dict[str, Callable[..., Chosen]] = {
            PROBE: choose_probe,
            NEAREST: choose_neighbours,
        }
        for name, choose in choosers.items():
            began = time.process_time()
            one = choose(*given)
            cpu_s[name] = time.process_time() - began
            values[name] = _metric(one.scores, relevant).tolist()
            chosen[name] = float(one.setting)
        write_whole(stored, json.dumps([values, chosen, cpu_s]).encode())
    values, chosen, cpu_s = json.loads(stored.read_text())
    return values, chosen, cpu_s


def _prepared(folder: Path, embedder: Embedder) -> Prepared:
    """The data set as the trainer selects it: the same requests train and validate."""
    settings = FolderSettings(
        root=(str(folder),), validation=VALIDATION, min_cosine=MIN_COSINE, max_queries=MOST
    )
    (dataset,), selection = read_selection(settings, seed=SEED)
    selection, corpus, (validation,) = embed_selection(
        selection,
        embedder,
        views=("text",),
        label_free=False,
        seed=SEED,
        test=[query.text for query in dataset.split("test")],
        min_cosine=MIN_COSINE,
    )
    test = tuple(query for query in dataset.split("test") if query.relevant)
    positives = corpus.positives
    return Prepared(
        dataset=dataset,
        labelled=Labelled(
            corpus.queries.numpy(), positives.offsets.numpy(), positives.values.numpy()
        ),
        tools=corpus.tools[:, 0].numpy(),
        validation=validation.queries.numpy(),
        validation_relevant=validation.relevant,
        test=test,
        test_vectors=embedder.queries([query.text for query in test], with_clauses=False).whole,
    )


def _of_heads(heads: Path | str, p: Prepared, embedder: Embedder, cache: Path) -> list[float]:
    """nDCG@10 of each test request, of heads as they are served."""
    scorer = toolheads.load_scorer(heads, embedder.encoder, cache=cache)
    report = evaluate(scorer, p.dataset, EvaluationSettings(metrics=(METRIC,)))
    if report.query_ids != tuple(query.id for query in p.test):
        msg = f"{p.dataset.name} must be evaluated on the same requests by all systems"
        raise RuntimeError(msg)
    return [float(value) for value in report.values[METRIC]]


def _metric(scores: Floats, relevant: Relevant) -> Floats:
    """(t, n) scores → (t,) nDCG@10."""
    top = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    return ranked_metrics(top, relevant, (METRIC,))[METRIC].astype(np.float32)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
