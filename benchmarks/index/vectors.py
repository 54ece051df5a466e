"""Rows and queries like those of a real catalogue, as many as wanted, for run.py.

    python benchmarks/index/vectors.py DATA… --cache CACHE --rows 1000000 --out FOLDER

DATA are folders with tools and queries whose texts are in CACHE (`toolheads embed`). The first
rows are those of the tools, projected by the heads. Each further one is a recombination: 60 to
90 % of the row of one tool and the rest of another's, both at random, with noise of 5 % of its
length. Queries are the test queries, projected; nothing is made up about these. Writes rows.npy
(n, e) and queries.npy (q, e), float32, and says what it took.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from toolheads import load_heads
from toolheads.data import read_datasets
from toolheads.embedder import Embedder
from toolheads.facade import encoder_for
from toolheads.scorers.recipe import Recipe

_BLOCK = 50_000
_NOISE = 0.05
_SHARES = (0.6, 0.9)


def main() -> None:
    arguments = parsed()
    heads = load_heads(arguments.heads)
    recipe = Recipe.of_heads(heads)
    datasets = read_datasets(arguments.data, skip_bad=True)
    tools = [tool for dataset in datasets for tool in dataset.tools]
    texts = sorted({query.text for dataset in datasets for query in dataset.split("test")})
    rng = np.random.default_rng(arguments.seed)
    picked = [texts[i] for i in rng.permutation(len(texts))[: arguments.queries]]
    encoder = encoder_for(heads)
    try:
        embedder = Embedder(encoder, heads.texts, arguments.cache)
        rows = np.unique(recipe.rows(embedder, tools), axis=0)
        queries = recipe.queries(embedder, picked).whole
    finally:
        encoder.close()
    rows = rows[rng.permutation(len(rows))]
    arguments.out.mkdir(parents=True, exist_ok=True)
    np.save(arguments.out / "queries.npy", queries)
    out = np.lib.format.open_memmap(
        arguments.out / "rows.npy", "w+", np.float32, (arguments.rows, rows.shape[1])
    )
    for start in range(0, arguments.rows, _BLOCK):
        out[start : start + _BLOCK] = recombined(rows, start, len(out[start : start + _BLOCK]), rng)
    out.flush()
    print(
        f"{arguments.rows:,} rows of {rows.shape[1]}: {min(len(rows), arguments.rows):,} of tools "
        f"(distinct of {len(tools):,} in {len(datasets)} data sets), the rest recombined; "
        f"{len(queries)} of {len(texts):,} test queries; heads {heads.name}, seed {arguments.seed}"
    )


def recombined(rows: np.ndarray, start: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows start to start + n: those of tools as long as there are some, then mixtures."""
    real = rows[start : start + n]
    n -= len(real)
    one, two = rows[rng.integers(len(rows), size=(2, n))]
    share = rng.uniform(*_SHARES, size=(n, 1)).astype(np.float32)
    mixed = share * one + (1 - share) * two
    mixed *= length(one) / length(mixed)
    noise = rng.standard_normal(mixed.shape, np.float32)
    mixed += _NOISE * length(mixed) / length(noise) * noise
    return np.concatenate([real, mixed])


def length(x: np.ndarray) -> np.ndarray:
    lengths: np.ndarray = np.linalg.norm(x, axis=1, keepdims=True)
    return lengths


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("data", nargs="+", type=Path, help="folders with tools.jsonl")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--heads", default="minilm")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
