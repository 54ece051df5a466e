"""How much of the best a structure finds, measured when it is built."""

from __future__ import annotations

from itertools import islice

import numpy as np

from toolheads.arrays import Floats
from toolheads.indexes.faiss_index.search import search
from toolheads.indexes.faiss_index.structure import Recall, Structure
from toolheads.indexes.snapshot import Snapshot

_AT = 10
_QUERIES = 200
_LEAST_QUERIES = 20
_MOST_PRODUCTS = 200_000_000
"""Of an exact scan for the queries; more rows get fewer queries."""


def measured(rows: Snapshot, structure: Structure, *, threads: int, seed: int = 0) -> Recall:
    """Compare what a structure finds with a scan, for queries near some of its rows.

    A query is a row with noise of the same length, at a cosine of about 0.7 to it. Requests of
    people may lie farther off, and then less is found.

    Args:
        rows: All rows, each of which is in the structure.
        structure: Which one.
        threads: Threads of the searches.
        seed: Of rows and noise.
    """
    if structure.parameters.is_exact:
        return Recall(1.0, 0, _AT)
    generator = np.random.default_rng(seed)
    n = min(len(rows), _QUERIES, max(_LEAST_QUERIES, _MOST_PRODUCTS // len(rows)))
    keys = (structure.keys[place] for place in generator.permutation(len(structure)))
    picked = list(islice((key for key in keys if key in rows), n))
    queries = _near(rows.gather(picked), generator)
    nothing = Snapshot([], rows.width)
    hits = search(rows, structure, nothing, queries, _AT, threads=threads)
    best = rows.search(queries, _AT)
    shares = [
        len(set(one) & set(two)) / len(two) for (one, _), (two, _) in zip(hits, best, strict=True)
    ]
    return Recall(float(np.mean(shares)), len(shares), _AT)


def _near(rows: Floats, generator: np.random.Generator) -> Floats:
    noise = generator.normal(size=rows.shape)
    noise *= np.linalg.norm(rows, axis=1, keepdims=True) / np.linalg.norm(
        noise, axis=1, keepdims=True
    )
    return (rows + noise).astype(np.float32)
