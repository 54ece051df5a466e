"""Small shards of one writer become one as it goes on writing; a server adds a tool at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from toolheads.cache.shard import Shard, write_shard

MOST_SMALL = 32
"""Neighbouring small shards of one writer; one more, and they are joined."""

SMALL_BYTES = 1 << 20
"""What is larger is left alone, so that a row is written again some 40 times at most for vectors
of 384 entries: once with every 32 shards after it until they have 1 MiB together."""


def run_to_join(shards: Sequence[Shard | None], own: Collection[str]) -> slice | None:
    """The last run of neighbours that are to become one shard; None if it is not long enough.

    Args:
        shards: In the order of their row numbers, which a joined shard takes over from them: so
            they have to be neighbours. None is one that was damaged.
        own: Names of the files that this writer wrote. Those of others are left to them.
    """
    stop = len(shards)
    while stop and not _is_small(shards[stop - 1], own):
        stop -= 1
    start = stop
    while start and _is_small(shards[start - 1], own):
        start -= 1
    return slice(start, stop) if stop - start > MOST_SMALL else None


def joined(folder: Path, shards: Sequence[Shard], dtype: str) -> Shard:
    """Write the rows of shards, in their order, as one; those shards are left as they are.

    Raises:
        CacheError: If the disk is full or the folder cannot be written.
        DamageError: If what was written is no shard.
        OSError: If it cannot be read back.
    """
    keys = np.concatenate([shard.keys for shard in shards])
    vectors = np.concatenate([shard.vectors for shard in shards])
    path = write_shard(folder, keys, vectors, dtype)
    return Shard(path, width=vectors.shape[1], dtype=dtype)


def _is_small(shard: Shard | None, own: Collection[str]) -> bool:
    return shard is not None and shard.path.name in own and shard.size_bytes < SMALL_BYTES
