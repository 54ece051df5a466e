"""Rates beside the machine's matrix product, which is measured in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np

from toolheads.arrays import Floats

T = TypeVar("T")

_ROWS = 2048


@dataclass
class Rates:
    """Operations, and what they took by the clock and on the processors."""

    operations: float = 0.0
    wall_s: float = 0.0
    cpu_s: float = 0.0

    def add(self, operations: float, work: Callable[[], T]) -> T:
        """Do some work and count it."""
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        self.wall_s += time.perf_counter() - wall
        self.cpu_s += time.process_time() - cpu
        self.operations += operations
        return result

    def share_of(self, ceiling: Rates) -> tuple[float, float]:
        """By the clock, and by processor time: as if nothing else ran on the machine."""
        wall = self.operations / self.wall_s / (ceiling.operations / ceiling.wall_s)
        cpu = self.operations / self.cpu_s / (ceiling.operations / ceiling.cpu_s)
        return wall, cpu


def product(rates: Rates, width: int, threads: int) -> None:
    """One large float32 product in each thread, so that none waits for another.

    The BLAS must have one thread, see `toolheads.indexes.limit_blas_threads`.
    """
    one, two = _factors(width)
    with ThreadPoolExecutor(threads) as pool:
        rates.add(
            threads * 2 * _ROWS * width * _ROWS,
            lambda: list(pool.map(lambda _: one @ two, range(threads))),
        )


@cache
def _factors(width: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    shapes = (_ROWS, width), (width, _ROWS)
    one, two = (rng.standard_normal(shape, np.float32) for shape in shapes)
    one @ two
    return one, two
