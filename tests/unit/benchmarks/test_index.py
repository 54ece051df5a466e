"""The parts of the index benchmark that make rows and read clocks."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from benchmarks.index.clocks import Clock
from benchmarks.index.vectors import recombined

ROWS = np.random.default_rng(0).normal(size=(100, 64)).astype(np.float32)


def test_the_rows_of_tools_come_first_and_mixtures_of_two_after_them():
    rng = np.random.default_rng(1)
    blocks = [recombined(ROWS, start, 60, rng) for start in range(0, 300, 60)]
    made = np.concatenate(blocks)
    np.testing.assert_array_equal(made[:100], ROWS)
    unit, near = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (ROWS, made[100:]))
    cosines = np.sort(near @ unit.T, axis=1)
    assert len(made) == 300
    assert (cosines[:, -1] > 0.6).all()
    assert (cosines[:, -1] < 0.999).all()
    assert np.mean(cosines[:, -2]) > np.mean(cosines[:, -3]) + 0.05  # two of them are in it
    lengths = np.linalg.norm(made[100:], axis=1)
    assert lengths.min() > 0.9 * np.linalg.norm(ROWS, axis=1).min()


def test_time_of_a_search_is_that_of_its_own_thread():
    def work():
        until = time.thread_time() + 0.2
        while time.thread_time() < until:
            pass

    clock = Clock()
    before, built = clock.search(), clock.build()
    other = threading.Thread(target=work)
    other.start()
    other.join()
    assert clock.search() - before < 0.1
    work()
    assert clock.search() - before > 0.2
    assert clock.build() - built > 0.4


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="reads /proc")
def test_time_of_a_build_is_also_that_of_the_servers_processes():
    work = "t = __import__('time'); e = t.process_time() + {}\nwhile t.process_time() < e: pass"
    server = (
        "import subprocess, sys\n"
        f"ended = subprocess.run([sys.executable, '-c', {work.format(0.3)!r}])\n"
        f"backend = subprocess.Popen([sys.executable, '-c', {work.format(0.3)!r} + "
        "'\\nprint(1, flush=True); input()'], stdin=subprocess.PIPE)\n"
        "print(backend.pid, flush=True); input()\n"
        "backend.communicate(b'\\n')"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", server], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    own = time.process_time()
    clock = Clock(int(process.stdout.readline()))
    assert process.stdout.readline() == b"1\n"
    assert clock.build() - own > 0.55
    assert clock.search() - time.thread_time() > 0.25
    process.communicate(b"\n")
