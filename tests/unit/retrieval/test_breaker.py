from __future__ import annotations

import pytest

from toolheads.retrieval.breaker import Breaker


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def breaker(clock):
    return Breaker(failures=3, retry_s=1.0, most_retry_s=3.0, clock=clock)


def test_it_opens_after_so_many_failures_in_a_row(breaker):
    breaker.failed("one")
    breaker.failed("two")
    assert breaker.allows()
    breaker.failed("three")
    assert not breaker.allows()
    assert (breaker.circuit, breaker.reason, breaker.total) == ("open", "three", 3)


def test_a_use_that_works_begins_the_count_anew(breaker):
    for _ in range(5):
        breaker.failed("now and then")
        breaker.failed("now and then")
        breaker.worked()
    assert breaker.is_closed
    assert breaker.reason is None


def test_a_late_success_does_not_close_it(breaker):
    breaker.failed("sure", opens=True)
    breaker.worked()
    assert not breaker.is_closed


def test_one_caller_may_try_it_when_the_time_has_come(breaker, clock):
    breaker.failed("sure", opens=True)
    assert (breaker.allows(), breaker.retry_in_s) == (False, 1.0)
    clock.now = 1.0
    assert [breaker.allows() for _ in range(3)] == [True, False, False]
    assert breaker.circuit == "half_open"
    breaker.succeeded()
    assert breaker.allows()
    assert breaker.retry_in_s == 0


def test_each_failed_try_doubles_the_wait_up_to_the_most(breaker, clock):
    breaker.failed("sure", opens=True)
    waits = []
    for _ in range(4):
        clock.now += breaker.retry_in_s
        assert breaker.allows()
        breaker.failed("still")
        waits.append(breaker.retry_in_s)
    assert waits == [2.0, 3.0, 3.0, 3.0]
    clock.now += 3
    assert breaker.allows()
    breaker.succeeded()
    breaker.failed("again", opens=True)
    assert breaker.retry_in_s == 1.0


def test_failures_of_what_began_before_do_not_put_the_try_off(breaker, clock):
    breaker.failed("sure", opens=True)
    clock.now = 0.9
    breaker.failed("late")
    assert breaker.retry_in_s == pytest.approx(0.1)
    assert breaker.total == 2


def test_one_that_starts_open_is_due_at_once(breaker):
    breaker.opened("starting")
    assert not breaker.is_closed
    assert breaker.reason == "starting"
    assert breaker.allows()
