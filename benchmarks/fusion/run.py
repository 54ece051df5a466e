"""What can be mixed with frozen vectors, and what each mixture is worth. No heads, no training.

    python -m benchmarks.fusion.run DATA [--cache DIR] [--queries 200] [--seed 0]

Ranks training requests of each data set over all its tools; test requests are not touched. Prints
the mean nDCG@10 over the data sets, its difference to the row the variant builds on, and the data
set that loses most against frozen vectors. The weights that the packaged heads serve with were
chosen here. Spread: the standard deviation of a query's scores over the corpus.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from benchmarks.fusion.material import Material, material_of
from benchmarks.fusion.variants import Score, variants

import toolheads
from toolheads.data import read_datasets
from toolheads.embedder import Embedder
from toolheads.evaluation.ranked import ranked_metrics

NAMES = (
    *("aws_cli", "azure_cli", "glaive_demo", "gorilla_apibench", "metatool"),
    *("seal_tools", "tldr_commands", "toolbench", "toollinkos", "toolrl_rlla"),
)
METRIC = "ndcg@10"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".cache/toolheads"))
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--encoder", default=None, help="kind, such as sentence-transformers")
    parser.add_argument("--model", default=None)
    args = parser.parse_args()
    encoder = toolheads.encoder(args.encoder, model=args.model)
    embedder = Embedder(encoder, cache=args.cache)
    materials = [
        material_of(read_datasets([args.data / name])[0], embedder, args.queries, args.seed)
        for name in NAMES
        if (args.data / name).is_dir()
    ]
    frozen = _measured(materials, lambda one: one.whole["text"])
    print("| variant | nDCG@10 | against | difference | worst data set |")
    print("| --- | ---: | --- | ---: | ---: |")
    means: dict[str, float] = {}
    for name, base, score in variants():
        values = _measured(materials, score)
        means[name] = float(values.mean())
        at = int((values - frozen).argmin())
        worst = f"{(values - frozen)[at]:+.2f} ({materials[at].name})"
        change = f"{means[name] - means[base]:+.2f}" if base else ""
        print(f"| {name} | {means[name]:.2f} | {base} | {change} | {worst} |", flush=True)


def _measured(materials: list[Material], score: Score) -> np.ndarray:
    values = []
    for one in materials:
        rows = np.argsort(-score(one), axis=1, kind="stable")[:, :10]
        values.append(100 * ranked_metrics(rows, one.relevant, (METRIC,))[METRIC].mean())
    return np.array(values)


if __name__ == "__main__":
    main()
