"""An epoch of training on a GPU beside the floor of the card, in a few minutes.

    python -m benchmarks.train.gpu [--out DIR] [--seconds 330] [--tiny]

Prints what is measured as soon as it is, and a table at the end; `--tiny` is small enough for a
CPU and shows whether everything runs. `benchmarks/gpu.sh` calls this.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from benchmarks.ancestor.exchange import Pairs
from benchmarks.train.tables import table
from benchmarks.train.work import (
    Task,
    best_seconds,
    ours,
    plain,
    planted_pairs,
    product_seconds,
    products_seconds,
    quiet,
    stacked_seconds,
    validation_seconds,
)

ROOT = Path(__file__).resolve().parents[2]
GOAL_S = 0.1
"""Seconds of an epoch of 60,000 pairs at 4096-d that are to be reached on one H200."""

BYTES_PER_PARAMETER = 28
"""AdamW reads weight, gradient and two moments and writes three of them, in float32."""


def main() -> int:
    """Measure; print and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/train/work")
    parser.add_argument("--seconds", type=float, default=330, help="start nothing new after this")
    parser.add_argument("--tiny", action="store_true", help="sizes for a CPU, no figures")
    args = parser.parse_args()
    quiet()
    if not args.tiny and not torch.cuda.is_available():
        sys.stderr.write("benchmarks/gpu.sh: a CUDA device must be there, got none; try --tiny\n")
        return 1
    found = Measurement(is_tiny=args.tiny, budget_s=args.seconds).run()
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "gpu.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    text = render(found)
    (args.out / "gpu.md").write_text(text + "\n", encoding="utf-8")
    print(text)
    return 0


