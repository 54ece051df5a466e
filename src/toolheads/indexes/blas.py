"""Keeps the threads of the matrix library in check while a server searches.

A server answers many requests at once, each in a thread of its own. A BLAS that starts a thread
for each core in each of them makes all of them slower.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from importlib import import_module
from typing import Any


class _SharedLimit:
    """A limit that is set by the first who enters and lifted by the last who leaves.

    The number of BLAS threads belongs to the process: to set and restore it in each search would
    let searches that overlap restore each other's limit.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limit: Any = None

    @contextmanager
    def held(self, threads: int) -> Iterator[None]:
        with self._lock:
            if not self._inside:
                self._limit = _controller().limit(limits=threads, user_api="blas")
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    self._limit.restore_original_limits()


_shared = _SharedLimit()


def blas_threads(threads: int) -> Any:
    """A context in which the BLAS of numpy uses at most so many threads.

    Without the library threadpoolctl nothing is limited; `OPENBLAS_NUM_THREADS=1` in the
    environment of the process then does the same.

    Args:
        threads: >= 1; 0 leaves the BLAS as it is. Of limits that overlap the first counts.
    """
    return _shared.held(threads) if threads and _controller() is not None else nullcontext()


@cache
def _controller() -> Any:
    """Knows the BLAS libraries that are loaded; None without threadpoolctl."""
    try:
        return import_module("threadpoolctl").ThreadpoolController()
    except ImportError:
        return None
