"""What each switch of the trainer does to heads alone, on data sets that training never saw.

    python -m benchmarks.recipe.levers DATA [--cache DIR] [--work DIR] [--only NAME ...]

Frozen vectors and heads, without views, clauses and words, so that a change of the heads shows;
measured as `benchmarks.recipe.folds` says. One row for each switch over one base: the mean gain in
nDCG@10 over the frozen vectors, the difference from the base, the worst data set, and the seconds
of both trainings in units of those of the base. The rows of other data seeds, which draw other
batches and other validation requests, say what a difference must exceed to mean anything.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.recipe.folds import FOLDS, Folds, row

from toolheads.bootstrap import make_encoder
from toolheads.data import Dataset
from toolheads.embedder import Embedder
from toolheads.evaluation.evaluate import evaluate
from toolheads.evaluation.settings import EvaluationSettings
from toolheads.heads import Heads, load_heads
from toolheads.scorers.clm import CLMScorer
from toolheads.scorers.dense import DenseScorer
from toolheads_train.data.folders import FolderSettings, read_selection
from toolheads_train.data.selection import ValidationSettings

BASE = "base"
ALONE = (
    "--calibration.alphas=[1.0]",
    "--calibration.tool_weights=[{text: 1.0}]",
    "--calibration.clause_weights=[0.0]",
    "--calibration.lexical_weights=[]",
    "--model.head.hidden=[384]",
    "--data.sampling.batch_size=256",
    "--data.max_queries=3000",
    "--trainer.max_epochs=6",
)
"""Small: 300 steps, at most 3,000 requests of a data set, so that all rows take about an hour."""
SEEDS = tuple(f"data seed {seed}" for seed in (1, 2))
CATALOGUE = ("--model.loss.negatives=catalogue",)
LABEL_FREE = ("--data.sampling.label_free_share=0.3",)


@dataclass(frozen=True)
class Lever:
    """One row: options over the base, and what is made of the base's heads first."""

    options: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    """Words of `toolheads train teach` or `mine`; {heads} is the base's heads file, {all} those of
    all seeds. What is written goes to {out}, which the options may name."""
    soup: str = ""
    """`mean` or `join`: no training, one heads file of those of all seeds."""


