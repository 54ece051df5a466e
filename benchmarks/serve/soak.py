"""`toolheads serve` under load while everything around it fails, again and again.

    python -m benchmarks.serve.soak [DATA_DIR] [--minutes 10] [--work DIR]

Four clients search over REST (half of the queries are new), one over MCP, one calls a tool.
Meanwhile the encoder is killed or hangs, and comes back; an MCP backend crashes; the folder of the
usage log is taken away, or a file stands in its place; tools.jsonl is rewritten every second with
one tool changed. Counts searches that failed and events that were lost, and fits a line to the
server's memory. Ends with 1 if a search failed, an event was lost, or memory grew.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.serve.catalogues import SOURCE, drawn_queries, drawn_tools, write_toolheads
from benchmarks.serve.clients import quantile
from benchmarks.serve.faults import Faults
from benchmarks.serve.load import SoakLoad
from benchmarks.serve.servers import (
    Process,
    command,
    embeddings_server,
    free_port,
    ready,
    started,
)
from tests import mcp_peer

from toolheads.catalogue import change, tool_id
from toolheads.domain import Tool
from toolheads.evaluation.report import machine_kind

MOST_GROWTH = 0.05
"""Of memory, over the time after the warm-up, by the fitted line."""

_WARM_UP = 0.3
"""Share of the time that is not looked at: caches fill."""

_SAMPLE_S = 2.0
PEER = "peer"


@dataclass(frozen=True)
class Sample:
    """Of the server, at one moment."""

    minutes: float
    rss_mb: float
    anon_mb: float
    disk_mb: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("data", nargs="?", type=Path, metavar="DATA_DIR", help="default: sample")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--tools", type=int, default=1000)
    parser.add_argument("--work", type=Path, help="kept; default: a temporary folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = (args.work or Path(temporary)).resolve()
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        found = asyncio.run(_soak(args.data or _sample(), work, args.minutes, args.tools))
    print(rendered(found))
    return 0 if found["passed"] else 1


async def _soak(root: Path, work: Path, minutes: float, count: int) -> dict[str, Any]:
    folder = work / "catalogue"
    tools = drawn_tools(root, count)
    write_toolheads(folder, tools)
    _add_peer(folder)
    with embeddings_server() as (encoder_port, encoder):
        port = free_port()
        words = command("toolheads", folder, embeddings=encoder_port, callbus=Path(), port=port)
        load_1_min = os.getloadavg()[0]
        with started(words, port, work / "server.log") as process:
            await ready(process, "toolheads")
            load = SoakLoad(port, drawn_queries(root), PEER)
            faults = Faults(folder, work / "graves", tools, SOURCE, encoder_port, encoder, load)
            try:
                samples = await _run(process, load, faults, folder, 60 * minutes)
                health = await load.health_once_dense()
            finally:
                faults.close()
            process.stop()
            code = process.popen.returncode
    lost = load.lost_events(logged_ids(faults.logs()))
    window = [s for s in samples if s.minutes >= _WARM_UP * minutes]
    growth = {name: growth_of(window, name) for name in ("rss_mb", "anon_mb", "disk_mb")}
    passed = (
        not load.failures
        and not lost
        and code == 0
        and not health["degraded"]
        and growth["rss_mb"][1] <= MOST_GROWTH
    )
    return {
        "machine": {**machine_kind(), "load_1_min": load_1_min},
        "minutes": minutes,
        "tools": len(tools),
        "load": load,
        "faults": faults,
        "lost": len(lost),
        "window": window,
        "growth": growth,
        "health": health,
        "code": code,
        "passed": passed,
    }


async def _run(
    process: Process, load: SoakLoad, faults: Faults, folder: Path, seconds: float
) -> list[Sample]:
    samples: list[Sample] = []
    clock = asyncio.get_running_loop().time
    began = clock()
    tasks = [asyncio.create_task(job) for job in (*load.jobs(), *faults.jobs())]
    while clock() - began < seconds:
        process.check()
        for task in tasks:
            if task.done():
                task.result()  # a job of ours failed
        disk = await asyncio.to_thread(disk_mb, folder)
        rss, anon = process.memory_mb(), process.memory_mb("RssAnon")
        samples.append(Sample((clock() - began) / 60, rss, anon, disk))
        await asyncio.sleep(_SAMPLE_S)
    await faults.end()
    await load.end()
    await asyncio.gather(*tasks)
    return samples


def growth_of(samples: Sequence[Sample], name: str) -> tuple[float, float]:
    """Slope of the fitted line in MB a minute, and its rise over the samples as a share."""
    if len(samples) < 3:
        return 0.0, 0.0
    at = np.array([s.minutes for s in samples])
    values = np.array([getattr(s, name) for s in samples])
    slope = float(np.polyfit(at, values, 1)[0])
    return slope, slope * float(at[-1] - at[0]) / float(values.mean() or 1)


def logged_ids(files: Sequence[Path]) -> tuple[set[str], int]:
    """Ids of the searches in usage logs, and the number of calls."""
    searches, calls = set(), 0
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event["event"] == "search":
                searches.add(event["search_id"])
            else:
                calls += 1
    return searches, calls


def disk_mb(folder: Path) -> float:
    """Size of the files of a catalogue, without its usage log."""
    total = 0
    for path in folder.rglob("*"):
        if "usage" in path.relative_to(folder).parts:
            continue
        try:
            total += path.stat().st_size
        except OSError:
            continue  # it has just been replaced
    return total / 1e6


def rendered(found: dict[str, Any]) -> str:
    """Markdown."""
    m, load, faults = found["machine"], found["load"], found["faults"]
    window, growth = found["window"], found["growth"]
    rss = [s.rss_mb for s in window] or [0.0]
    lines = [
        f"{m['cpu']}, {m['cpus']} CPUs, Python {m['python']}; load {m['load_1_min']:.1f} at the "
        f"start. {found['minutes']:g} minutes, {found['tools']:,} tools.",
        "",
        "| | |",
        "| --- | ---: |",
    ]

    def add(what: str, value: object) -> None:
        lines.append(f"| {what} | {value} |")

    total = sum(load.searches.values())
    add("searches answered", f"{total:,}")
    add("of these by words, while the encoder was away", f"{load.searches['lexical']:,}")
    add("of these over MCP", f"{load.over_mcp:,}")
    add("**searches that failed**", f"**{len(load.failures):,}**")
    for share, name in ((0.5, "p50"), (0.99, "p99"), (1.0, "slowest")):
        add(f"search, {name}", f"{1e3 * quantile(load.seconds, share):,.1f} ms")
    add("calls answered", f"{sum(load.calls.values()):,}")
    add("of these told that the backend failed", f"{sum(load.calls.values()) - load.calls['ok']:,}")
    add("encoder killed and started again", faults.counts["killed"])
    add("encoder stopped for 6 s, and going on", faults.counts["hung"])
    add("backend crashed", faults.counts["crashed"])
    add("usage log's folder taken away", faults.counts["taken"])
    add("a file in place of that folder for 2 s", faults.counts["blocked"])
    add("tools.jsonl rewritten", faults.counts["rewritten"])
    add("of these not visible after a second", faults.counts["late"])
    add("**usage events lost**", f"**{found['lost']:,}**")
    add("memory after the warm-up, least and most", f"{min(rss):,.0f} and {max(rss):,.0f} MB")
    for name, what in (("rss_mb", "memory"), ("anon_mb", "memory that is no file")):
        slope, rise = growth[name]
        add(f"**{what}, slope**", f"**{slope:+.2f} MB a minute ({100 * rise:+.1f} %)**")
    add("files of the catalogue, slope", f"{growth['disk_mb'][0]:+.2f} MB a minute")
    add("at the end", f"{found['health']['mode']}, exit code {found['code']}")
    add("result", "passed" if found["passed"] else "FAILED")
    return "\n".join([*lines, *(f"- {text}" for text in load.failures[:10])])


def _add_peer(folder: Path) -> None:
    entries = [
        mcp_peer.entry(name, description=f"Tool that can {name}.") for name in ("echo", "crash")
    ]
    tools = [
        Tool(
            tool_id(PEER, str(entry["name"])),
            str(entry["name"]),
            PEER,
            str(entry["description"]),
            entry["inputSchema"],
            {"kind": "mcp"},
        )
        for entry in entries
    ]
    change(folder, PEER, tools, source=mcp_peer.command(pages=[entries]))


def _sample() -> Path:
    from toolheads.sample import sample_folder

    return Path(sample_folder())


if __name__ == "__main__":
    sys.exit(main())
