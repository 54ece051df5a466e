"""Ranking and mining over a million tools, tile by tile: seconds, memory, and whether it is exact.

    python benchmarks/jobs/tiles.py [--tools 1000000] [--queries 1000] [--width 384] [--seed 0]

Rows of tools and queries are random unit vectors, every tenth tool is the copy of another, so that
there are ties. Rows lie in a file that is mapped, as those of a large corpus do. Prints, as a
markdown table: seconds of the 100 best tools of all queries, and of hard negatives by rows of two
kinds; a share of them in one plain product of all queries with all tools; the most memory, mapped
files included and without them; and for some queries whether sorting all scores gives the same.
"""

from __future__ import annotations

import argparse
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
from run import memory_kb, unit_rows

from toolheads.arrays import Floats
from toolheads.scorers import row_file
from toolheads.scorers.best import best
from toolheads.scorers.exact import ProjectedTools, QueryProjections
from toolheads_train.labelling.mine import MiningSettings, mined_tools

K = 100
CHECKED = 5
MADE_AT_ONCE = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    row_file.HELD_BYTES = 0
    n, q, width = given.tools, given.queries, given.width
    with Watched() as memory:
        trained = ProjectedTools.of_rows(row_file.collected(n, width, made(given, given.seed)))
        base = ProjectedTools.of_rows(row_file.collected(n, width, made(given, given.seed + 1)))
        rows = unit_rows(np.random.default_rng(given.seed + 2), q, width)
        queries = QueryProjections(rows, rows[:0], np.zeros(q + 1, np.int64), 1.0, 0.0)
        whole = timed(lambda: multiply_all(rows, trained.rows))
        ranked = []
        ranking = timed(lambda: ranked.extend(best(trained.asked(queries), K)))
        rights = [np.array([at * 7919 % n]) for at in range(q)]
        settings = MiningSettings(margin=0.0)
        asked = trained.asked(queries), base.asked(queries)
        mining = timed(lambda: list(mined_tools(*asked, rights, settings)))
    same = all(is_exact(trained, queries, at, ranked[at]) for at in range(min(CHECKED, q)))
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs"
    print(f"{machine}, numpy {np.__version__}; {n:,} tools, {q:,} queries, width {width}\n")
    print("| what | measured |\n|---|---:|")
    print(f"| one plain product of all, in the same tiles | {whole:.1f} s |")
    print(f"| the {K} best of each query | {ranking:.1f} s |")
    print(f"| hard negatives of each query | {mining:.1f} s |")
    print(f"| most memory, mapped files included | {memory.peak_kb / 2**10:,.0f} MiB |")
    print(f"| most memory of its own | {memory.own_kb / 2**10:,.0f} MiB |")
    print(f"| all scores at once would take | {4 * n * q / 2**20:,.0f} MiB |")
    print(f"| rows | {4 * n * width / 2**20:,.0f} MiB each of two files |")
    print(f"| {CHECKED} queries against sorting all scores | {'equal' if same else 'OTHER'} |")


def made(given: argparse.Namespace, seed: int) -> Iterator[Floats]:
    rng = np.random.default_rng(seed)
    for start in range(0, given.tools, MADE_AT_ONCE):
        rows = unit_rows(rng, min(MADE_AT_ONCE, given.tools - start), given.width)
        rows[9::10] = rows[8::10][: len(rows[9::10])]
        yield rows


def multiply_all(queries: Floats, tools: Floats) -> None:
    for start in range(0, len(queries), 256):
        for first in range(0, len(tools), 1 << 16):
            queries[start : start + 256] @ tools[first : first + (1 << 16)].T
            row_file.let_go(tools)


def is_exact(tools: ProjectedTools, queries: QueryProjections, at: int, found: tuple) -> bool:
    asked = tools.asked(queries)
    parts = [
        asked.exact(at, np.arange(start, min(start + MADE_AT_ONCE, len(tools))))
        for start in range(0, len(tools), MADE_AT_ONCE)
    ]
    scores = np.concatenate(parts)
    order = np.argsort(-scores, kind="stable")[:K]
    return np.array_equal(order, found[0]) and np.array_equal(scores[order], found[1])


class Watched:
    """Samples the memory of this process."""

    def __init__(self) -> None:
        self.peak_kb = self.own_kb = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> Watched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.peak_kb = memory_kb(os.getpid(), "VmHWM")

    def _sample(self) -> None:
        while not self._ended.wait(0.02):
            self.own_kb = max(self.own_kb, memory_kb(os.getpid(), "RssAnon"))


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
