"""`toolheads serve` beside `callbus serve`: start, searches, memory, one changed tool.

    benchmarks/serve/run.sh [DATA_DIR] [--quick]

Both serve the same tools with frozen vectors from the same embeddings server, which answers at
once; both run as they come, usage log included. Each server runs alone, one after the other, with
the clients and the embeddings server on the same machine. Prints a markdown table; single figures
go to results.json in the work folder.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.serve.catalogues import (
    drawn_queries,
    drawn_tools,
    write_callbus,
    write_catalogues,
    write_toolheads,
)
from benchmarks.serve.clients import Connection, Load, search_load
from benchmarks.serve.servers import (
    ROOT,
    SYSTEMS,
    Process,
    ServerFailedError,
    command,
    embeddings_server,
    free_port,
    ready,
    started,
)
from benchmarks.serve.table import render

from toolheads.evaluation.report import machine_kind

_PATIENCE_S = 120.0

_MARK = "quixotic zeppelin marmalade oscilloscope wombat"
"""Words that no other tool has."""


@dataclass(frozen=True)
class Size:
    tools: tuple[int | None, ...]
    """Catalogues that are started; None takes all tools there are."""
    searched: int
    """The catalogue that is searched and changed."""
    clients: tuple[int, ...]
    seconds: float
    """Of each load."""
    cached: int
    """Queries that are asked again and again."""
    changes: int
    """How often one tool is changed."""


FULL = Size((50, 10_000, None), 10_000, (1, 8, 64), 5.0, 50, 5)
QUICK = Size((50, 500), 500, (1, 8), 0.5, 10, 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("data", nargs="?", type=Path, metavar="DATA_DIR", help="default: sample")
    parser.add_argument("--callbus", type=Path, required=True, metavar="COMMAND")
    parser.add_argument("--work", type=Path, default=ROOT / "benchmarks/serve/work/run")
    parser.add_argument(
        "--tools", type=int, nargs="+", metavar="N", help="catalogues to start; 0 is all there are"
    )
    parser.add_argument("--no-searches", action="store_true", help="starts alone")
    parser.add_argument("--only", choices=SYSTEMS, help="one side alone")
    parser.add_argument("--quick", action="store_true", help="does it run? small sizes, no figures")
    args = parser.parse_args()
    try:
        found = Benchmark(args).run()
    except (ServerFailedError, ValueError) as e:
        sys.stderr.write(f"benchmarks/serve: {e}\n")
        return 1
    print(render(found))
    return 0


class Benchmark:
    """One run, step by step."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.size = QUICK if args.quick else FULL
        if args.tools:
            self.size = replace(self.size, tools=tuple(n or None for n in args.tools))
        self.is_searched: bool = not args.no_searches
        self.root: Path = args.data.resolve() if args.data else _sample()
        self.work: Path = args.work.resolve()
        self.callbus: Path = args.callbus.absolute()
        self.systems: Sequence[str] = [args.only] if args.only else SYSTEMS
        self.is_quick: bool = args.quick
        self.queries = drawn_queries(self.root)

    def run(self) -> dict[str, Any]:
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        load = os.getloadavg()[0]
        tools = drawn_tools(self.root, None)
        counts = list(dict.fromkeys(min(n or len(tools), len(tools)) for n in self.size.tools))
        searched = min(self.size.searched, len(tools))
        found: dict[str, Any] = {
            "machine": {**machine_kind(), "load_1_min": load},
            "quick": self.is_quick,
            "searched": searched,
            "seconds": self.size.seconds,
            "data": self.root.name,
            "rows": [],
        }
        with embeddings_server() as (port, _):
            self.embeddings = port
            for count in counts:
                write_catalogues(self.work / str(count), tools[:count])
                for system in self.systems:
                    self._keep(found, self._starts(system, count))
                if count == searched and self.is_searched:
                    for system in self.systems:
                        rows = asyncio.run(self._searches(system, searched, tools[:searched]))
                        self._keep(found, rows)
        return found

    def _keep(self, found: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        """What was measured so far is on the disk, too."""
        found["rows"] += rows
        text = json.dumps(found, indent=1) + "\n"
        (self.work / "results.json").write_text(text, encoding="utf-8")

    def _server(self, system: str, count: int) -> Any:
        port = free_port()
        folder = self.work / str(count) / system
        words = command(system, folder, embeddings=self.embeddings, callbus=self.callbus, port=port)
        return started(words, port, self.work / f"{system}.log")

    def _starts(self, system: str, count: int) -> list[dict[str, Any]]:
        rows = []
        for kind in ("cold", "warm"):
            _tell(f"{system}: {kind} start with {count:,} tools")
            with self._server(system, count) as process:
                found = asyncio.run(ready(process, system))
            about = {"what": "start", "system": system, "tools": count, "kind": kind}
            rows.append({**about, **asdict(found)})
        return rows

    async def _searches(self, system: str, count: int, tools: list[Any]) -> list[dict[str, Any]]:
        with self._server(system, count) as process:
            await ready(process, system)
            known = [next(self.queries) for _ in range(self.size.cached)]
            waiting = iter(known)
            await search_load(process.port, 1, 1.0, lambda: next(waiting, known[0]))
            rows = [
                await self._load(process, system, clients, kind, known)
                for clients in self.size.clients
                for kind in ("cached", "new")
            ]
            rows.append({"what": "memory", "system": system, "mb": process.memory_mb()})
            return rows + [
                await self._change(process, system, count, tools, known, number)
                for number in range(self.size.changes)
            ]

    async def _load(
        self, process: Process, system: str, clients: int, kind: str, known: list[str]
    ) -> dict[str, Any]:
        _tell(f"{system}: {kind} queries, {clients} clients")
        turn = iter(range(1 << 60))
        text = (
            (lambda: next(self.queries))
            if kind == "new"
            else (lambda: known[next(turn) % len(known)])
        )
        cpu = process.cpu_s()
        load: Load = await search_load(process.port, clients, self.size.seconds, text)
        cpu = process.cpu_s() - cpu
        count = len(load.seconds)
        return {
            "what": "search",
            "system": system,
            "clients": clients,
            "kind": kind,
            "searches": count,
            "per_second": load.per_second,
            "p50_ms": load.ms(0.5),
            "p99_ms": load.ms(0.99),
            "cpu_ms": 1e3 * cpu / max(count, 1),
            "answer_bytes": load.answer_bytes / max(count, 1),
            "by_words": load.by_words,
            "failures": len(load.failures),
            "first_failure": load.failures[0] if load.failures else "",
        }

    async def _change(
        self,
        process: Process,
        system: str,
        count: int,
        tools: list[Any],
        known: list[str],
        number: int,
    ) -> dict[str, Any]:
        """Seconds from the written file until a search has the tool first, by vectors."""
        _tell(f"{system}: change one of {count:,} tools")
        text = " ".join(f"{word}{number}" for word in _MARK.split())
        changed = [replace(tools[0], description=text), *tools[1:]]
        folder = self.work / str(count) / system
        write = write_callbus if system == "callbus" else write_toolheads
        cpu, stop = process.cpu_s(), asyncio.Event()
        beside = asyncio.create_task(_watched(process.port, known, stop))
        await asyncio.to_thread(write, folder, changed)
        seen_at = await _seen_at(process.port, text, changed[0].id)
        await asyncio.sleep(0.5)
        stop.set()
        return {
            "what": "change",
            "system": system,
            "seconds": seen_at - (folder / "tools.jsonl").stat().st_mtime,
            "cpu_s": process.cpu_s() - cpu,
            "slowest_ms": 1e3 * max(await beside),
            "peak_mb": process.memory_mb("VmHWM"),
        }


async def _watched(port: int, known: Sequence[str], stop: asyncio.Event) -> list[float]:
    """Seconds of cached searches, one every 5 ms."""
    connection, seconds, number = Connection(port), [], 0
    while not stop.is_set():
        start, number = time.perf_counter(), number + 1
        body = {"query": known[number % len(known)], "k": 10}
        await connection.ask("POST", "/v1/search", body)
        seconds.append(time.perf_counter() - start)
        await asyncio.sleep(0.005)
    connection.close()
    return seconds


async def _seen_at(port: int, text: str, tool_id: str) -> float:
    """When a search by vectors first has the tool at its head, in seconds since 1970."""
    connection, began = Connection(port), time.perf_counter()
    try:
        while time.perf_counter() - began < _PATIENCE_S:
            _, raw = await connection.ask("POST", "/v1/search", {"query": text, "k": 3})
            said = json.loads(raw)
            if said["mode"] != "lexical" and said["tools"]:
                first = said["tools"][0]
                if tool_id == first.get("id", first["name"]):
                    return time.time()
            await asyncio.sleep(0.01)
    finally:
        connection.close()
    msg = f"a changed tool must be found within {_PATIENCE_S} s"
    raise ServerFailedError(msg)


def _sample() -> Path:
    from toolheads.sample import sample_folder

    return Path(sample_folder())


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
