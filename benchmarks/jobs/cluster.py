"""What Ray adds to a reindex job on one machine, and whether the index is the same.

    python benchmarks/jobs/cluster.py [--tools 400] [--workers 2]

Tools are made of numbered words; the local encoder embeds them for the packaged heads, one text at
a time with one thread in each process, so that a vector is the same whoever makes it. Prints, as a
markdown table, the wall time of a whole job, start and end included, and the bytes of its index:

* in one process, with one thread and with all of them;
* on Ray, started for the job, with so many workers;
* the same with one of the workers killed when a quarter of the rows is made;
* both ways with other heads over the vectors that are there, so that nothing is embedded.

Times are wall times, so the machine must be quiet.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from toolheads.bootstrap import EncoderSettings, make_encoder
from toolheads.facade import DEFAULT_HEADS
from toolheads.heads import Heads, load_heads
from toolheads.indexes import limit_blas_threads
from toolheads.jobs import Cluster, Report, Target, reindex

WORKER = b"ray::MapWorker(MapBatches(Embedding"
MARK = f"TOOLHEADS_BENCHMARK={os.getpid()}"
"""In the environment of all processes that this one starts."""

PIECE_BYTES = 1 << 14
"""Small, so that there is something to share among workers in a small file."""

ALONE = EncoderSettings("local", batch_tokens=1, threads=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", type=int, default=400)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    limit_blas_threads(1)
    os.environ.update([MARK.split("=")])
    cluster = Cluster(arguments.workers, piece_bytes=PIECE_BYTES)
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs"
    print(f"{machine}; {arguments.tools:,} tools\n", flush=True)
    print("| job | seconds | ratio | embedded | index |\n|---|---:|---:|---:|---|", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run = partial(job, folder, made(folder, arguments.tools))
        one = run("one")
        show("one process, one thread", one, one)
        threads = os.cpu_count() or 1
        show(
            f"one process, {threads} threads",
            run("threads", settings=EncoderSettings("local", threads=threads)),
            None,
        )
        show(f"Ray, {arguments.workers} workers", run("ray", cluster=cluster), one)
        killer = Killer(arguments.tools)
        killed = run("killed", cluster=cluster, progress=killer)
        show(f"the same, {killer.killed} killed", killed, one)
        other = weaker(load_heads(DEFAULT_HEADS))
        again = run("one", heads=other)
        show("other heads, one process", again, again)
        ray_again = run("ray", heads=other, cluster=cluster)
        show(f"other heads, Ray, {arguments.workers} workers", ray_again, again)


Result = tuple[Report, float, str]


def show(name: str, result: Result, base: Result | None) -> None:
    """Print a line of the table; a result without a base embeds in other batches."""
    report, seconds, digest = result
    ratio = "" if base is None else f"{seconds / base[1]:.2f}"
    same = "" if base is None else "equal bytes" if digest == base[2] else "OTHER BYTES"
    print(f"| {name} | {seconds:.1f} | {ratio} | {report.embedded:,} | {same} |", flush=True)


def made(folder: Path, count: int) -> Path:
    rng = np.random.default_rng(1)
    words = [f"word{i}" for i in range(4000)]
    with (folder / "tools.jsonl").open("w") as out:
        for number in range(count):
            chosen = [words[i] for i in rng.integers(0, len(words), 40)]
            properties = {name: {"type": "string"} for name in chosen[:3]}
            tool = {"id": f"t{number}", "name": f"tool_{number}", "description": " ".join(chosen)}
            tool["input_schema"] = {"type": "object", "properties": properties}
            out.write(json.dumps(tool) + "\n")
    return folder / "tools.jsonl"


def job(
    folder: Path,
    file: Path,
    name: str,
    *,
    heads: Heads | None = None,
    settings: EncoderSettings = ALONE,
    cluster: Cluster | None = None,
    progress: Callable[[int], None] | None = None,
) -> Result:
    """A report, seconds, and the digest of all that is in the index, locks apart."""
    began = time.perf_counter()
    with redirect_stdout(sys.stderr):  # where Ray says that a process was killed
        report = reindex(
            [file],
            heads or load_heads(DEFAULT_HEADS),
            Target("numpy", folder / name / "index"),
            encoder=partial(make_encoder, settings),
            cache=folder / name / "cache",
            cluster=cluster,
            progress=progress,
        )
    seconds = time.perf_counter() - began
    digest = hashlib.sha256()
    for path in sorted((folder / name / "index" / report.space).rglob("*")):
        if path.suffix in (".rows", ".json"):
            digest.update(path.name.encode() + path.read_bytes())
    return report, seconds, digest.hexdigest()


def weaker(heads: Heads) -> Heads:
    """Heads whose rows are others, over the same vectors."""
    return replace(heads, action=replace(heads.action, alpha=0.9 * heads.action.alpha))


class Killer:
    """Kills one worker, once, when a quarter of the rows is made."""

    def __init__(self, tools: int) -> None:
        self._from, self.killed = tools // 4, 0

    def __call__(self, done: int) -> None:
        if self.killed or done < self._from:
            return
        for pid in workers():
            os.kill(pid, signal.SIGKILL)
            self.killed = 1
            return


def workers() -> Iterator[int]:
    """Processes that embed, of this run and no other."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_worker = (folder / "cmdline").read_bytes().startswith(WORKER)
            if is_worker and MARK.encode() in (folder / "environ").read_bytes():
                yield int(folder.name)
        except OSError:
            continue


if __name__ == "__main__":
    main()
