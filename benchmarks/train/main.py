"""Times trainers of two heads on the same vectors, one process after the other, and prints tables.

    python -m benchmarks.train.main --callbus-python PYTHON [--quick]

`run.sh` makes the environments and calls this. Each system runs in processes of its own, in turn
(A B C A B C), so that a busy minute hits all of them; medians count.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.ancestor.processes import Measured, ProcessFailedError, run
from benchmarks.train.tables import Case, Cell, Found, render

from toolheads.evaluation.report import machine_kind

ROOT = Path(__file__).resolve().parents[2]
SAME = (1536, 1536)
"""Hidden layers that callbus has."""


STACKS = ((384, 512), (64, 128), (32, 64))
"""Hidden width and batch of heads that are trained eight at a time."""


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    rounds: int
    epochs: int
    narrow_pairs: int
    wide_pairs: int
    steps_of_2048: int
    validation: tuple[int, int]


FULL = Size(3, 3, 16_384, 4_096, 4, (1_000, 10_000))
QUICK = Size(1, 2, 1_024, 1_024, 1, (50, 500))


def cases(size: Size, *, quick: bool) -> list[Case]:
    """What is compared with what: systems of one case see the same vectors and batch."""
    wide = 256 if quick else 4096
    same, wide_own = ((64, 64), (64,)) if quick else (SAME, (1024,))
    narrow_own = (48,) if quick else (384,)
    large = 256 if quick else 2048
    narrow = {"width": 384, "pairs": size.narrow_pairs, "batch": 512}
    broad = {"width": wide, "pairs": size.wide_pairs, "batch": 512}
    found = []
    for shared in (narrow, broad):
        name = f"{shared['width']}-d, batch {shared['batch']}"
        own = narrow_own if shared is narrow else wide_own
        cells = [
            Cell("callbus", "callbus", same, is_bf16=False),
            Cell("plain PyTorch loop", "plain", same, is_bf16=False),
            Cell("sentence-transformers loss", "sentence-transformers", same, is_bf16=False),
            Cell("toolheads, same heads", "toolheads", same, is_bf16=False),
            Cell("plain PyTorch loop, bf16", "plain", same, is_bf16=True),
            Cell("toolheads, same heads, bf16", "toolheads", same, is_bf16=True),
            Cell("toolheads, own heads", "toolheads", own, is_bf16=False),
            Cell("toolheads, own heads, bf16", "toolheads", own, is_bf16=True),
        ]
        found.append(Case(name, **shared, cells=tuple(cells)))
    name = f"{wide}-d, batch {large}"
    cells = [
        Cell("plain PyTorch loop, bf16", "plain", wide_own, is_bf16=True),
        Cell("toolheads, own heads, bf16", "toolheads", wide_own, is_bf16=True),
        Cell("toolheads, own heads, bf16, both directions", "toolheads", wide_own, True, True),
        Cell("toolheads, same heads, bf16", "toolheads", same, is_bf16=True),
    ]
    return [*found, Case(name, wide, size.steps_of_2048 * large, large, tuple(cells))]


def main() -> int:
    """Run everything; print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--callbus-python", type=Path, metavar="PYTHON", help="unset: without it")
    parser.add_argument("--work", type=Path, default=ROOT / "benchmarks/train/work")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of every process")
    parser.add_argument("--rounds", type=int, help="processes of each system")
    parser.add_argument("--quick", action="store_true", help="does it run? small sizes, no figures")
    parser.add_argument("--only-stacked", action="store_true", help="heads trained eight at a time")
    args = parser.parse_args()
    try:
        return _run(args)
    except ProcessFailedError as e:
        sys.stderr.write(f"benchmarks/train: {e}\n")
        return 1


