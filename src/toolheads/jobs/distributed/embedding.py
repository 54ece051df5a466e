"""Texts into the cache over many processes, for `toolheads embed`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolheads.embedder import EmbedCounts, Embedder
from toolheads.errors import import_extra
from toolheads.identity import Fingerprint
from toolheads.jobs.cluster import Cluster
from toolheads.jobs.distributed.carrying import carried
from toolheads.jobs.distributed.session import session, tables
from toolheads.ports import Encoder
from toolheads.texts import TextSettings

_MOST_TEXTS = 1024
_CHUNKS_OF_A_WORKER = 8
"""At least, where there are texts enough, so that none waits long for the last one."""


@dataclass(frozen=True)
class Filling:
    """What workers need to fill a cache."""

    encoder: Callable[[], Encoder]
    """Makes the encoder, in a worker."""
    texts: TextSettings
    cache: Path
    dtype: str


def fill_cache(
    texts: Sequence[str],
    filling: Filling,
    cluster: Cluster,
    progress: Callable[[int, int], None],
) -> tuple[EmbedCounts, Fingerprint]:
    """Embed the texts that a cache lacks, and see that the rest is of the same encoder.

    Args:
        texts: At least one.
        filling: The encoder and the cache.
        cluster: Where it runs.
        progress: Told the texts done so far, and all of them.

    Returns:
        What it took, and the fingerprint of the cache.

    Raises:
        EncoderError: If the encoder fails. What was embedded before stays in the cache.
        BackboneMismatchError: If the cache was made with other weights of the same name.
        CacheError: If it cannot be read or written.
        ConfigError: If there is no such cluster.
        EngineError: If Ray fails.
        MissingExtraError: If it is not installed.
    """
    began = time.monotonic()
    data = import_extra("ray.data", user="engine ray", extra="ray")
    pa = import_extra("pyarrow", user="engine ray", extra="ray")
    unique = list(dict.fromkeys(texts))
    reused = embedded = 0
    fingerprint: Fingerprint | None = None
    with session(cluster) as ray:
        workers = ray.workers(cluster.worker_gpus)
        size = max(1, min(_MOST_TEXTS, len(unique) // (workers * _CHUNKS_OF_A_WORKER)))
        chunks = [unique[at : at + size] for at in range(0, len(unique), size)]
        blocks = [pa.table({"text": pa.array(chunk, pa.string())}) for chunk in chunks]
        filled = data.from_arrow(blocks).map_batches(
            CacheFiller,
            fn_constructor_args=(filling,),
            batch_size=None,
            batch_format="pyarrow",
            compute=data.ActorPoolStrategy(size=workers),
            num_cpus=cluster.worker_cpus,
            num_gpus=cluster.worker_gpus,
        )
        progress(0, len(unique))
        for table in tables(filled):
            for record in table.to_pylist():
                reused += record["reused"]
                embedded += record["embedded"]
                fingerprint = fingerprint or Fingerprint.from_json(
                    json.loads(record["fingerprint"])
                )
            progress(reused + embedded, len(unique))
    assert fingerprint is not None
    seconds = time.monotonic() - began
    return EmbedCounts(len(texts), len(unique), reused, embedded, seconds), fingerprint


class CacheFiller:
    """Table of texts → what embedding them took. One lives in each process that embeds.

    Args:
        filling: What it needs.
    """

    def __init__(self, filling: Filling) -> None:
        self._filling = filling
        self._embedder: Embedder | None = None

    def __call__(self, table: Any) -> Any:
        """Put the vectors of a table's texts into the cache."""
        pa = import_extra("pyarrow", user="engine ray", extra="ray")
        with carried():
            if self._embedder is None:
                f = self._filling
                self._embedder = Embedder(f.encoder(), f.texts, f.cache, dtype=f.dtype)
            counts = self._embedder.fill(table["text"].to_pylist())
            about = json.dumps(self._embedder.fingerprint.to_json())
        record = {"reused": counts.reused, "embedded": counts.embedded, "fingerprint": about}
        return pa.Table.from_pylist([record])
