"""Decisions and adaptive lists on data sets: false binds against coverage, absence, list lengths.

    python -m benchmarks.decide.run DATA --cache DIR [--limit 300] [--out FILE.md] [--json FILE]

BM25, frozen vectors and the packaged heads `minilm`, at most `--limit` queries of each data set
and split, on one thread. Thresholds and margins are chosen in three ways and always measured on
test queries:

    own     on training queries of the same data set, for sets that have some
    others  on the training queries of all sets, for sets that have none
    half    on a random half of the set's test queries, measured on the other; mean of many halves

Only the last keeps the promise of the bound by its assumption: the queries are exchangeable, and
the heads have met none of them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.decide.figures import ALPHAS, TARGETS, Figures, tables

from toolheads.arrays import Floats, Ids
from toolheads.bootstrap import encoder
from toolheads.data import Dataset, read_datasets
from toolheads.decide.calibration.episodes import Corpus, Episodes, Ranked, unit_of
from toolheads.decide.calibration.run import drawn
from toolheads.decide.similarity import RowSimilarity, similarity_of
from toolheads.embedder import Embedder
from toolheads.facade import load_scorer
from toolheads.ports import Scorer
from toolheads.scorers.bm25 import BM25Scorer
from toolheads.scorers.dense import DenseScorer


@dataclass
class Looked:
    """What one scorer made of all queries.

    Attributes:
        corpora: Data set → its catalogue, with the similarity of this scorer.
        ranked: (data set, split) → queries.
    """

    corpora: dict[str, Corpus] = field(default_factory=dict)
    ranked: dict[tuple[str, str], list[Ranked]] = field(default_factory=dict)

    def episodes(self) -> dict[tuple[str, str], Episodes]:
        """(data set, split) → what decisions depend on, all in one unit of scores."""
        training = [one for (_, split), r in self.ranked.items() if split == "train" for one in r]
        unit = unit_of(training)
        return {
            key: self.corpora[key[0]].episodes(ranked, unit) for key, ranked in self.ranked.items()
        }


class Remembered:
    """Similarities to all tools, worked out once for all scorers."""

    def __init__(self, similarity: RowSimilarity) -> None:
        self._similarity = similarity
        self._known: dict[int, Floats] = {}

    def to(self, row: int, rows: Ids | None = None) -> Floats:
        if rows is not None:
            return self._similarity.to(row, rows)
        if row not in self._known:
            self._known[row] = self._similarity.to(row)
        return self._known[row]


def looked_at(
    scorers: dict[str, Scorer], embedder: Embedder, datasets: Sequence[Dataset], limit: int
) -> dict[str, Looked]:
    """Rank the queries of every data set with every scorer."""
    looked = {name: Looked() for name in scorers}
    for dataset in datasets:
        began = time.monotonic()
        # The same tools are hidden for every scorer: those that frozen vectors call alike.
        frozen = Remembered(RowSimilarity(embedder.tools(dataset.tools)["text"]))
        for name, scorer in scorers.items():
            scorer.index(dataset.tools)
            corpus = Corpus(dataset.tools, similarity_of(scorer, dataset.tools), hide_by=frozen)
            looked[name].corpora[dataset.name] = corpus
            for split in ("train", "test"):
                queries = drawn(dataset.split(split), dataset.name, limit, seed=0)
                queries = [query for query in queries if query.relevant]
                if queries:
                    ranked = list(corpus.ranked(scorer, queries))
                    looked[name].ranked[dataset.name, split] = ranked
        took = time.monotonic() - began
        print(f"{dataset.name}: {len(dataset.tools)} tools, {took:.1f} s", file=sys.stderr)
    return looked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--halves", type=int, default=50)
    parser.add_argument("--only", nargs="*", help="names of data sets")
    parser.add_argument("--out", type=Path, help="where the tables go; else they are printed")
    parser.add_argument("--json", type=Path, help="where all figures go")
    args = parser.parse_args()
    datasets = [d for d in read_datasets(args.data) if d.queries]
    datasets = [d for d in datasets if not args.only or d.name in args.only]
    local = encoder("local", threads=1)
    embedder = Embedder(local, cache=args.cache)
    scorers: dict[str, Scorer] = {
        "BM25": BM25Scorer(),
        "frozen vectors": DenseScorer(embedder),
        "heads (minilm)": load_scorer("minilm", local, cache=args.cache),
    }
    looked = looked_at(scorers, embedder, datasets, args.limit)
    figures: dict[str, Any] = {}
    for name, one in looked.items():
        began = time.monotonic()
        figures[name] = Figures.of(one.episodes(), halves=args.halves, rng=np.random.default_rng(0))
        print(f"{name}: figures in {time.monotonic() - began:.1f} s", file=sys.stderr)
    text = tables(figures, TARGETS, ALPHAS)
    if args.json:
        rows = {name: one.to_json() for name, one in figures.items()}
        args.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    if args.out:
        args.out.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
