"""One faiss structure over the rows of a moment, never changed once it is built."""

from __future__ import annotations

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
from toolheads.indexes.faiss_index.parameters import GRAPHS, LISTED, Parameters

_ON_GPU = ("flat", "ivf")
"""Structures that search on a GPU."""

_GPU_MOST_HITS = 2048
_READ_BYTES = 1 << 24


@dataclass(frozen=True)
class Recall:
    """A share of the best rows that a structure found when it was built."""

    value: float
    """Of the `at` best rows of an exact scan, the part that was found; mean over queries."""
    queries: int
    """0 for a structure that is exact."""
    at: int


@dataclass(frozen=True, eq=False)
class Structure:
    """A faiss index and the keys of its rows, in the order they were added.

    Attributes:
        index: The index on the CPU.
        keys: Key of each row.
        parameters: What it was built with, without zeros.
        recall: What it finds with these; None where it was not measured.
    """

    index: Any
    keys: tuple[str, ...]
    parameters: Parameters
    recall: Recall | None = None
    _gpu_lock: threading.Lock = field(default_factory=threading.Lock)
    """Held by a search on a GPU, which uses memory of the index."""

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def places(self) -> frozenset[str]:
        """All keys."""
        return frozenset(self.keys)

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
        if (asked := self._asked(faiss, hits, effort)) is not None:
            options["params"] = asked
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
        return replace(self, index=index, keys=(*self.keys, *keys), recall=None)

    def _asked(self, faiss: ModuleType, hits: int, effort: int) -> Any:
        """How hard to look, as faiss reads it; None for a structure that looks at all rows."""
        asked = self.parameters
        if asked.structure in GRAPHS:
            return faiss.SearchParametersHNSW(efSearch=max(asked.ef_search * effort, hits))
        if asked.structure not in LISTED:
            return None
        lists = faiss.SearchParametersIVF(nprobe=min(asked.lists, asked.probes * effort))
        if asked.structure == "ivf":
            return lists
        return faiss.SearchParametersPreTransform(index_params=lists)

    @cached_property
    def _on_gpu(self) -> Any:
        """The copy on the first GPU; None where there is none, or faiss cannot put it there."""
        faiss = load_faiss()
        if not faiss.get_num_gpus() or self.parameters.structure not in _ON_GPU:
            return None
        if self.parameters.structure == "flat" and self.parameters.dtype != "float32":
            return None
        memory = faiss.StandardGpuResources()
        self.__dict__["_gpu_memory"] = memory  # the copy uses it as long as it lives
        return faiss.index_cpu_to_gpu(memory, 0, self.index)


def to_bytes(structure: Structure) -> tuple[dict[str, Any], list[memoryview]]:
    """What a structure is as plain data: a header of JSON types, and two blocks of bytes."""
    faiss = load_faiss()
    writer = faiss.VectorIOWriter()
    faiss.write_index(structure.index, writer)
    # A view, since these may be gigabytes; it keeps what it views.
    serialized = faiss.rev_swig_ptr(writer.data.data(), writer.data.size()).view(_Kept)
    serialized.kept = writer
    keys = "\n".join(structure.keys).encode("utf-8")
    header = {
        "parameters": asdict(structure.parameters),
        "recall": asdict(structure.recall) if structure.recall else None,
        "index_bytes": serialized.nbytes,
    }
    return header, [memoryview(serialized), memoryview(keys)]


def from_bytes(header: dict[str, Any], payload: memoryview) -> Structure:
    """Read what `to_bytes` wrote; its digest must have been compared before.

    Raises:
        ValueError, KeyError, TypeError, RuntimeError: If it is something else.
    """
    faiss = load_faiss()
    size, read = header["index_bytes"], 0
    serialized = payload[:size]

    def more(n: int) -> bytes:
        nonlocal read
        part = serialized[read : read + n]
        read += len(part)
        return bytes(part)

    index = faiss.read_index(faiss.PyCallbackIOReader(more, _READ_BYTES))
    keys = tuple(bytes(payload[size:]).decode("utf-8").split("\n"))
    if index.ntotal != len(keys):
        msg = f"keys must be {index.ntotal}, got {len(keys)}"
        raise ValueError(msg)
    recall = Recall(**header["recall"]) if header.get("recall") else None
    return Structure(index, keys, Parameters(**header["parameters"]), recall)


class _Kept(np.ndarray[Any, np.dtype[np.uint8]]):
    """A view that keeps alive what it views."""

    kept: Any


def load_faiss() -> ModuleType:
    """The library faiss, of faiss-cpu or faiss-gpu.

    Raises:
        MissingExtraError: If it is not installed.
    """
    return import_extra("faiss", user="indexes.faiss", extra="faiss")