def _run(args: argparse.Namespace) -> int:
    size = QUICK if args.quick else FULL
    rounds = args.rounds or size.rounds
    bench = _Bench(args, size)
    found = Found(
        machine={**machine_kind(), "threads": args.threads, "load_1_min": os.getloadavg()[0]},
        quick=args.quick,
    )
    every = (
        []
        if args.only_stacked
        else [
            case if args.callbus_python else case.without("callbus")
            for case in cases(size, quick=args.quick)
        ]
    )
    for turn in range(rounds):
        for case in every:
            for cell in case.cells:
                _tell(f"{turn + 1}/{rounds} {case.name}: {cell.name}")
                found.add(case, cell, *bench.trainer(case, cell))
                if cell.system == "toolheads":  # the floor right beside it
                    found.add_floor(case, cell, bench.floor(case, cell))
        for hidden, batch in STACKS[1:] if args.quick else STACKS:
            for is_bf16 in (False, True):
                _tell(f"{turn + 1}/{rounds} eight heads of {hidden} at once")
                found.stacked.append(bench.stacked(hidden, batch, is_bf16=is_bf16))
        if not args.only_stacked:
            _tell(f"{turn + 1}/{rounds} validation")
            found.validation += bench.validation()
    found.cases = every
    text = render(found)
    (bench.work / "results.json").write_text(
        json.dumps(found.to_json(), indent=2) + "\n", encoding="utf-8"
    )
    (bench.work / "results.md").write_text(text + "\n", encoding="utf-8")
    print(text)
    _tell(f"also in {bench.work / 'results.md'} and results.json")
    return 0


class _Bench:
    """Runs single processes."""

    def __init__(self, args: argparse.Namespace, size: Size) -> None:
        self.work: Path = args.work.resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self._size, self._quick = size, args.quick
        self._callbus: Path | None = args.callbus_python
        self._log = self.work / "log.txt"
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        self._environ = dict.fromkeys(names, str(args.threads)) | {"PYTHONPATH": str(ROOT)}

    def trainer(self, case: Case, cell: Cell) -> tuple[Measured, dict[str, Any]]:
        """One process of one system."""
        out = self.work / "one.json"
        if cell.system == "callbus" and self._callbus is not None:
            command: list[str | Path] = [
                *(self._callbus, "-m", "benchmarks.ancestor.callbus_side", "speed"),
                *("--pairs", f"random:{case.width}", "--count", str(case.pairs)),
                *("--epochs", str(self._size.epochs), "--batch", str(case.batch), "--out", out),
            ]
        else:
            command = self._own(cell.system, case, cell, out)
        took = run(command, self._log, environ=self._environ)
        return took, json.loads(out.read_text(encoding="utf-8"))

    def floor(self, case: Case, cell: Cell) -> dict[str, Any]:
        """The products alone."""
        out = self.work / "one.json"
        run(self._own("floor", case, cell, out), self._log, environ=self._environ)
        read: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return read

    def stacked(self, hidden: int, batch: int, *, is_bf16: bool) -> dict[str, Any]:
        """Eight small pairs of heads against one."""
        case = Case("", 384, self._size.narrow_pairs, batch, ())
        out = self.work / "one.json"
        command = self._own("stacked", case, Cell("", "", (hidden,), is_bf16), out)
        run(command, self._log, environ=self._environ)
        return {**json.loads(out.read_text(encoding="utf-8")), "bf16": is_bf16}

    def validation(self) -> list[dict[str, Any]]:
        """Seconds of a validation at both widths."""
        found = []
        queries, tools = self._size.validation
        for width, hidden in ((384, (384,)), (256 if self._quick else 4096, (1024,))):
            out = self.work / "one.json"
            case = Case("", width, queries, 512, ())
            command = self._own("validation", case, Cell("", "", hidden, is_bf16=False), out)
            run([*command, "--tools", str(tools)], self._log, environ=self._environ)
            one = json.loads(out.read_text(encoding="utf-8"))
            found.append({**one, "width": width, "queries": queries, "tools": tools})
        return found

    def _own(self, system: str, case: Case, cell: Cell, out: Path) -> list[str | Path]:
        flags = ["--bf16"] * cell.is_bf16 + ["--both"] * cell.is_both
        return [
            *(sys.executable, "-m", "benchmarks.train.work", system),
            *("--width", str(case.width), "--hidden", *map(str, cell.hidden)),
            *("--batch", str(case.batch), "--pairs", str(case.pairs)),
            *("--epochs", str(self._size.epochs), "--out", str(out), *flags),
        ]


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
