"""A few threads for calls that may hang, and a bounded queue before them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class Workers(Generic[T]):
    """Runs calls in threads of its own, which end with the process even if they hang.

    Args:
        name: Of the threads.
        workers: Calls in flight at once.
        waiting: Calls that may wait.
    """

    def __init__(self, name: str, *, workers: int, waiting: int) -> None:
        self._name, self._most = name, workers
        self._queue: queue.Queue[tuple[Future[T], Callable[[], T]] | None] = queue.Queue(waiting)
        self._mutex = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._is_closed = False

    def submit(self, call: Callable[[], T]) -> Future[T] | None:
        """Run a call; None if as many are waiting as may.

        A future that is cancelled before its turn is passed over.
        """
        future: Future[T] = Future()
        with self._mutex:
            if self._is_closed:
                return None
            try:
                self._queue.put_nowait((future, call))
            except queue.Full:
                return None
            if self._queue.qsize() > self._idle and self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
        return future

    def close(self) -> None:
        """Let the threads end once they are done; calls that wait are cancelled."""
        with self._mutex:
            self._is_closed = True
            while True:
                try:
                    task = self._queue.get_nowait()
                except queue.Empty:
                    break
                if task is not None:
                    task[0].cancel()
            for _ in range(min(self._threads, self._queue.maxsize)):
                self._queue.put_nowait(None)

    def _work(self) -> None:
        while True:
            with self._mutex:
                self._idle += 1
            task = self._queue.get()
            with self._mutex:
                self._idle -= 1
            if task is None:
                return
            run(*task)
            del task  # a future holds its result as long as it is held
            if self._is_closed:
                return


def run(future: Future[T], call: Callable[[], T]) -> None:
    """Run one call and hand its outcome over, whatever it is, as an executor does."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as e:  # the thread's own end: the waiting one raises it
        future.set_exception(e)
    else:
        future.set_result(result)