class Measurement:
    """All that is measured, within a budget of seconds."""

    def __init__(self, *, is_tiny: bool, budget_s: float) -> None:
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self._is_tiny, self._until = is_tiny, time.monotonic() + budget_s
        self.found: dict[str, Any] = {
            "device": torch.cuda.get_device_name() if self.device == "cuda" else "cpu",
            "torch": torch.__version__,
            "tiny": is_tiny,
            "epochs": [],
            "skipped": [],
        }

    def run(self) -> dict[str, Any]:
        """Everything in order of interest."""
        self._part("ceilings", self._ceilings)
        width, hidden, pairs = (64, (32,), 256) if self._is_tiny else (4096, (1024,), 59_392)
        large, small = (64, 32) if self._is_tiny else (2048, 512)
        wide = hidden * 2 if self._is_tiny else (1536, 1536)
        epochs = 2 if self._is_tiny else 8
        base = Task(width, hidden, large, pairs, epochs, True, device=self.device)
        vectors = planted_pairs(pairs, width, seed=0)
        for task in (
            base,
            dataclasses.replace(base, hidden=wide),
            dataclasses.replace(base, batch=small, epochs=max(epochs // 2, 2)),
        ):
            for capture in ("auto", "never"):
                one = dataclasses.replace(task, capture=capture)
                name = f"batch {one.batch}, hidden {one.hidden}, capture {capture}"
                self._part(name, partial(self._epoch, "toolheads", one, vectors))
        short = dataclasses.replace(base, epochs=2, capture="never")
        self._part("plain loop", lambda: self._epoch("plain PyTorch loop", short, vectors))
        self._part("many at once", self._stacked)
        self._part("validation", lambda: self._validation(width, hidden))
        return self.found

    def _part(self, name: str, work: Callable[[], None]) -> None:
        """Run a part, or note why it was not run: one failure must not cost the others."""
        began = time.monotonic()
        if began > self._until:
            self._skip(name, "no time left")
            return
        try:
            work()
        except (RuntimeError, ImportError, ValueError) as e:
            self._skip(name, " ".join(str(e).split())[:300])
        else:
            sys.stderr.write(f"{name}: {time.monotonic() - began:.1f} s\n")

    def _skip(self, name: str, why: str) -> None:
        self.found["skipped"].append({"part": name, "why": why})
        sys.stderr.write(f"{name}: skipped, {why}\n")

    def _ceilings(self) -> None:
        """Copy in GB/s, bf16 and fp32 products in TFLOP/s."""
        entries, side = (1 << 16, 64) if self._is_tiny else (1 << 29, 8192)
        source = torch.ones(entries, device=self.device)
        target = torch.empty_like(source)
        seconds = best_seconds(lambda: target.copy_(source), self.device, 5)
        found = {"copy_gb_s": 2 * 4 * entries / seconds / 1e9}
        for name, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
            seconds = product_seconds(side, side, side, dtype=dtype, device=self.device, repeats=5)
            found[f"{name}_tflop_s"] = 2 * side**3 / seconds / 1e12
        self.found["ceilings"] = found

    def _epoch(self, system: str, task: Task, vectors: Pairs) -> None:
        timed = ours(task, vectors) if system == "toolheads" else plain(task, vectors)
        seconds = timed["epoch_s"][1:]  # the first one warms up and records
        products_s = task.steps * products_seconds(task)
        self.found["epochs"].append(
            {
                "system": system,
                "task": dataclasses.asdict(task),
                "epoch_s": seconds,
                "median_s": statistics.median(seconds),
                "loss": timed["loss"],
                "floor_products_s": products_s,
                "floor_s": products_s + self._memory_s(task),
            }
        )
        sys.stderr.write(f"  {statistics.median(seconds):.4f} s an epoch\n")

    def _memory_s(self, task: Task) -> float:
        """Seconds of the optimiser's and the rows' traffic at the speed of a copy."""
        sizes = (task.width, *task.hidden, task.width)
        parameters = 2 * sum((a + 1) * b for a, b in pairwise(sizes))
        rows = 2 * 2 * 2 * task.batch * task.width  # both sides, read and written, bf16
        moved = task.steps * (BYTES_PER_PARAMETER * parameters + rows)
        return float(moved / (1e9 * self.found["ceilings"]["copy_gb_s"]))

    def _stacked(self) -> None:
        width, hidden, batch, pairs = (
            (32, (16,), 32, 128) if self._is_tiny else (384, (384,), 512, 59_904)
        )
        task = Task(width, hidden, batch, pairs, bf16=True, device=self.device)
        vectors = planted_pairs(pairs, width, seed=0)
        one, eight = (stacked_seconds(task, n, vectors, 2) for n in (1, 8))
        self.found["stacked"] = {
            "task": dataclasses.asdict(task),
            "one_s": one,
            "eight_s": eight,
        }

    def _validation(self, width: int, hidden: tuple[int, ...]) -> None:
        queries, tools = (20, 100) if self._is_tiny else (8_000, 44_000)
        seconds = validation_seconds(width, hidden, queries, tools, self.device, repeats=3)
        self.found["validation"] = {
            "queries": queries,
            "tools": tools,
            "s": statistics.median(seconds),
        }


def render(found: dict[str, Any]) -> str:
    """Markdown."""
    c = found["ceilings"]
    note = " **Tiny run: no figures.**" if found["tiny"] else ""
    head = (
        f"{found['device']}, torch {found['torch']}; measured ceilings: copy "
        f"{c['copy_gb_s']:,.0f} GB/s, bf16 {c['bf16_tflop_s']:,.1f} TFLOP/s, fp32 "
        f"{c['fp32_tflop_s']:,.1f} TFLOP/s.{note}"
    )
    rows = []
    for one in found["epochs"]:
        task = one["task"]
        steps = task["pairs"] // task["batch"]
        captured = {"auto": "captured", "never": "eager"}[task["capture"]]
        rows.append(
            (
                f"{one['system']}, {captured}" if one["system"] == "toolheads" else one["system"],
                str(task["batch"]),
                "-".join(map(str, task["hidden"])),
                f"{1000 * one['median_s']:,.1f}",
                f"{1000 * one['median_s'] / steps:.3f}",
                f"{1000 * one['floor_s']:,.1f}",
                f"{100 * one['floor_s'] / one['median_s']:.0f} %",
            )
        )
    parts = [head]
    if found["epochs"]:
        task = found["epochs"][0]["task"]
        name = f"epoch of {task['pairs']:,} pairs, {task['width']}-d, bf16"
        names = (name, "batch", "hidden", "ms", "ms per step", "floor, ms", "of it")
        parts.append(table(names, rows))
        own = [one["median_s"] for one in found["epochs"] if one["system"] == "toolheads"]
        best = min(own, default=float("nan"))
        parts.append(f"Goal: {1000 * GOAL_S:.0f} ms an epoch; best: {1000 * best:.1f} ms.")
    if "stacked" in found:
        one = found["stacked"]
        parts.append(
            f"8 pairs of heads at once ({one['task']['width']}-d, batch {one['task']['batch']}): "
            f"{1000 * one['eight_s']:.1f} ms an epoch, one alone {1000 * one['one_s']:.1f} ms: "
            f"{one['eight_s'] / one['one_s']:.2f} times as much."
        )
    if "validation" in found:
        one = found["validation"]
        parts.append(
            f"Validation of {one['queries']:,} queries over {one['tools']:,} tools: "
            f"{1000 * one['s']:.0f} ms."
        )
    parts += [f"Not measured: {one['part']} ({one['why']})." for one in found["skipped"]]
    return "\n\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
