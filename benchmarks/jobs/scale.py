"""What a reindex job costs at 10 thousand, 100 thousand and a million tools, step by step.

    python benchmarks/jobs/scale.py DATA [--tools 10000,100000,1000000] [--folder DIR] [--seed 0]

DATA is a folder of data sets. Tools are made of its texts by recombination: the name of two tools,
half of the description of one and half of another, the parameters of a third; all differ. The
packaged heads project them. Vectors of a sample of real tools come from the local encoder, which
gives the rate of embedding; that of a made text is the mean of the vectors of the texts it was made
of, at length 1, and goes into the cache under the encoder's name: embedding a million texts here
would take hours. Nothing of DATA is kept but in --folder.

Prints, as markdown tables: seconds and bytes of each step at each size, with the slope of the
seconds (1 is in proportion to the tools) between the last two sizes; and at the largest size the
projecting stage as a share of the machine's matrix product, most memory of a whole job, and whether
a job that was killed half-way and run again ends in equal bytes.

The matrix product, one for each thread, is measured between the batches of the stage, by the clock
and by the time of the processors; the second says what the machine would do when nothing else ran
on it. With --folder a run goes on where another was ended: what is made and measured lies there.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rates import Rates, product
from recombined import Sources, make, opened
from run import done_bytes, memory_kb, no_encoder, rows_sha256

from toolheads.arrays import Floats, Ids
from toolheads.cache import VectorCache
from toolheads.facade import DEFAULT_HEADS
from toolheads.heads import Heads, load_heads
from toolheads.indexes import limit_blas_threads, open_index
from toolheads.jobs import Target, reindex
from toolheads.jobs.inputs import input_files, read_inputs
from toolheads.jobs.rows import RowMaker
from toolheads.jobs.target import open_target

BATCH = 8192
SAMPLED_S = 0.02


@dataclass
class Measured:
    """One size: seconds and bytes of each step."""

    tools: int
    seconds: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    ceiling: Rates = field(default_factory=Rates)
    stage: Rates = field(default_factory=Rates)
    distinct: float = 1.0
    """Vectors that differ, of those of a batch: a job projects the others no second time."""
    whole: dict[str, Any] = field(default_factory=dict)
    again: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, tools: int) -> Measured:
        if not path.exists():
            return cls(tools)
        stored = json.loads(path.read_text())
        rates = {name: Rates(**stored[name]) for name in ("ceiling", "stage")}
        return cls(**stored | rates)

    def store(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--tools", default="10000,100000,1000000")
    parser.add_argument("--folder", type=Path, help="keeps what is made for another run")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    limit_blas_threads(1)
    if arguments.child:
        whole_job(arguments.folder, arguments.child, arguments.threads)
        return
    sizes = [int(word) for word in arguments.tools.split(",")]
    heads = load_heads(DEFAULT_HEADS)
    with tempfile.TemporaryDirectory() as temporary:
        base = arguments.folder or Path(temporary)
        sources = Sources(arguments.data, heads, arguments.seed)
        found = []
        for size in sizes:
            folder = base / str(size)
            make(folder, heads, sources, size)
            one = Measured.read(folder / "measured.json", size)
            if not one.seconds:
                one = measured(folder, heads, sources, size, arguments.threads)
                one.store(folder / "measured.json")
            found.append(one)
        jobs = whole_and_killed(base / str(sizes[-1]), found[-1], arguments)
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs"
    print(f"{machine}, numpy {np.__version__}, seed {arguments.seed}, heads {heads.name}\n")
    print_growth(found)
    print_stage(found[-1], heads, jobs)


def measured(folder: Path, heads: Heads, sources: Sources, count: int, threads: int) -> Measured:
    """Each step on its own, as a job has them, one after the other."""
    found = Measured(count)
    seconds, sizes = found.seconds, found.sizes
    maker = opened(heads, folder / "cache", threads)
    numbers: list[Ids] = []
    keys: list[str] = []
    reading = looking_up = 0.0
    lines = read_inputs(input_files([folder / "tools"]))
    cache = VectorCache.open(folder / "cache", heads.fingerprint, heads.probe)
    began = time.perf_counter()
    for batch in batches(lines, maker.batch):
        texts = [maker.texts(line.tool) for line in batch if line.tool]
        keys += map(maker.key, texts)
        reading += time.perf_counter() - began
        began = time.perf_counter()
        numbers.append(cache.find(list(itertools.chain.from_iterable(texts))))
        looking_up += time.perf_counter() - began
        began = time.perf_counter()
    seconds["read and check"], sizes["read and check"] = reading, size_of(folder / "tools")
    seconds["look up vectors"] = looking_up
    texts_in_all = len(np.unique(np.concatenate(numbers)))
    seconds["embed (extrapolated)"] = texts_in_all / sources.texts_per_s
    sizes["embed (extrapolated)"] = size_of(folder / "cache")
    operations = operations_of(heads)
    rows = np.empty((0, maker.width), np.float32)
    for of_batch in numbers:
        tools = len(of_batch) // len(maker.wording.views)
        product(found.ceiling, maker.width, threads)
        rows = found.stage.add(operations * tools, lambda of=of_batch: maker.rows_at(of))
    seconds["project"] = found.stage.wall_s
    found.distinct = sum(len(np.unique(n)) for n in numbers) / sum(map(len, numbers))
    maker.close()
    write_and_search(folder, maker, keys, rows, found)
    return found


def write_and_search(
    folder: Path, maker: RowMaker, keys: Sequence[str], rows: Floats, found: Measured
) -> None:
    """Writing as many rows, the swap, and the first search of a process that opens the index."""
    target = Target("numpy", folder / "steps")
    writing = open_target(target, space=maker.space, width=maker.width)
    unique = list(dict.fromkeys(keys))
    began = time.perf_counter()
    for start in range(0, len(unique), BATCH):
        part = unique[start : start + BATCH]
        writing.add(part, np.resize(rows, (len(part), maker.width)))
    written = time.perf_counter()
    swapped = writing.finish(lambda key: True)  # waits for the last batch
    writing.close()
    found.seconds["write"] = written - began
    found.seconds["swap"] = time.perf_counter() - written
    found.sizes["write"] = swapped.size_bytes
    began = time.perf_counter()
    index = open_index("numpy", space=maker.space, width=maker.width, folder=folder / "steps")
    index.search(rows[:1], 10)
    found.seconds["first search"] = time.perf_counter() - began
    index.close()
    remove(folder / "steps")


def operations_of(heads: Heads) -> int:
    """Of the products of the heads, for one tool with all its views."""
    shape = heads.action.architecture
    widths = [shape.width, *shape.hidden, shape.width]
    views = len([w for w in heads.header.views.tool.values() if w > 0])
    return views * sum(2 * a * b for a, b in itertools.pairwise(widths))


def whole_job(folder: Path, place: Path, threads: int) -> None:
    """One job in a process of its own; prints its report and the most memory it had."""
    report = reindex(
        [folder / "tools"],
        load_heads(DEFAULT_HEADS),
        Target("numpy", place),
        encoder=no_encoder,
        cache=folder / "cache",
        threads=threads,
    )
    print(json.dumps(report.to_json() | {"peak_kb": memory_kb(os.getpid(), "VmHWM")}))


def whole_and_killed(
    folder: Path, found: Measured, arguments: argparse.Namespace
) -> list[tuple[str, str]]:
    def start(place: Path) -> subprocess.Popen[bytes]:
        argv = [sys.executable, __file__, str(arguments.data), "--folder", str(folder)]
        argv += ["--child", str(place), "--threads", str(arguments.threads)]
        return subprocess.Popen(argv, stdout=subprocess.PIPE)

    if not found.whole:
        place, anonymous = folder / "whole", 0
        remove(place)
        process = start(place)
        while process.poll() is None:
            anonymous = max(anonymous, memory_kb(process.pid, "RssAnon"))
            time.sleep(SAMPLED_S)
        found.whole = json.loads(process.communicate()[0])
        found.whole |= {"own_kb": anonymous, "sha256": rows_sha256(place)}
        found.store(folder / "measured.json")
        remove(place)
    if not found.again:
        place = folder / "killed"
        remove(place)
        process = start(place)
        while process.poll() is None and done_bytes(place) < found.sizes["write"] // 2:
            time.sleep(SAMPLED_S)
        process.send_signal(signal.SIGKILL)
        process.wait()
        found.again = json.loads(start(place).communicate()[0]) | {"sha256": rows_sha256(place)}
        found.store(folder / "measured.json")
        remove(place)
    report, again = found.whole, found.again
    same = report["sha256"] == again["sha256"]
    return [
        ("whole job, nothing embedded", f"{report['seconds']:.0f} s"),
        ("its tools/s", f"{report['tools'] / report['seconds']:,.0f}"),
        ("its most memory, mapped files included", f"{report['peak_kb'] / 2**10:,.0f} MiB"),
        ("its most memory of its own", f"{report['own_kb'] / 2**10:,.0f} MiB"),
        ("killed half-way and run again", f"{again['seconds']:.0f} s"),
        ("rows taken up then", f"{again['resumed']:,} of {again['added']:,}"),
        ("file of rows", "equal bytes" if same else "OTHER BYTES"),
    ]


def print_growth(found: Sequence[Measured]) -> None:
    names = [f"{one.tools:,}" for one in found]
    print(f"| step | {' | '.join(f'{n}: s' for n in names)} | slope | bytes at {names[-1]} |")
    print("|---|" + "---:|" * (len(found) + 2))
    for step in found[-1].seconds:
        times = [one.seconds[step] for one in found]
        slope = "" if len(found) < 2 else f"{slope_of(found, step):.2f}"
        size = found[-1].sizes.get(step)
        shown = "" if size is None else f"{size:,}"
        print(f"| {step} | {' | '.join(f'{t:,.2f}' for t in times)} | {slope} | {shown} |")
    shares = [one.stage.share_of(one.ceiling)[0] for one in found]
    print(f"| project, share of the ceiling | {' | '.join(f'{s:.0%}' for s in shares)} |  |  |")
    print()


def slope_of(found: Sequence[Measured], step: str) -> float:
    one, two = found[-2:]
    times = two.seconds[step] / one.seconds[step]
    return math.log(times) / math.log(two.tools / one.tools)


def print_stage(found: Measured, heads: Heads, jobs: Sequence[tuple[str, str]]) -> None:
    stage, ceiling = found.stage, found.ceiling
    wall, cpu = stage.share_of(ceiling)
    rate = ceiling.operations / ceiling.wall_s / 1e9
    print(f"| at {found.tools:,} tools | measured |\n|---|---:|")
    print(f"| matrix product, the ceiling | {rate:.0f} GFLOP/s |")
    print(f"| projecting stage, cache to rows | {found.tools / stage.wall_s:,.0f} tools/s |")
    print(f"| its share of the ceiling, by the clock | {wall:.0%} |")
    print(f"| its share of the ceiling, by processor time | {cpu:.0%} |")
    print(f"| vectors of a batch that differ, and are projected | {found.distinct:.0%} |")
    for name, value in jobs:
        print(f"| {name} | {value} |")


def batches(items: Iterator, size: int) -> Iterator[list]:
    while batch := list(itertools.islice(items, size)):
        yield batch


def size_of(path: Path) -> int:
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return sum(file.stat().st_size for file in files)


def remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


if __name__ == "__main__":
    main()