LEVERS: dict[str, Lever] = {
    BASE: Lever(),
    **{name: Lever((f"--data.seed={name[-1]}",)) for name in SEEDS},
    "no base-cosine mask": Lever(("--model.loss.mask_margin=null",)),
    "other positives count": Lever(("--model.loss.other_positives=count",)),
    "both directions": Lever(("--model.loss.both_directions=true",)),
    "temperature fixed at 0.05": Lever(("--model.loss.learn_temperature=false",)),
    "learning rate 3e-5": Lever(("--model.optimizer.lr=3e-5",)),
    "own catalogue, exact": Lever(CATALOGUE),
    "own catalogue, one catalogue a batch": Lever((*CATALOGUE, "--data.sampling.by_source=single")),
    "all catalogues, kept 10 steps": Lever(
        (*CATALOGUE, "--model.loss.catalogue=all", "--model.loss.refresh_steps=10")
    ),
    "all catalogues, 4,096 drawn": Lever(
        (*CATALOGUE, "--model.loss.catalogue=all", "--model.loss.catalogue_sample=4096")
    ),
    "tools at 0.95 are the same": Lever(("--model.loss.same_tool_cosine=0.95",)),
    "one data set a batch": Lever(("--data.sampling.by_source=single",)),
    "all tools of a data set alike": Lever(("--data.sampling.tool_power=0.0",)),
    "popularity corrected": Lever(("--model.loss.popularity_correction=1.0",)),
    "30 % label-free, summaries": Lever(LABEL_FREE),
    "30 % label-free, all kinds": Lever(
        (*LABEL_FREE, "--data.label_free_kinds=[summary,name,parameters]")
    ),
    "label-free from 60 % to none": Lever(
        ("--data.sampling.label_free_share=0.6", "--data.sampling.label_free_to=0.0")
    ),
    "30 % composed queries": Lever(("--data.composed_share=0.3",)),
    "same-side terms, 0.5": Lever(("--model.loss.same_side=0.5",)),
    "distance penalty, 1": Lever(("--model.loss.distance_penalty=1.0",)),
    "feature dropout 0.1": Lever(("--model.head.feature_dropout=0.1",)),
    "averaged weights, 0.99": Lever(("--model.ema=0.99",)),
    "centred": Lever(("--model.head.centre=corpus",)),
    "one linear map": Lever(("--model.head.hidden=[]",)),
    "low rank, 64": Lever(("--model.head.hidden=[64]", "--model.head.activation=identity")),
    "widths 64, 128, 256 too": Lever(("--model.head.widths=[64,128,256]",)),
    "query side alone": Lever(("--model.head.freeze_action=true",)),
    "60 % kept": Lever(("--calibration.alphas=[0.6]",)),
    "mined negatives, likely false ones dropped": Lever(
        ("--data.mined={out}", "--data.sampling.hard_negatives=4"), ("mine", "--heads=[{heads}]")
    ),
    "mined negatives, no window": Lever(
        ("--data.mined={out}", "--data.sampling.hard_negatives=4"),
        ("mine", "--heads=[{heads}]", "--mining.margin=0.0"),
    ),
    "distilled from three, kl": Lever(
        ("--data.teacher={out}", "--model.loss.distil=kl", "--model.loss.teacher_temperature=0.05"),
        ("teach", "--heads=[{all}]"),
    ),
    "distilled from three, margins": Lever(
        ("--data.teacher={out}", "--model.loss.distil=margin_mse", "--model.loss.distil_weight=10"),
        ("teach", "--heads=[{all}]"),
    ),
    "mean of three": Lever(soup="mean"),
    "three side by side": Lever(soup="join"),
}
"""A row that makes something of the base's heads, or of all seeds', comes after them."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".cache/toolheads"))
    parser.add_argument("--work", type=Path, default=Path("runs/levers"))
    parser.add_argument("--only", nargs="*", default=None, metavar="NAME", help="base comes first")
    args = parser.parse_args()
    bench = _Levers(Folds(args.data, args.cache, args.work))
    print("| switch | mean gain | worst data set | against base | cost |")
    print("| --- | ---: | ---: | ---: | ---: |", flush=True)
    for name, lever in LEVERS.items():
        if args.only is None or name in (BASE, *args.only):
            print(bench.row(name, lever), flush=True)
    return 0


class _Levers:
    def __init__(self, folds: Folds) -> None:
        self._folds = folds
        self._base, self._base_seconds = 0.0, 0.0

    def row(self, name: str, lever: Lever) -> str:
        gains: dict[str, float] = {}
        seconds = 0.0
        for fold in range(len(FOLDS)):
            if lever.soup:
                gains |= self._of_soup(lever.soup, fold)
                continue
            options = self._made(name, lever, fold)
            start = time.monotonic()
            gains |= self._folds.fit(name, fold, (*ALONE, *options))
            seconds += time.monotonic() - start
        mean = sum(gains.values()) / len(gains)
        if name == BASE:
            self._base, self._base_seconds = mean, seconds
        difference = "" if name == BASE else f"{mean - self._base:+.2f}"
        cost = f"{seconds / self._base_seconds:.1f}" if seconds else "no training"
        return row(name, gains, difference, cost)

    def _seeds(self, fold: int) -> list[str]:
        return [str(self._folds.heads(name, fold)) for name in (BASE, *SEEDS)]

    def _made(self, name: str, lever: Lever, fold: int) -> list[str]:
        """The options of a row, after its file has been made."""
        out = self._folds.work / f"{self._folds.heads(name, fold).parent.name}.jsonl"
        if lever.makes:
            seeds = self._seeds(fold)
            words = [word.format(heads=seeds[0], all=",".join(seeds)) for word in lever.makes]
            self._folds.command(*words, *self._folds.data_options(fold), "--out", str(out))
        return [option.replace("{out}", str(out)) for option in lever.options]

    def _of_soup(self, how: str, fold: int) -> Mapping[str, float]:
        out = self._folds.work / f"soup-{how}-{fold}.npz"
        self._folds.command("soup", *self._seeds(fold), "--out", str(out), "--how", how)
        return self._measured(load_heads(out), fold)

    def _measured(self, heads: Heads, fold: int) -> dict[str, float]:
        """As `fit` measures: on the validation requests."""
        validation = ValidationSettings(by="given", datasets=FOLDS[fold])
        settings = FolderSettings(
            (str(self._folds.data),), exclude=("sgd",), validation=validation, min_cosine=None
        )
        _, selection = read_selection(settings, seed=0)
        encoder = make_encoder(settings.encoder)
        embedder = Embedder(encoder, settings.texts, self._folds.cache)
        gains = {}
        for one in selection.datasets:
            if one.validation:
                judged = Dataset(one.dataset.name, one.dataset.tools, one.validation, {})
                values: Sequence[float] = [
                    _ndcg(scorer, judged)
                    for scorer in (DenseScorer(embedder), CLMScorer(heads, embedder))
                ]
                gains[one.dataset.name] = 100 * (values[1] - values[0])
        encoder.close()
        return gains


def _ndcg(scorer: DenseScorer | CLMScorer, dataset: Dataset) -> float:
    splits = {query.split for query in dataset.queries}
    settings = EvaluationSettings(split=splits.pop())
    return float(evaluate(scorer, dataset, settings).values["ndcg@10"].mean())


if __name__ == "__main__":
    sys.exit(main())
