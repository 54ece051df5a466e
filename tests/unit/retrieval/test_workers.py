from __future__ import annotations

import threading

import pytest
from tests.unit.retrieval.worlds import soon

from toolheads.retrieval.workers import Workers


@pytest.fixture
def gate():
    gate = threading.Event()
    yield gate
    gate.set()


def made(workers, waiting):
    """Untyped, so that a refused call is an error of the test and not of its types."""
    return Workers("w", workers=workers, waiting=waiting)


def hung(gate):
    return lambda: gate.wait(30)


def test_a_call_is_run_and_its_outcome_handed_over():
    workers = made(2, 4)
    assert workers.submit(lambda: 5).result(5) == 5
    assert isinstance(workers.submit(lambda: 1 / 0).exception(5), ZeroDivisionError)
    assert workers.submit(lambda: 6).result(5) == 6
    workers.close()


def test_as_many_run_and_wait_as_may_and_the_next_is_refused(gate):
    workers = made(2, 2)
    running = [workers.submit(hung(gate)) for _ in range(2)]
    assert soon(lambda: all(future.running() for future in running))
    waiting = [workers.submit(hung(gate)) for _ in range(2)]
    assert None not in waiting
    assert workers.submit(hung(gate)) is None
    gate.set()
    assert all(future.result(5) for future in (*running, *waiting))


def test_a_call_that_is_cancelled_before_its_turn_is_passed_over(gate):
    workers = made(1, 4)
    first = workers.submit(hung(gate))
    assert soon(first.running)
    ran = []
    second, third = (workers.submit(lambda i=i: ran.append(i)) for i in (2, 3))
    assert second.cancel()
    gate.set()
    third.result(5)
    assert ran == [3]


def test_closing_cancels_what_waits_and_takes_no_more(gate):
    workers = made(1, 4)
    first = workers.submit(hung(gate))
    assert soon(first.running)
    second = workers.submit(hung(gate))
    workers.close()
    assert second.cancelled()
    assert workers.submit(lambda: 1) is None


def test_threads_are_daemons_and_end_after_closing():
    workers = Workers[int]("w-of-this-test", workers=2, waiting=4)
    future = workers.submit(lambda: 1)
    assert future is not None
    future.result(5)

    def mine():
        return [t for t in threading.enumerate() if t.name == "w-of-this-test"]

    assert all(thread.daemon for thread in mine())
    workers.close()
    assert soon(lambda: not mine())
