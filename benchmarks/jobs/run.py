"""What a reindex job costs: its rate beside the machine's matrix product, its memory, its bytes.

    python benchmarks/jobs/run.py [--tools 20000] [--width 384] [--hidden H] [--threads N]

Tools are made of numbered words, their vectors are random unit vectors in a cache in float16 (each
block of them is the first one with its entries moved on), and the heads have random weights: no
encoder is asked. Prints, as a markdown table:

* the rate of large float32 matrix products, one in each thread, measured between the batches of
  what follows: the ceiling;
* the heads alone over vectors at hand, and the projecting stage of a job (cache → rows; the keys of
  the texts are found before), each as a share of that ceiling, by the clock and by processor time,
  counting only the operations of the heads' products;
* a whole job in a process of its own: seconds, tools/s, bytes, most memory (all of it, with mapped
  files, as VmHWM; and what is not of files, RssAnon, sampled every 20 ms);
* a job that is killed half-way and run again, and whether the file of rows has equal bytes.

Times are wall times, so the machine must be quiet. --folder keeps what is made for another run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np
from rates import Rates, product

from toolheads.arrays import Floats, normalized
from toolheads.cache import VectorCache
from toolheads.domain import Tool
from toolheads.heads import Architecture, Head, Heads, HeadsHeader
from toolheads.identity import PROBE_TEXTS, EncoderIdentity, Fingerprint
from toolheads.indexes import limit_blas_threads
from toolheads.jobs import Target, reindex
from toolheads.jobs.inputs import input_files, read_inputs
from toolheads.jobs.pending import JOURNAL
from toolheads.jobs.rows import RowMaker
from toolheads.scorers.folding import Folding, tools_of_a_block
from toolheads.texts import TextSettings

MADE_AT_ONCE = 20_000
SAMPLED_S = 0.02


def main() -> None:
    arguments = parsed()
    if arguments.child:
        child(arguments)
        return
    threads = arguments.threads
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        make(folder, arguments)
        limit_blas_threads(1)
        ceiling = Rates()
        alone, stage = heads_rate(ceiling, arguments), stage_rate(ceiling, folder, arguments)
        rate = ceiling.operations / ceiling.wall_s / 1e9
        rows = [("matrix product, the ceiling", f"{rate:.1f} GFLOP/s", "")]
        for name, rates in (
            ("heads, vectors at hand", alone),
            ("projecting stage of a job", stage),
        ):
            wall, cpu = rates.share_of(ceiling)
            tools = rates.operations / operations(arguments)
            share = f"{wall:.0%} of the ceiling, {cpu:.0%} by processor time"
            rows.append((name, f"{tools / rates.wall_s:,.0f} tools/s", share))
        rows += job(folder, arguments)
        rows += killed(folder, arguments)
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs"
    print(
        f"{machine}, {threads} threads, numpy {np.__version__}; {arguments.tools:,} tools, "
        f"width {arguments.width}, hidden {arguments.hidden}\n"
    )
    print("| what | measured | beside |\n|---|---:|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", type=int, default=20_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--hidden", type=int, help="default: the width")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.hidden = arguments.hidden or arguments.width
    return arguments


def operations(arguments: argparse.Namespace) -> int:
    """Of the products of the heads, for one tool."""
    return 2 * 2 * arguments.width * arguments.hidden


def made_heads(arguments: argparse.Namespace) -> Heads:
    architecture = Architecture(arguments.width, hidden=(arguments.hidden,))
    rng = np.random.default_rng(0)
    weights = {
        name: rng.normal(scale=0.02, size=shape).astype(np.float32)
        for name, shape in architecture.shapes.items()
    }
    identity = EncoderIdentity("made", "", "mean", 0, arguments.width, "float32")
    head = Head(architecture, 0.5, weights)
    probe = unit_rows(rng, len(PROBE_TEXTS), arguments.width)
    return Heads(head, head, HeadsHeader(Fingerprint(identity, TextSettings())), probe)


def unit_rows(rng: np.random.Generator, count: int, width: int) -> Floats:
    return normalized(rng.standard_normal((count, width), np.float32))


def make(folder: Path, arguments: argparse.Namespace) -> None:
    """The tools, and a cache of their vectors; nothing if they are there."""
    file = folder / "tools.jsonl"
    if file.exists():
        return
    maker = opened(folder, arguments)
    heads = made_heads(arguments)
    cache = VectorCache.open(folder / "cache", heads.fingerprint, heads.probe)
    rng = np.random.default_rng(1)
    most = max(1, min(MADE_AT_ONCE, (1 << 26) // arguments.width))
    words = [f"word{i}" for i in range(4000)]
    first = unit_rows(rng, min(most, arguments.tools), arguments.width)
    with (folder / "making").open("w") as out:
        for start in range(0, arguments.tools, most):
            numbers = range(start, min(arguments.tools, start + most))
            tools = [made_tool(rng, words, i) for i in numbers]
            for tool in tools:
                record = {"id": tool.id, "name": tool.name, "description": tool.description}
                out.write(json.dumps(record | {"input_schema": tool.input_schema}) + "\n")
            texts = [text for tool in tools for text in maker.texts(tool)]
            moved = np.roll(first[: len(texts)], start // most, axis=1)
            cache.add(texts, moved)
    maker.close()
    (folder / "making").rename(file)


def made_tool(rng: np.random.Generator, words: list[str], number: int) -> Tool:
    chosen = [words[i] for i in rng.integers(0, len(words), 40)]
    properties = {name: {"type": "string", "description": "a value"} for name in chosen[:3]}
    schema = {"type": "object", "properties": properties}
    return Tool(f"t{number}", f"tool_{number}", None, " ".join(chosen), schema)


def heads_rate(ceiling: Rates, arguments: argparse.Namespace) -> Rates:
    """Of all threads, each with rows of its own, block by block and in turns as a job does."""
    heads, threads = made_heads(arguments), arguments.threads
    block = tools_of_a_block(1)
    blocks = max(2, (1 << 22) // arguments.width // block)
    rows = unit_rows(np.random.default_rng(2), block, arguments.width)
    turns = threading.Semaphore(max(1, threads // 2))
    found = Rates()

    def work(folding: Folding) -> None:
        out = np.empty((block, arguments.width), np.float32)
        for _ in range(blocks):
            folding.fold(lambda vectors: np.copyto(vectors, rows), out)

    foldings = [Folding([1.0], heads.action, turns) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, foldings))
        for _ in range(5):
            product(ceiling, arguments.width, threads)
            found.add(
                threads * blocks * block * operations(arguments),
                lambda: list(pool.map(work, foldings)),
            )
    return found


def stage_rate(ceiling: Rates, folder: Path, arguments: argparse.Namespace) -> Rates:
    maker = opened(folder, arguments)
    heads = made_heads(arguments)
    cache = VectorCache.open(folder / "cache", heads.fingerprint, heads.probe)
    files = input_files([folder / "tools.jsonl"])
    lines = (maker.texts(line.tool)[0] for line in read_inputs(files) if line.tool)
    found = Rates()
    for batch in batches(lines, maker.batch):
        numbers = cache.find(batch)
        product(ceiling, arguments.width, arguments.threads)
        found.add(
            len(batch) * operations(arguments), lambda numbers=numbers: maker.rows_at(numbers)
        )
    maker.close()
    return found


def job(folder: Path, arguments: argparse.Namespace) -> list[tuple[str, str, str]]:
    process = start(folder, "whole", arguments)
    anonymous = 0
    while process.poll() is None:
        anonymous = max(anonymous, memory_kb(process.pid, "RssAnon"))
        time.sleep(SAMPLED_S)
    report = json.loads(process.communicate()[0])
    rate = report["tools"] / report["seconds"]
    return [
        ("whole job", f"{report['seconds']:.1f} s", f"{rate:,.0f} tools/s"),
        ("written", f"{report['size_bytes'] / 2**20:,.0f} MiB", ""),
        ("most memory, mapped files included", f"{report['peak_kb'] / 2**10:,.0f} MiB", ""),
        ("most memory of its own", f"{anonymous / 2**10:,.0f} MiB", ""),
    ]


def killed(folder: Path, arguments: argparse.Namespace) -> list[tuple[str, str, str]]:
    process = start(folder, "killed", arguments)
    half = arguments.tools * arguments.width * 4 // 2
    while process.poll() is None and done_bytes(folder / "killed") < half:
        time.sleep(SAMPLED_S)
    process.send_signal(signal.SIGKILL)
    process.wait()
    report = json.loads(start(folder, "killed", arguments).communicate()[0])
    same = rows_sha256(folder / "whole") == rows_sha256(folder / "killed")
    resumed = f"{report['resumed']:,} rows taken up"
    return [
        ("killed half-way, run again", f"{report['seconds']:.1f} s", resumed),
        ("file of rows", "equal bytes" if same else "OTHER BYTES", ""),
    ]


def child(arguments: argparse.Namespace) -> None:
    """One job; prints its report and the most memory it had."""
    limit_blas_threads(1)
    heads = made_heads(arguments)
    report = reindex(
        [arguments.folder / "tools.jsonl"],
        heads,
        Target("numpy", arguments.folder / arguments.child),
        encoder=no_encoder,
        cache=arguments.folder / "cache",
        threads=arguments.threads,
    )
    print(json.dumps(report.to_json() | {"peak_kb": memory_kb(os.getpid(), "VmHWM")}))


def start(folder: Path, name: str, arguments: argparse.Namespace) -> subprocess.Popen[bytes]:
    given = {"tools": arguments.tools, "width": arguments.width, "hidden": arguments.hidden}
    given |= {"threads": arguments.threads, "folder": folder, "child": name}
    argv = [word for option, value in given.items() for word in (f"--{option}", str(value))]
    return subprocess.Popen([sys.executable, __file__, *argv], stdout=subprocess.PIPE)


def opened(folder: Path, arguments: argparse.Namespace) -> RowMaker:
    return RowMaker(made_heads(arguments), no_encoder, folder / "cache", threads=arguments.threads)


def no_encoder():
    msg = "all vectors must be in the cache"
    raise AssertionError(msg)


def batches(items: Iterator[str], size: int) -> Iterator[list[str]]:
    while batch := list(islice(items, size)):
        yield batch


def done_bytes(folder: Path) -> int:
    return sum(
        json.loads(line)["bytes"]
        for path in folder.rglob(JOURNAL)
        for line in path.read_bytes().splitlines(keepends=True)
        if line.endswith(b"\n")
    )


def rows_sha256(folder: Path) -> str:
    (path,) = folder.rglob("*.rows")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def memory_kb(pid: int, name: str) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # it has just ended
        return 0
    found = re.search(rf"^{name}:\s+(\d+)", status, re.MULTILINE)
    return int(found[1]) if found else 0


if __name__ == "__main__":
    main()
