"""Free memory goes back to the system after a change of the catalogue."""

from __future__ import annotations

import asyncio
import ctypes
import subprocess
import sys

import pytest

from toolheads.serving.heaps import give_back, give_back_after_changes

_HOLES = """
from toolheads.serving.heaps import give_back

def resident_kb():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))

blocks = [bytes(30_000) for _ in range(2_000)]
kept = blocks[::40]  # what stays, between what goes: the heap cannot shrink at its end
del blocks
before = resident_kb()
give_back()
print(before - resident_kb())
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc"
)
def test_memory_that_is_free_between_what_stays_is_given_back():
    done = subprocess.run(
        [sys.executable, "-c", _HOLES], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) > 40_000  # of 58,500 kB that are free


@pytest.mark.parametrize("error", [OSError, AttributeError, TypeError])
def test_a_system_without_such_heaps_is_left_alone(monkeypatch, error):
    def fail(_):
        raise error

    monkeypatch.setattr(ctypes, "CDLL", fail)
    assert not give_back()


def test_it_is_given_back_once_after_each_change_and_not_in_between():
    given: list[None] = []
    states = iter("aaabbbaa")

    async def looked():
        with pytest.raises(StopAsyncIteration):
            await give_back_after_changes(state, look_s=0.0, give=give)

    def state():
        now = next(states, None)
        if now is None:
            raise StopAsyncIteration
        return now

    def give():
        given.append(None)
        return True

    asyncio.run(looked())
    assert len(given) == 3


def test_it_ends_where_nothing_can_be_given_back():
    numbers = iter(range(100))
    asyncio.run(
        asyncio.wait_for(
            give_back_after_changes(lambda: next(numbers), look_s=0.0, give=lambda: False), 5
        )
    )
    assert next(numbers) == 1
