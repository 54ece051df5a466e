"""The stages between reading and writing: texts to vectors, vectors to shards of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from toolheads.errors import CacheError, import_extra
from toolheads.heads import Head, Heads
from toolheads.indexes import limit_blas_threads
from toolheads.jobs.distributed.carrying import carried
from toolheads.jobs.distributed.shards import write_shard
from toolheads.jobs.rows import rows_of
from toolheads.jobs.vectors import Vectors
from toolheads.ports import Encoder


@dataclass(frozen=True)
class Making:
    """What workers need to make rows.

    Attributes:
        heads: That the vectors are for.
        encoder: Makes the encoder, in a worker.
        cache: Folder of the vectors.
        cache_dtype: What it stores.
        weights: View → weight, in the order of a tool's texts.
        action: Projects vectors.
        shards: Folder of the shards.
        at_once: Tools whose vectors are held at once.
    """

    heads: Heads
    encoder: Callable[[], Encoder]
    cache: Path
    cache_dtype: str
    weights: Mapping[str, float]
    action: Head
    shards: Path
    at_once: int


class Embedding:
    """Table of keys and texts → of keys and vectors. One lives in each process that embeds.

    Args:
        making: What it needs.
    """

    def __init__(self, making: Making) -> None:
        self._making = making
        self._vectors: Vectors | None = None

    def __call__(self, table: Any) -> Iterator[Any]:
        """The tools of a table, some at once, so that memory does not grow with the table."""
        at_once = self._making.at_once
        for start in range(0, table.num_rows, at_once):
            with carried():
                part = self._embedded(table.slice(start, at_once), self._opened())
            yield part

    def _opened(self) -> Vectors:
        """Opened with the first table: Ray hides what goes wrong when a process is set up."""
        if self._vectors is None:
            m = self._making
            self._vectors = Vectors(m.heads, m.encoder, m.cache, dtype=m.cache_dtype)
        return self._vectors

    def _embedded(self, table: Any, vectors: Vectors) -> Any:
        pa = _pyarrow()
        texts = table["texts"].to_pylist()
        counts = vectors.counts
        before = counts.reused, counts.embedded
        found = vectors.find(texts)
        gathered = vectors.cache.gather(found.numbers)
        vectors.cache.let_go()
        by_tool = gathered.reshape(len(found.places), -1)
        packed: list[bytes | None] = [None] * len(texts)
        for place, row in zip(found.places, by_tool, strict=True):
            packed[place] = row.tobytes()
        of_batch = [counts.reused - before[0], counts.embedded - before[1]]
        reused, embedded = ([count] + [0] * (len(texts) - 1) for count in of_batch)
        reasons = [found.refused.get(place) for place in range(len(texts))]
        return pa.table(
            {
                "key": table["key"],
                "vectors": pa.array(packed, pa.binary()),
                "reason": pa.array(reasons, pa.string()),
                "reused": pa.array(reused, pa.int64()),
                "embedded": pa.array(embedded, pa.int64()),
            }
        )


def projected(table: Any, making: Making) -> Any:
    """Table of keys and vectors → a table that names the shard with their rows.

    It has a line for the shard, and one for each tool that the encoder refused.
    """
    pa = _pyarrow()
    limit_blas_threads(1)  # a process is counted as one CPU
    good = table.filter(pa.compute.is_valid(table["vectors"]))
    bad = table.filter(pa.compute.is_null(table["vectors"]))
    entry = None
    with carried():
        if good.num_rows:
            raw = b"".join(good["vectors"].to_pylist())
            vectors = np.frombuffer(raw, np.float32).reshape(-1, making.action.width)
            rows = rows_of(vectors, making.weights, making.action)
            entry = write_shard(making.shards, good["key"].to_pylist(), rows)
    counts = [pa.compute.sum(table[name]).as_py() or 0 for name in ("reused", "embedded")]
    none = [None] * bad.num_rows
    return pa.table(
        {
            "shard": pa.array([entry, *none], pa.string()),
            "rows": pa.array([good.num_rows, *none], pa.int64()),
            "reused": pa.array([counts[0], *none], pa.int64()),
            "embedded": pa.array([counts[1], *none], pa.int64()),
            "key": pa.array([None, *bad["key"].to_pylist()], pa.string()),
            "reason": pa.array([None, *bad["reason"].to_pylist()], pa.string()),
        }
    )


def made_dataset(texts: Any, making: Making, *, workers: int, cpus: int, gpus: float) -> Any:
    """A dataset of Ray that embeds, projects and writes shards.

    Args:
        texts: Dataset of keys and texts.
        making: What workers need.
        workers: Processes that embed.
        cpus: CPUs of one of them.
        gpus: And GPUs.
    """
    data = import_extra("ray.data", user="engine ray", extra="ray")
    return texts.map_batches(
        Embedding,
        fn_constructor_args=(making,),
        batch_size=None,
        batch_format="pyarrow",
        compute=data.ActorPoolStrategy(size=workers),
        num_cpus=cpus,
        num_gpus=gpus,
    ).map_batches(
        partial(projected, making=making), batch_size=None, batch_format="pyarrow", num_cpus=1
    )


def no_encoder() -> Encoder:
    """In place of an encoder where all vectors were in the cache a moment ago.

    Raises:
        CacheError: Always.
    """
    msg = "a vector must be in the cache, got one that was damaged; run the same command again"
    raise CacheError(msg)


def _pyarrow() -> Any:
    import_extra("pyarrow.compute", user="engine ray", extra="ray")
    return import_extra("pyarrow", user="engine ray", extra="ray")
