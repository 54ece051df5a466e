"""Looking after a whole cache: what is in it, and what in it is damaged.

Nothing here needs an encoder; `VectorCache` is the way to the vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from toolheads.cache.disk import cache_errors
from toolheads.cache.shard import DamageError, Shard, digest_damages
from toolheads.cache.space import Space, spaces
from toolheads.errors import CacheError
from toolheads.identity import Fingerprint


@dataclass(frozen=True)
class Damage:
    """A file or folder that cannot be used, and why."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path} {self.reason}"


@dataclass(frozen=True)
class SpaceInfo:
    """What a cache holds of one encoder in one dtype."""

    fingerprint: Fingerprint
    dtype: str
    rows: int
    """Stored vectors; a text that was stored twice counts twice."""
    shards: int
    size_bytes: int


@dataclass(frozen=True)
class CacheInfo:
    """What a cache holds."""

    spaces: tuple[SpaceInfo, ...]
    damages: tuple[Damage, ...]
    """Files whose size or header is wrong; only `verify_cache` reads every byte."""


@dataclass(frozen=True)
class VerifyReport:
    """The outcome of reading every byte of a cache."""

    shards: int
    rows: int
    """In intact shards."""
    size_bytes: int
    damages: tuple[Damage, ...]


def cache_info(root: Path) -> CacheInfo:
    """List what is in a cache; reads headers and keys only.

    Raises:
        CacheError: If there is no such folder, or it cannot be read.
    """
    infos: list[SpaceInfo] = []
    damages: list[Damage] = []
    for space, fingerprint in _readable(root, damages):
        of_dtype: dict[str, list[Shard]] = {}
        for dtype, shard in _shards(space, fingerprint, damages):
            of_dtype.setdefault(dtype, []).append(shard)
        infos += [
            SpaceInfo(
                fingerprint=fingerprint,
                dtype=dtype,
                rows=sum(map(len, shards)),
                shards=len(shards),
                size_bytes=sum(shard.size_bytes for shard in shards),
            )
            for dtype, shards in of_dtype.items()
        ]
    return CacheInfo(tuple(infos), tuple(damages))


def verify_cache(root: Path) -> VerifyReport:
    """Read every byte of a cache and name what is damaged; changes nothing.

    Raises:
        CacheError: If there is no such folder, or it cannot be read.
    """
    damages: list[Damage] = []
    count = rows = size_bytes = 0
    for space, fingerprint in _readable(root, damages):
        shards = [shard for _, shard in _shards(space, fingerprint, damages)]
        for shard, reason in zip(shards, digest_damages(shards), strict=True):
            count += 1
            size_bytes += shard.size_bytes
            if reason is None:
                rows += len(shard)
            else:
                damages.append(Damage(shard.path, reason))
    return VerifyReport(count, rows, size_bytes, tuple(damages))


def open_shard(path: Path, fingerprint: Fingerprint, dtype: str) -> Shard | Damage | None:
    """The shard, or what is wrong with it; None if it is gone."""
    try:
        return Shard(path, width=fingerprint.encoder.width, dtype=dtype)
    except FileNotFoundError:
        return None
    except DamageError as e:
        return Damage(path, str(e))


def _readable(root: Path, damages: list[Damage]) -> Iterator[tuple[Space, Fingerprint]]:
    for space in spaces(root):
        if space.is_started():
            try:
                fingerprint, _ = space.read()
            except CacheError as e:
                damages.append(Damage(space.folder, f"cannot be used: {e}"))
                continue
            yield space, fingerprint


def _shards(
    space: Space, fingerprint: Fingerprint, damages: list[Damage]
) -> Iterator[tuple[str, Shard]]:
    with cache_errors(space.folder, "read"):
        for dtype, path in space.shard_paths():
            opened = open_shard(path, fingerprint, dtype)
            if isinstance(opened, Damage):
                damages.append(opened)
            elif opened is not None:
                yield dtype, opened
