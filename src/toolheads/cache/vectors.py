"""The vector cache of one encoder: texts in, stored vectors out. Knows no encoder."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Bools, Floats, Ids, as_rows
from toolheads.cache.disk import cache_errors, locked
from toolheads.cache.joining import joined, run_to_join
from toolheads.cache.keys import KeyIndex, first_of_equal, text_keys
from toolheads.cache.matrix import StoredMatrix
from toolheads.cache.precision import Stored, numpy_dtype, to_floats, to_stored
from toolheads.cache.shard import SUFFIX, DamageError, Shard, digest_damages, write_shard
from toolheads.cache.space import Space, open_space
from toolheads.errors import CacheError, ShapeError
from toolheads.identity import Fingerprint

_logger = logging.getLogger(__name__)


class VectorCache:
    """Vectors of one fingerprint on the disk, addressed by the sha256 of their text.

    Shards are mapped, not read: opening costs the headers and keys. A shard's digest is
    checked once in a process, when its first vector is asked for. A damaged shard is named in
    the log, moved to `damaged/`, and its texts count as missing from then on.

    Several processes may read and write at once. All methods may be called from several
    threads. Make one with `open`.

    Attributes:
        fingerprint: Of the encoder and texts.
        dtype: What vectors are stored in.
        damaged: Shards that this object found damaged, where they were.
    """

    def __init__(self, space: Space, fingerprint: Fingerprint, dtype: str) -> None:
        self.fingerprint, self.dtype = fingerprint, dtype
        self.damaged: list[Path] = []
        self._space = space
        self._width = fingerprint.encoder.width
        self._folder = space.shards(dtype)
        self._mutex = threading.RLock()
        self._names: set[str] = set()
        self._shards: list[Shard | None] = []  # None: damaged; its row numbers stay unused
        self._starts: list[int] = []
        self._next_row = 0
        self._checked: set[str] = set()
        self._own: set[str] = set()  # written here, and not joined into another since
        self._index: KeyIndex | None = None
        self.refresh()

    @classmethod
    def open(
        cls, root: Path | str, fingerprint: Fingerprint, probe: Floats, *, dtype: str = "float16"
    ) -> VectorCache:
        """Open the part of a cache that belongs to an encoder; make it if there is none.

        Args:
            root: The cache folder; vectors of many encoders live in it side by side.
            fingerprint: Of the encoder and its texts.
            probe: (p, d) float32. Vectors of the probe texts, fresh from the encoder: stored
                at the first use, compared at every later one.
            dtype: What to store vectors in: `float16`, `bfloat16` or `float32`. Vectors of
                another dtype in the same cache are neither read nor touched.

        Raises:
            BackboneMismatchError: If the cache was made with other weights of the same name.
            CacheError: If the folder is damaged, or cannot be read or written.
            ConfigError: If dtype is none of the three.
        """
        numpy_dtype(dtype)
        checked = as_rows(probe, width=fingerprint.encoder.width, name="probe")
        return cls(open_space(Path(root), fingerprint, checked), fingerprint, dtype)

    @property
    def width(self) -> int:
        """d, entries of a vector."""
        return self._width

    @property
    def folder(self) -> Path:
        """Where this encoder's vectors are."""
        return self._space.folder

    def __len__(self) -> int:
        """Rows at hand; a text that two processes embedded at once counts twice."""
        return sum(len(shard) for shard in self._shards if shard is not None)

    def refresh(self) -> bool:
        """Look for shards that other processes wrote; `find` does so when it misses a text.

        Returns:
            Whether there were any.
        """
        with self._mutex, cache_errors(self._folder, "read"):
            before = len(self._shards)
            while not self._adopt(self._unknown_names()):
                pass  # a file was merged away after it was listed: its rows are in a newer one
            return len(self._shards) > before

    def find(self, texts: Sequence[str]) -> Ids:
        """Row numbers of texts, for `matrix`.

        Args:
            texts: n texts, as the encoder reads them.

        Returns:
            (n,) int64, -1 for a text that is not in the cache. A row keeps its number as long
            as this object lives. Of a text that was stored twice, the shard whose name sorts
            first counts.
        """
        keys = text_keys(texts)
        with self._mutex:
            found = self._key_index().find(keys)
            if (found < 0).any() and self.refresh():
                found = self._key_index().find(keys)
            while not self._check_shards(self._shards_of(found)):
                found = self._key_index().find(keys)
            return found

    def has(self, texts: Sequence[str]) -> Bools:
        """(n,) bool, whether texts are in the cache. No vector is read, so no damage is seen."""
        keys = text_keys(texts)
        with self._mutex:
            found = self._key_index().find(keys)
            if (found < 0).any() and self.refresh():
                found = self._key_index().find(keys)
            return found >= 0

    def add(self, texts: Sequence[str], vectors: npt.ArrayLike) -> None:
        """Store vectors as one new shard; when this returns they are on the disk.

        Small shards that this object wrote are joined once there are many.

        Args:
            texts: n texts; of a text that comes twice the first vector is stored.
            vectors: (n, d), any real dtype, finite, no row zero.

        Raises:
            ShapeError: If there is not one good vector for each text. Nothing is stored.
            CacheError: If the disk is full or the folder cannot be written. Nothing is stored.
        """
        stored = self._storable(texts, vectors)
        if not len(stored):
            return
        keys = text_keys(texts)
        first = first_of_equal(keys)
        with cache_errors(self._folder, "write to"):
            self._folder.mkdir(exist_ok=True)
        # Shared with other writers: only `prune` must not take a half-written file for a leftover.
        with locked(self._space.lock, exclusive=False), self._mutex:
            path = write_shard(self._folder, keys[first], stored[first], self.dtype)
            with cache_errors(self._folder, "read"):
                self._adopt([path.name])
            self._checked.add(path.name)
            self._own.add(path.name)
            self._join()

    def rows(self, texts: Sequence[str]) -> Floats:
        """(n, d) float32 vectors of n texts, as they are stored.

        Raises:
            CacheError: If a text is not in the cache.
        """
        found = self.find(texts)
        missing = np.flatnonzero(found < 0)
        if missing.size:
            text = texts[missing[0]]
            msg = f"texts must be in the cache, got {missing.size} that are not, first {text!r:.60}"
            raise CacheError(msg)
        return self.gather(found)

    def gather(self, rows: Ids, *, out: Floats | None = None) -> Floats:
        """(n, d) float32 vectors of (n,) row numbers that `find` gave, in `out` if there is one."""
        with self._mutex:
            matrix = self._matrix()
        return matrix.read(rows, out=out)

    def matrix(self) -> StoredMatrix:
        """All rows as one matrix, addressed by the numbers that `find` gives.

        Checks the digest of every shard; vectors are read when they are asked for.
        """
        with self._mutex:
            while not self._check_shards(range(len(self._shards))):
                pass
            return self._matrix()

    def let_go(self) -> None:
        """Let go of the memory that vectors read so far take; none of them is lost."""
        with self._mutex:
            for shard in self._shards:
                if shard is not None:
                    shard.let_go()

    def rounded(self, vectors: Floats) -> Floats:
        """(n, d) float32 vectors as they would be after storing and reading them."""
        return to_floats(to_stored(vectors, self.dtype), self.dtype)

    def _matrix(self) -> StoredMatrix:
        blocks = [
            (start, shard.vectors)
            for start, shard in zip(self._starts, self._shards, strict=True)
            if shard is not None
        ]
        return StoredMatrix(blocks, width=self._width, dtype=self.dtype)

    def _storable(self, texts: Sequence[str], vectors: npt.ArrayLike) -> Stored:
        if not len(texts) and not np.size(vectors):
            return np.empty((0, self._width), numpy_dtype(self.dtype))
        rows = as_rows(vectors, width=self._width, name="vectors")
        if len(rows) != len(texts):
            msg = f"vectors must be {len(texts)}, one for each text, got {len(rows)}"
            raise ShapeError(msg)
        stored = to_stored(rows, self.dtype)
        back = to_floats(stored, self.dtype)
        bad = np.flatnonzero(~np.isfinite(back).all(axis=1) | ~back.any(axis=1))
        if bad.size:
            msg = (
                f"vectors must be finite and not zero as {self.dtype}, "
                f"got {bad.size} rows that are not, first row {bad[0]}"
            )
            raise ShapeError(msg)
        return stored

    def _unknown_names(self) -> list[str]:
        if not self._folder.is_dir():
            return []
        with os.scandir(self._folder) as entries:
            names = {e.name for e in entries if e.name.endswith(SUFFIX) and e.name[0] != "."}
        return sorted(names - self._names)

    def _adopt(self, names: Iterable[str]) -> bool:
        """Take shards in; False if one was gone before it could be opened."""
        for name in names:
            path = self._folder / name
            try:
                shard = Shard(path, width=self._width, dtype=self.dtype)
            except FileNotFoundError:
                return False
            except DamageError as e:
                self._names.add(name)
                self._set_aside(path, str(e))
                continue
            self._names.add(name)
            self._shards.append(shard)
            self._starts.append(self._next_row)
            self._next_row += len(shard)
            self._index = None
        return True

    def _join(self) -> None:
        """Make one shard of small ones that were written here, under the numbers of their rows."""
        run = run_to_join(self._shards, self._own)
        if run is None:
            return
        old = [shard for shard in self._shards[run] if shard is not None]
        try:
            one = joined(self._folder, old, self.dtype)
        except (CacheError, DamageError, OSError) as e:  # what was asked for is done; this can wait
            _logger.warning("small shards of %s are not joined yet: %s", self._folder, e)
            return
        self._shards[run], self._starts[run] = [one], [self._starts[run.start]]
        gone = {shard.path.name for shard in old}
        for names in (self._names, self._checked, self._own):
            names -= gone
            names.add(one.path.name)
        self._index = None
        for shard in old:  # last, so that a kill loses no row
            with suppress(OSError):
                shard.path.unlink(missing_ok=True)

    def _key_index(self) -> KeyIndex:
        if self._index is None:
            # By name, not by arrival: every process then serves the same of two equal keys.
            shards = [(s.path.name, at, s) for at, s in enumerate(self._shards) if s is not None]
            shards.sort(key=lambda named: named[0])
            keys = [np.empty((0, 32), np.uint8), *(shard.keys for _, _, shard in shards)]
            rows = [np.arange(len(s), dtype=np.int64) + self._starts[at] for _, at, s in shards]
            self._index = KeyIndex(
                np.concatenate(keys), np.concatenate([np.empty(0, np.int64), *rows])
            )
        return self._index

    def _shards_of(self, rows: Ids) -> Iterable[int]:
        hits = rows[rows >= 0]
        numbers: list[int] = np.unique(np.searchsorted(self._starts, hits, side="right")).tolist()
        return [number - 1 for number in numbers]

    def _check_shards(self, numbers: Iterable[int]) -> bool:
        """Check the digests of shards not checked yet; False if one was damaged and is gone."""
        numbered = [(number, self._shards[number]) for number in numbers]
        todo = [(n, s) for n, s in numbered if s is not None and s.path.name not in self._checked]
        if not todo:
            return True
        reasons = digest_damages([shard for _, shard in todo])
        self._checked.update(shard.path.name for _, shard in todo)
        for (number, shard), reason in zip(todo, reasons, strict=True):
            if reason is not None:
                self._shards[number] = None
                self._index = None
                self._set_aside(shard.path, reason)
        return not any(reasons)

    def _set_aside(self, path: Path, reason: str) -> None:
        self.damaged.append(path)
        _logger.warning("%s %s; it is set aside and its texts are embedded again", path, reason)
        # Another process may have moved it already; a cache that cannot be written stays as it is.
        with suppress(OSError):
            self._space.damaged.mkdir(exist_ok=True)
            path.replace(self._space.damaged / f"{self.dtype}-{path.name}")
