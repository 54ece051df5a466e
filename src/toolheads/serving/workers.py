"""Threads for searches: those that wait for the encoder never stand before those that do not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Result = TypeVar("_Result")

_PATIENCE_S = 1.0
"""How long a search waits for a free thread before it is answered without the encoder."""


class Workers:
    """A fixed number of threads. A job whose request is gone is not begun.

    Args:
        threads: Most jobs at once.
        name: Of the threads.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._free = asyncio.Semaphore(threads)

    async def run(self, job: Callable[[], _Result]) -> _Result:
        """Run a job in a thread, and wait for it."""
        await self._free.acquire()
        return await self._run(job)

    async def run_soon(self, job: Callable[[], _Result]) -> _Result | None:
        """Run a job in a thread; None if no thread gets free soon."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._free.acquire()
        except TimeoutError:
            return None
        return await self._run(job)

    def close(self) -> None:
        """Let the threads end; jobs that run are not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _run(self, job: Callable[[], _Result]) -> _Result:
        # The place is given back when the thread is done, even if nobody waits for it any more.
        future = self._pool.submit(job)
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda _: _give_back(loop, self._free))
        return await asyncio.wrap_future(future)


def _give_back(loop: asyncio.AbstractEventLoop, free: asyncio.Semaphore) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(free.release)
