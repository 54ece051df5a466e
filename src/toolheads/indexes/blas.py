"""Keeps the threads of numpy's matrix library in check, for a process that serves.

A server answers many requests at once, each in a thread of its own. A BLAS that starts a thread
for each core in each of them makes all of them slower. The number of its threads belongs to the
process, so it is set once, at the start, and not by each search.
"""

from __future__ import annotations

from importlib import import_module

from toolheads.indexes.checks import check_at_least


def limit_blas_threads(threads: int) -> bool:
    """Let the BLAS libraries that are loaded use at most so many threads, from now on.

    Args:
        threads: >= 1.

    Returns:
        Whether they could be told. Without the library threadpoolctl they cannot:
        `OPENBLAS_NUM_THREADS=1` in the environment of the process does the same.

    Raises:
        ConfigError: If threads is no whole number >= 1.
    """
    check_at_least(1, threads, "threads")
    try:
        threadpoolctl = import_module("threadpoolctl")
    except ImportError:
        return False
    threadpoolctl.threadpool_limits(limits=int(threads), user_api="blas")
    return True
