"""Rows around centres, an index of faiss over them, and the recall of it as a test measures it."""

from __future__ import annotations

import numpy as np
from tests.unit.indexes.samples import SPACE

from toolheads.indexes import open_index

WIDTH = 32
N = 1500
PQ = {"bits": 4, "lists": 8}


def made(n=N, width=WIDTH, seed=0):
    """Unit rows around 30 centres."""
    generator = np.random.default_rng(seed)
    centres = np.random.default_rng(9).normal(size=(30, width))
    rows = centres[generator.integers(30, size=n)] + generator.normal(size=(n, width))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def keys_of(n):
    return [f"k{i:05}" for i in range(n)]


def opened(kind, folder=None, *, width=WIDTH, **settings):
    settings = {"build_from": 1, "build_threads": 1} | settings
    return open_index(kind, space=SPACE, width=width, folder=folder, **settings)


def filled(kind, folder=None, n=N, **settings):
    index = opened(kind, folder, **settings)
    index.apply(keys_of(n), made(n, index.width))
    return index


def recall_of(index, queries, n=N):
    """Recall@10 as a test measures it."""
    best = np.argsort(-(queries @ made(n, index.width).T), axis=1)[:, :10]
    hits = [{int(key[1:]) for key in keys} for keys, _ in index.search(queries, 10)]
    return np.mean([len(one & set(two.tolist())) / 10 for one, two in zip(hits, best, strict=True)])
