"""One faiss structure over the rows of a moment, never changed once it is built."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from toolheads.arrays import Floats, Ids
from toolheads.errors import import_extra

STRUCTURES = ("flat", "hnsw", "ivf")
"""What `structure` may be."""

_STORAGE = {"float32": "Flat", "float16": "SQfp16", "int8": "SQ8"}
_GPU_STRUCTURES = ("flat", "ivf")
_GPU_MOST_HITS = 2048
_TRAINED_ON = 64
"""Rows for each list that the centres of IVF are fitted to; faiss asks for 39 to 256."""


@dataclass(frozen=True)
class Parameters:
    """What shapes a structure and its searches. 0 stands for a value that fits the size."""

    structure: str
    """`flat`, `hnsw` or `ivf`."""
    dtype: str
    """What faiss stores rows in: `float32`, `float16`, or `int8` with its own rounding."""
    neighbours: int = 32
    """HNSW: links of a row in each layer but the lowest, which has twice as many."""
    ef_construction: int = 100
    """HNSW: rows looked at to find the links of a new one."""
    ef_search: int = 0
    """HNSW: rows looked at for a query, at least."""
    lists: int = 0
    """IVF: lists that rows are sorted into."""
    probes: int = 0
    """IVF: lists looked at for a query."""

    def for_rows(self, n: int) -> Parameters:
        """The same with values for n rows in place of zeros."""
        lists = self.lists or max(1, min(round(4 * math.sqrt(n)), n // 39))
        return replace(
            self,
            ef_search=self.ef_search or (64 if n < 100_000 else 128),
            lists=lists,
            probes=min(lists, self.probes or max(8, lists // 16)),
        )

    def builds_as(self, other: Parameters) -> bool:
        """Whether a structure that was built for one serves the other."""
        names = ("structure", "dtype", "neighbours", "ef_construction")
        same = all(getattr(self, name) == getattr(other, name) for name in names)
        return same and self.lists in (0, other.lists)


@dataclass(frozen=True, eq=False)
class Structure:
    """A faiss index and the keys of its rows, in the order they were added.

    Attributes:
        index: The index on the CPU.
        keys: Key of each row.
        parameters: What it was built with, without zeros.
    """

    index: Any
    keys: tuple[str, ...]
    parameters: Parameters
    _gpu_lock: threading.Lock = field(default_factory=threading.Lock)
    """Held by a search on a GPU, which uses memory of the index."""

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def places(self) -> frozenset[str]:
        """All keys."""
        return frozenset(self.keys)

    @property
    def is_exact(self) -> bool:
        """Whether it finds the largest products with the rows of the store."""
        return self.parameters.structure == "flat" and self.parameters.dtype != "int8"

    def search(
        self, queries: Floats, hits: int, *, effort: int, threads: int
    ) -> tuple[Floats, Ids]:
        """Find rows.

        Args:
            queries: (q, d) float32.
            hits: How many for each.
            effort: How many times the usual part of the structure to look at.
            threads: Threads of this search; 0 for all cores.

        Returns:
            (q, hits) products, best first, and places in `keys`; -1 where nothing was found.
        """
        faiss = load_faiss()
        faiss.omp_set_num_threads(threads or os.cpu_count() or 1)
        options = {}
        if self.parameters.structure == "hnsw":
            ef = max(self.parameters.ef_search * effort, hits)
            options["params"] = faiss.SearchParametersHNSW(efSearch=ef)
        if self.parameters.structure == "ivf":
            probes = min(self.parameters.lists, self.parameters.probes * effort)
            options["params"] = faiss.SearchParametersIVF(nprobe=probes)
        if self._on_gpu is not None and hits <= _GPU_MOST_HITS:
            with self._gpu_lock:
                found = self._on_gpu.search(queries, hits, **options)
        else:
            found = self.index.search(queries, hits, **options)
        scores, places = found
        return scores, places

    def with_rows(self, keys: Sequence[str], rows: Floats, *, threads: int) -> Structure:
        """A copy with more rows."""
        faiss = load_faiss()
        faiss.omp_set_num_threads(threads)
        index = faiss.clone_index(self.index)
        index.add(rows)
        return replace(self, index=index, keys=(*self.keys, *keys))

    @cached_property
    def _on_gpu(self) -> Any:
        """The copy on the first GPU; None where there is none, or faiss cannot put it there."""
        faiss = load_faiss()
        if not faiss.get_num_gpus() or self.parameters.structure not in _GPU_STRUCTURES:
            return None
        if self.parameters.structure == "flat" and self.parameters.dtype != "float32":
            return None
        memory = faiss.StandardGpuResources()
        self.__dict__["_gpu_memory"] = memory  # the copy uses it as long as it lives
        return faiss.index_cpu_to_gpu(memory, 0, self.index)


def build(keys: Sequence[str], rows: Floats, parameters: Parameters, *, threads: int) -> Structure:
    """Build a structure over n rows.

    Args:
        keys: n keys.
        rows: (n, d) float32, n >= 1.
        parameters: What to build.
        threads: CPU threads.
    """
    faiss = load_faiss()
    faiss.omp_set_num_threads(threads)
    fitted = parameters.for_rows(len(rows))
    index = faiss.index_factory(rows.shape[1], _recipe(fitted), faiss.METRIC_INNER_PRODUCT)
    if fitted.structure == "hnsw":
        index.hnsw.efConstruction = fitted.ef_construction
    if not index.is_trained:
        index.train(_sample(rows, _TRAINED_ON * fitted.lists))
    index.add(rows)
    return Structure(index, tuple(keys), fitted)


def to_bytes(structure: Structure) -> tuple[dict[str, Any], list[memoryview]]:
    """What a structure is as plain data: a header of JSON types, and two blocks of bytes."""
    serialized = load_faiss().serialize_index(structure.index)  # (bytes,) uint8
    keys = "\n".join(structure.keys).encode("utf-8")
    header = {"parameters": asdict(structure.parameters), "index_bytes": serialized.nbytes}
    return header, [memoryview(serialized), memoryview(keys)]


def from_bytes(header: dict[str, Any], payload: bytes) -> Structure:
    """Read what `to_bytes` wrote; its digest must have been compared before.

    Raises:
        ValueError, KeyError, TypeError, RuntimeError: If it is something else.
    """
    size = header["index_bytes"]
    index = load_faiss().deserialize_index(np.frombuffer(payload, np.uint8, size))
    keys = tuple(payload[size:].decode("utf-8").split("\n"))
    if index.ntotal != len(keys):
        msg = f"keys must be {index.ntotal}, got {len(keys)}"
        raise ValueError(msg)
    return Structure(index, keys, Parameters(**header["parameters"]))


def load_faiss() -> ModuleType:
    """The library faiss, of faiss-cpu or faiss-gpu.

    Raises:
        MissingExtraError: If it is not installed.
    """
    return import_extra("faiss", user="indexes.faiss", extra="faiss")


def _recipe(parameters: Parameters) -> str:
    """As faiss's index_factory reads it."""
    storage = _STORAGE[parameters.dtype]
    if parameters.structure == "hnsw":
        return f"HNSW{parameters.neighbours},{storage}"
    if parameters.structure == "ivf":
        return f"IVF{parameters.lists},{storage}"
    return storage


def _sample(rows: Floats, most: int) -> Floats:
    if len(rows) <= most:
        return rows
    picked = np.sort(np.random.default_rng(0).choice(len(rows), most, replace=False))
    return rows[picked]
