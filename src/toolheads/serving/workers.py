"""Threads for what takes long, and waiting without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol, TypeVar

_Result = TypeVar("_Result")

_PATIENCE_S = 1.0
"""How long a job waits for a free thread before it is done in another way."""


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


class Ending(Protocol):
    """What ends in another thread, or not at all."""

    @property
    def left_s(self) -> float:
        """Seconds to wait for it at most."""
        ...

    def when_done(self, call: Callable[[], object]) -> None:
        """Call this once it has ended, in any thread; at once if it has."""
        ...


async def ended(one: Ending) -> None:
    """Wait until it has ended or its time is up."""
    loop = asyncio.get_running_loop()
    is_done = asyncio.Event()
    one.when_done(lambda: _tell(loop, is_done.set))
    with suppress(TimeoutError):
        async with asyncio.timeout(one.left_s):
            await is_done.wait()


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # the loop has been closed meanwhile
        loop.call_soon_threadsafe(call)


def _give_back(loop: asyncio.AbstractEventLoop, free: asyncio.Semaphore) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(free.release)
