"""Files that appear whole or not at all, and the digest that tells one file from another.

Knows bytes and paths; what is in a file is for those who call.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from pathlib import Path

TEMPORARY = ".tmp-"
"""First letters of files that are being written. One without a writer is a leftover of a kill."""


def write_whole(
    path: str | os.PathLike[str],
    *parts: bytes | memoryview,
    make_folder: bool = True,
    mode: int = 0o666,
) -> Path:
    """Write a file so that a kill at any moment leaves the old one or the new one.

    The parts go to a temporary file in the same folder, which takes the name once all of it is
    on the disk.

    Args:
        path: The file; a link is followed, not replaced.
        parts: What to write, one after the other.
        make_folder: Whether to make its folder if need be.
        mode: Permissions of the file, less those that the process's umask takes.

    Returns:
        The path of the file itself, links followed.

    Raises:
        OSError: If it cannot be written; nothing is left behind.
    """
    target = Path(path).resolve()
    if make_folder:
        target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
    try:
        try:
            for part in parts:
                _write_all(descriptor, memoryview(part).cast("B"))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)
    return target


def file_sha256(path: str | os.PathLike[str]) -> str:
    """sha256 of a file's bytes, 64 hex digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_all(descriptor: int, part: memoryview) -> None:
    while part:
        part = part[os.write(descriptor, part) :]


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut."""
    if os.name == "nt":  # where a folder cannot be opened
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as e:
        if e.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems refuse it
            raise
    finally:
        os.close(descriptor)
