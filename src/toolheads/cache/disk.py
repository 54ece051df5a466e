"""Writing so that a kill at any moment leaves the old state or the new one. Knows no vectors."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from toolheads.errors import CacheError

Part = bytes | memoryview
"""A piece of a file."""

TEMPORARY = ".tmp-"
"""First letters of files that are being written. One without a writer is a leftover of a kill."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def write_atomically(folder: Path, name: str, parts: Sequence[Part]) -> Path:
    """Write a file under its final name only once all of it is on the disk.

    Raises:
        CacheError: If the disk is full or the folder cannot be written; nothing is left behind.
    """
    with cache_errors(folder, "write to"):
        temporary = folder / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}"
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        try:
            try:
                for part in parts:
                    _write_all(descriptor, memoryview(part).cast("B"))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            path = temporary.replace(folder / name)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(folder)
    return path


def write_by_digest(folder: Path, parts: Sequence[Part], *, suffix: str) -> Path:
    """Write a file whose name is its own sha256, so that any later damage shows."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return write_atomically(folder, digest.hexdigest() + suffix, parts)


def has_own_digest(path: Path) -> bool:
    """Whether the sha256 of a file is the one in its name."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == path.name.partition(".")[0]


@contextmanager
def locked(path: Path, *, exclusive: bool) -> Iterator[None]:
    """Hold the lock of a folder: writers share it, `prune` holds it alone.

    The operating system drops the lock of a process that is killed. POSIX only.
    """
    import fcntl  # not there on Windows; reading a cache does not need it

    with cache_errors(path.parent, "lock"):
        file = path.open("ab")
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


def _write_all(descriptor: int, part: memoryview) -> None:
    while part:
        part = part[os.write(descriptor, part) :]


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as e:
        if e.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems refuse it
            raise
    finally:
        os.close(descriptor)
