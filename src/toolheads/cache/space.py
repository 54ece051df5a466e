"""The folder of one fingerprint: who made its vectors, and where its shards are.

ROOT/<fingerprint key>/
    fingerprint.json            format, fingerprint, name of the probe file
    <sha256>.probe.safetensors  vectors of the probe texts, float32
    lock                        shared by writers, held alone by prune
    float16/<sha256>.safetensors    shards, a folder for each dtype
    damaged/                    shards that were set aside
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from toolheads.arrays import Floats
from toolheads.cache.disk import (
    cache_errors,
    has_own_digest,
    locked,
    write_atomically,
    write_by_digest,
)
from toolheads.cache.precision import DTYPES
from toolheads.cache.shard import FORMAT, SUFFIX, DamageError, read_header, tensors_as_parts
from toolheads.durable import TEMPORARY
from toolheads.errors import CacheError
from toolheads.identity import Fingerprint, check_probe

_FINGERPRINT = "fingerprint.json"
_PROBE = ".probe.safetensors"


_logger = logging.getLogger(__name__)


class _IllegibleError(CacheError):
    """The fingerprint file holds something else than what was written."""


@dataclass(frozen=True)
class Space:
    """The folder of one fingerprint in a cache."""

    folder: Path

    @property
    def lock(self) -> Path:
        """The file whose lock guards the folder."""
        return self.folder / "lock"

    @property
    def damaged(self) -> Path:
        """Where damaged shards are set aside."""
        return self.folder / "damaged"

    def shards(self, dtype: str) -> Path:
        """The folder of the shards of one dtype."""
        return self.folder / dtype

    def is_started(self) -> bool:
        """Whether there is anything in it; else a kill came before the first file was whole."""
        return (self.folder / _FINGERPRINT).exists() or any(self.shard_paths())

    def shard_paths(self) -> Iterator[tuple[str, Path]]:
        """(dtype, path) of every shard, by dtype and name."""
        for dtype in DTYPES:
            for path in sorted(self.shards(dtype).glob(f"[!.]*{SUFFIX}")):
                yield dtype, path

    def leftovers(self) -> list[Path]:
        """Files that were being written; leftovers, if no writer holds the lock."""
        return sorted(self.folder.rglob(f"{TEMPORARY}*"))

    def read(self) -> tuple[Fingerprint, Floats]:
        """The fingerprint, and the probe vectors, (p, d) float32.

        Raises:
            CacheError: If one of both files is missing, damaged or of another version.
        """
        kind: type[CacheError] = CacheError
        try:
            return self._read()
        except DamageError as e:
            reason = str(e)
        except OSError as e:
            reason = f"cannot be read: {e.strerror}"
        except (ValueError, KeyError, TypeError, RecursionError) as e:
            kind = _IllegibleError
            reason = f"must be the JSON that was written, got something else ({type(e).__name__})"
        msg = f"{self.folder / _FINGERPRINT} {reason}; delete {self.folder} and embed again"
        raise kind(msg)

    def write(self, fingerprint: Fingerprint, probe_file: str) -> None:
        """Write the file that `read` reads, whole or not at all."""
        about = {"format": FORMAT, "fingerprint": fingerprint.to_json(), "probe": probe_file}
        text = json.dumps(about, indent=2) + "\n"
        write_atomically(self.folder, _FINGERPRINT, [text.encode()])

    def _read(self) -> tuple[Fingerprint, Floats]:
        about = json.loads((self.folder / _FINGERPRINT).read_bytes())
        if about["format"] != FORMAT:
            msg = f"has cache format {about['format']!r:.20}, this version reads {FORMAT!r}"
            raise DamageError(msg)
        fingerprint = Fingerprint.from_json(about["fingerprint"])
        if fingerprint.key != self.folder.name:
            msg = f"must have the key {self.folder.name}, got {fingerprint.key}"
            raise DamageError(msg)
        return fingerprint, _read_probe(self.folder / about["probe"])


def open_space(root: Path, fingerprint: Fingerprint, probe: Floats) -> Space:
    """Find or make the folder of a fingerprint, and check that the same weights made it.

    Args:
        root: The cache.
        fingerprint: Of the encoder at hand and its texts.
        probe: (p, d) float32. The probe vectors as the encoder gives them now.

    Raises:
        BackboneMismatchError: If the folder's probe vectors are of other weights.
        CacheError: If the folder is damaged, or cannot be read or written.
    """
    space = Space(root / fingerprint.key)
    if not (space.folder / _FINGERPRINT).exists():
        _create(space, fingerprint, probe)
    try:
        stored_fingerprint, stored_probe = space.read()
    except _IllegibleError:
        stored_fingerprint, stored_probe = _mend(space, fingerprint, probe)
    if stored_fingerprint != fingerprint:
        difference = stored_fingerprint.difference(fingerprint)
        msg = f"{space.folder} is of another encoder: {difference}"
        raise CacheError(msg)
    check_probe(stored_probe, probe, owner=f"cache folder {space.folder}")
    return space


def spaces(root: Path) -> list[Space]:
    """Every fingerprint's folder in a cache, by name.

    Raises:
        CacheError: If there is no such folder, or it cannot be read.
    """
    with cache_errors(root, "read"):
        if not root.is_dir():
            msg = f"cache folder {root} must exist, got no such folder"
            raise CacheError(msg)
        found = [Space(folder) for folder in sorted(root.iterdir())]
        return [space for space in found if space.lock.exists()]


def _create(space: Space, fingerprint: Fingerprint, probe: Floats) -> None:
    with cache_errors(space.folder, "create"):
        space.folder.mkdir(parents=True, exist_ok=True)
    with locked(space.lock, exclusive=True):
        if (space.folder / _FINGERPRINT).exists():  # another process was first
            return
        if any(space.shard_paths()):  # nobody can tell which weights made them
            msg = f"{space.folder} must have {_FINGERPRINT}, got shards without it; delete it"
            raise CacheError(msg)
        parts = tensors_as_parts({"probe": ("F32", probe)})
        path = write_by_digest(space.folder, parts, suffix=_PROBE)
        space.write(fingerprint, path.name)


def _mend(space: Space, fingerprint: Fingerprint, probe: Floats) -> tuple[Fingerprint, Floats]:
    """Write a fingerprint file that cannot be read anew, if it is certain what stood in it.

    The folder's name is a hash of the fingerprint, so it was the one of the encoder at hand. Which
    weights made the vectors, only the probe file says: it must be there and intact.
    """
    with locked(space.lock, exclusive=True):
        with suppress(_IllegibleError):  # another process was first
            return space.read()
        intact = [p for p in space.folder.glob(f"*{_PROBE}") if has_own_digest(p)]
        if len(intact) == 1:
            check_probe(_read_probe(intact[0]), probe, owner=f"cache folder {space.folder}")
            space.write(fingerprint, intact[0].name)
            path = space.folder / _FINGERPRINT
            _logger.warning("%s could not be read and was written anew", path)
    return space.read()


def _read_probe(path: Path) -> Floats:
    if not path.exists() or not has_own_digest(path):
        msg = f"names the file {path.name}, which must exist and have that sha256"
        raise DamageError(msg)
    with path.open("rb") as file:
        header, _ = read_header(file)
        return np.frombuffer(file.read(), "<f4").reshape(header["probe"]["shape"])
