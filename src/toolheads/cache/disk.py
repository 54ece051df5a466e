"""The folder of a cache: writing by digest, locks, and errors in one line. Knows no vectors."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from toolheads.durable import file_sha256, write_whole
from toolheads.errors import CacheError

Part = bytes | memoryview
"""A piece of a file."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def write_atomically(folder: Path, name: str, parts: Sequence[Part]) -> Path:
    """Write a file under its final name only once all of it is on the disk.

    Raises:
        CacheError: If the disk is full or the folder cannot be written; nothing is left behind.
    """
    path = folder / name
    with cache_errors(folder, "write to"):
        write_whole(path, *parts, make_folder=False)
    return path


def write_by_digest(folder: Path, parts: Sequence[Part], *, suffix: str) -> Path:
    """Write a file whose name is its own sha256, so that any later damage shows."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return write_atomically(folder, digest.hexdigest() + suffix, parts)


def has_own_digest(path: Path) -> bool:
    """Whether the sha256 of a file is the one in its name."""
    return file_sha256(path) == path.name.partition(".")[0]


@contextmanager
def locked(path: Path, *, exclusive: bool) -> Iterator[None]:
    """Hold the lock of a folder: writers share it, `prune` holds it alone.

    The operating system drops the lock of a process that is killed. POSIX only.
    """
    import fcntl  # not there on Windows; reading a cache does not need it

    with cache_errors(path.parent, "lock"):
        # Network file systems share a lock only through a file that is open for reading, too.
        file = path.open("a+b")
    with file:
        with cache_errors(path.parent, "lock"):
            fcntl.flock(file, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield


@contextmanager
def cache_errors(place: Path, action: str) -> Iterator[None]:
    """Turn an error of the operating system into one clear line about the cache."""
    try:
        yield
    except CacheError:
        raise
    except OSError as e:
        reason = e.strerror or str(e)
        if e.errno in _FULL:
            msg = (
                f"cache folder {place} must have room, got {reason!r}; free some space and run "
                "the same again, what was stored before is kept"
            )
        else:
            msg = f"cannot {action} cache folder {place}: {reason}"
        raise CacheError(msg) from e
