"""One writer at a time in a folder, whichever process it is in."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolheads.errors import IndexStoreError

_PAUSE_S = 0.01


@contextmanager
def write_lock(path: Path, *, timeout_s: float) -> Iterator[None]:
    """Hold a lock file. The operating system drops the lock of a process that is killed.

    POSIX only; reading needs no lock.

    Raises:
        IndexStoreError: If another writer holds it for longer than `timeout_s`.
        OSError: If the file cannot be made.
    """
    import fcntl

    until = time.monotonic() + timeout_s
    with path.open("ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as e:
                if time.monotonic() >= until:
                    msg = f"{path} must be free within {timeout_s:g} s, got another writer in it"
                    raise IndexStoreError(msg) from e
            time.sleep(_PAUSE_S)
        yield
