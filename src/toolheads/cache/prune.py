"""Cleaning up a cache: leftovers and damaged shards go, small shards become large ones."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import numpy as np

from toolheads.arrays import Bools
from toolheads.cache.disk import cache_errors, locked
from toolheads.cache.keys import first_of_equal
from toolheads.cache.maintenance import Damage, open_shard
from toolheads.cache.shard import Shard, digest_damages, write_shard
from toolheads.cache.space import Space, spaces
from toolheads.errors import CacheError
from toolheads.identity import Fingerprint

MERGED_BYTES = 64 << 20
"""How large merged shards become; a shard of at least half of it is merged with no other."""


@dataclass
class PruneReport:
    """What was removed from a cache, or would be."""

    leftovers: list[Path] = field(default_factory=list)
    """Files whose writer was killed."""
    set_aside: list[Path] = field(default_factory=list)
    """Damaged shards that were set aside when they were found."""
    damages: list[Damage] = field(default_factory=list)
    """Damaged shards that were still in place."""
    merged: list[Path] = field(default_factory=list)
    """Shards whose rows were moved to others."""
    written: list[Path] = field(default_factory=list)
    """Shards that took their place; empty on a dry run."""
    duplicates: int = 0
    """Rows of texts that were stored more than once."""
    freed_bytes: int = 0
    """Size of what was removed, less what was written."""
    unusable: list[Damage] = field(default_factory=list)
    """Folders that cannot be used. They are left alone: the user is to delete them."""


def prune_cache(
    root: Path, *, dry_run: bool = False, merged_bytes: int = MERGED_BYTES
) -> PruneReport:
    """Clean up a cache. Waits for chunks that are being written; readers are not disturbed.

    Larger shards are on the disk before the small ones go, so that a kill at any moment loses
    no row.

    Args:
        root: The cache.
        dry_run: Report only. Rows written under way are then not counted in `freed_bytes`.
        merged_bytes: See `MERGED_BYTES`.

    Raises:
        CacheError: If there is no such folder, it cannot be written, or the disk is full.
    """
    report = PruneReport()
    for space in spaces(root):
        lock = nullcontext() if dry_run else locked(space.lock, exclusive=True)
        with lock, cache_errors(space.folder, "clean up"):
            _prune_space(space, report, dry_run=dry_run, merged_bytes=merged_bytes)
    return report


def _prune_space(space: Space, report: PruneReport, *, dry_run: bool, merged_bytes: int) -> None:
    leftovers, set_aside = space.leftovers(), sorted(space.damaged.glob("*"))
    report.leftovers += leftovers
    report.set_aside += set_aside
    _remove([*leftovers, *set_aside], report, dry_run=dry_run)
    if not space.is_started():
        return
    try:
        fingerprint, _ = space.read()
    except CacheError as e:
        report.unusable.append(Damage(space.folder, f"cannot be used: {e}"))
        return
    for dtype, found in groupby(space.shard_paths(), key=lambda pair: pair[0]):
        shards, damages = _intact([path for _, path in found], fingerprint, dtype)
        report.damages += damages
        _remove([damage.path for damage in damages], report, dry_run=dry_run)
        _merge(space.shards(dtype), dtype, shards, report, dry_run, merged_bytes)


def _intact(
    paths: Sequence[Path], fingerprint: Fingerprint, dtype: str
) -> tuple[list[Shard], list[Damage]]:
    opened = [open_shard(path, fingerprint, dtype) for path in paths]
    shards = [shard for shard in opened if isinstance(shard, Shard)]
    reasons = digest_damages(shards)
    damages = [damage for damage in opened if isinstance(damage, Damage)]
    damages += [Damage(s.path, why) for s, why in zip(shards, reasons, strict=True) if why]
    return [s for s, why in zip(shards, reasons, strict=True) if why is None], damages


def _merge(
    folder: Path,
    dtype: str,
    shards: Sequence[Shard],
    report: PruneReport,
    dry_run: bool,
    merged_bytes: int,
) -> None:
    """Write the rows of small shards, and of those with duplicates, to larger ones."""
    chosen = _to_rewrite(shards, merged_bytes)
    report.duplicates += sum(int((~keep).sum()) for _, keep in chosen)
    written: set[Path] = set()
    batch: list[tuple[Shard, Bools]] = []
    for at, (shard, keep) in enumerate(chosen):
        batch.append((shard, keep))
        is_full = sum(s.size_bytes for s, _ in batch) >= merged_bytes
        if (is_full or at == len(chosen) - 1) and not dry_run:
            keys = np.concatenate([s.keys[kept] for s, kept in batch])
            vectors = np.concatenate([s.vectors[kept] for s, kept in batch])
            if len(keys):
                written.add(write_shard(folder, keys, vectors, dtype))
            batch = []
    replaced = [shard.path for shard, _ in chosen if shard.path not in written]
    report.merged += replaced
    report.written += sorted(written)
    report.freed_bytes -= sum(path.stat().st_size for path in written)
    _remove(replaced, report, dry_run=dry_run)


def _to_rewrite(shards: Sequence[Shard], merged_bytes: int) -> list[tuple[Shard, Bools]]:
    """The shards to rewrite, in order of name, with which of their rows to keep."""
    if not shards:
        return []
    keep = np.zeros(sum(map(len, shards)), np.bool_)
    keep[first_of_equal(np.concatenate([shard.keys for shard in shards]))] = True
    masks = np.split(keep, np.cumsum([len(shard) for shard in shards])[:-1])
    pairs = list(zip(shards, masks, strict=True))
    is_small = [shard.size_bytes < merged_bytes // 2 for shard in shards]
    if sum(is_small) == 1:  # nothing to merge it with
        is_small = [False] * len(shards)
    return [pair for pair, small in zip(pairs, is_small, strict=True) if small or not pair[1].all()]


def _remove(paths: Sequence[Path], report: PruneReport, *, dry_run: bool) -> None:
    for path in paths:
        report.freed_bytes += path.stat().st_size if path.exists() else 0
        if not dry_run:
            path.unlink(missing_ok=True)  # a reader may have set it aside meanwhile
