"""Runs callbus 0.3.1 and toolheads on the same vectors and prints one table with ratios.

    python -m benchmarks.ancestor.main --callbus-python PYTHON [DATA_DIR] [--quick]

`run.sh` makes the environments and calls this. It measures processes from outside, so it keeps to
the standard library and stays small; all work is in `callbus_side`, `toolheads_side`, `prepare`
and `quality`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.ancestor.plan import FULL, QUICK, Size, data_folders
from benchmarks.ancestor.processes import Measured, ProcessFailedError, run
from benchmarks.ancestor.table import OWN, SAME, Result, render

from toolheads.evaluation.report import machine_kind

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "configs" / "ancestor.yaml"
WIDE = 4096


def main() -> int:
    """Run everything; print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "data", nargs="?", type=Path, metavar="DATA_DIR", help="default: the sample catalogue"
    )
    parser.add_argument("--callbus-python", type=Path, required=True, metavar="PYTHON")
    parser.add_argument("--work", type=Path, default=ROOT / "benchmarks/ancestor/work")
    parser.add_argument(
        "--cache", type=Path, help="vectors of the data (default: in the work folder)"
    )
    parser.add_argument(
        "--heads",
        default="minilm",
        metavar="NAME|FILE",
        help="our own heads (default: the packaged minilm)",
    )
    parser.add_argument(
        "--own-config",
        type=Path,
        nargs=2,
        metavar=("LOCAL.yaml", "WIDE.yaml"),
        default=[ROOT / "configs/minilm.yaml", ROOT / "configs/qwen3-embedding-8b.yaml"],
        help="configs of our own heads, for timing",
    )
    parser.add_argument(
        "--exclude", nargs="*", default=["sgd"], metavar="SET", help="not trained on (default: sgd)"
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of every process")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of the trainers")
    parser.add_argument("--quick", action="store_true", help="does it run? small sizes, no figures")
    args = parser.parse_args()
    try:
        return Benchmark(args).run()
    except (ProcessFailedError, ValueError) as e:
        sys.stderr.write(f"benchmarks/ancestor: {e}\n")
        return 1


class Benchmark:
    """One run of the benchmark, step by step."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.size: Size = QUICK if args.quick else FULL
        self.work: Path = args.work.resolve()
        self.log = self.work / "log.txt"
        self.exchange = self.work / "exchange"
        self.cache = (args.cache or self.work / "cache").resolve()
        self.ours = Path(sys.executable)
        self.callbus: Path = args.callbus_python.absolute()
        self.ancestor_heads = self.work / "runs" / "ancestor" / "heads.npz"
        self.callbus_heads = self.work / "callbus-heads.npz"
        threads = str(args.threads)
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        self.environ = dict.fromkeys(names, threads) | {"PYTHONPATH": str(ROOT)}
        self.result = Result(
            settings={
                "quick": args.quick,
                "data": args.data.name if args.data else "sample",
                "threads": args.threads,
                "device": args.device,
                "heads": Path(args.heads).name,
                "excluded": args.exclude,
                **asdict(self.size),
            },
            machine=_machine(),
        )

    def run(self) -> int:
        """All steps in order."""
        self._empty_work_folder()
        root = self.args.data.resolve() if self.args.data else self._sample()
        self.folders = data_folders(root, quick=self.args.quick)
        self.excluded = [n for n in self.args.exclude if any(f.name == n for f in self.folders)]
        overlap = root / "overlap.json"
        self.overlap = overlap if overlap.is_file() else None
        with self._step("train our version of the published recipe"):
            self._fit()
        with self._step("write the vectors that both sides get"):
            self._prepare()
        with self._step("train callbus's heads with its own trainer, project the test sets"):
            self._train_callbus()
        with self._step("rank and measure every test set"):
            self._quality()
        with self._step("time both trainers"):
            self._speed()
        with self._step("time searches in process"):
            self._search()
        with self._step("time both commands from start to answer"):
            self._starts()
        self.result.settings["data_sets"] = [folder.name for folder in self.folders]
        (self.work / "results.json").write_text(
            json.dumps(self.result.to_json(), indent=2) + "\n", encoding="utf-8"
        )
        block = render(self.result)
        (self.work / "results.md").write_text(block + "\n", encoding="utf-8")
        print(block)
        _tell(f"also in {self.work / 'results.md'} and results.json")
        return 0

    # -- steps ----------------------------------------------------------------------------------

    def _fit(self) -> None:
        """`toolheads train fit` with the recipe's config, and no calibration, as it has none."""
        limit = self.size.max_queries
        options = {
            "data.root": json.dumps([str(folder) for folder in self.folders]),
            "data.cache": str(self.cache),
            "data.exclude": json.dumps(self.excluded),
            "data.overlap": "null" if self.overlap is None else str(self.overlap),
            "data.max_queries": "null" if limit is None else str(limit),
            "calibration.alphas": "[1.0]",
            "trainer.max_epochs": str(self.size.epochs),
            "trainer.enable_progress_bar": "false",
            "trainer.accelerator": "gpu" if self.args.device == "cuda" else "cpu",
            "runs": str(self.work / "runs"),
            "name": "ancestor",
            "overwrite": "true",
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        command: list[str | Path] = [self.ours.parent / "toolheads", "train", "fit"]
        command += ["--config", CONFIG, *words]
        self.result.add("training process", SAME, self._measured(*command))

    def _prepare(self) -> None:
        options: list[str | Path] = ["--data", *self.folders, "--cache", self.cache]
        options += ["--config", CONFIG, "--exchange", self.exchange]
        options += ["--exclude", *self.excluded]
        options += ["--catalogue-tools", str(self.size.catalogue)]
        options += ["--requests", str(self.size.requests)]
        options += ["--heads", self.ancestor_heads, self.args.heads]
        if self.overlap is not None:
            options += ["--overlap", self.overlap]
        if self.size.max_queries is not None:
            options += ["--max-queries", str(self.size.max_queries)]
        self._measured(self.ours, "-m", "benchmarks.ancestor.prepare", *options)
        self.result.data = _read(self.exchange / "prepared.json")
        self.width = int(self.result.data["width"])

    def _train_callbus(self) -> None:
        found = self.work / "callbus-train.json"
        took = self._callbus(
            *("train", "--exchange", self.exchange, "--heads", self.callbus_heads, "--out", found),
            *("--epochs", str(self.size.epochs), "--device", self.args.device),
        )
        self.result.add("training process", "callbus", took)
        self.result.callbus_training = _read(found)

    def _quality(self) -> None:
        out = self.work / "quality.json"
        options: list[str | Path] = ["--data", *self.folders, "--cache", self.cache]
        options += ["--config", CONFIG, "--exchange", self.exchange]
        options += ["--callbus", self.work / "callbus-train.json"]
        options += ["--heads", SAME, self.ancestor_heads, "--heads", OWN, self.args.heads]
        options += ["--reports", self.work / "reports", "--out", out]
        self._measured(self.ours, "-m", "benchmarks.ancestor.quality", *options)
        self.result.quality = _read(out)

    def _speed(self) -> None:
        local, wide = self.args.own_config
        shapes = {
            self.width: (str(self.exchange / "train.npz"), self.size.local_pairs, local),
            WIDE: (f"random:{WIDE}", self.size.wide_pairs, wide),
        }
        for turn in range(self.size.rounds):
            for width, (pairs, count, own) in shapes.items():
                options = ["--pairs", pairs, "--count", str(count), "--device", self.args.device]
                options += ["--epochs", str(self.size.epochs_timed), "--seed", "0"]
                for system, config in (("callbus", None), (SAME, CONFIG), (OWN, own)):
                    out = self.work / f"speed-{width}-{system.replace(', ', '-')}-{turn}.json"
                    if config is None:
                        took = self._callbus("speed", *options, "--out", out)
                    else:
                        took = self._toolheads(
                            "speed", "--config", config.resolve(), *options, "--out", out
                        )
                    self.result.add(f"train {width}", system, took, _read(out))

    def _search(self) -> None:
        wide = {"callbus": self.work / "wide-callbus.npz", SAME: self.work / "wide-same.npz"}
        wide[OWN] = self.work / "wide-own.npz"
        made = self.work / "made.json"
        shape: list[str | Path] = ["--width", str(WIDE), "--out", made]
        self._callbus("make-heads", *shape, "--heads", wide["callbus"])
        self._toolheads("make-heads", *shape, "--heads", wide[SAME], "--hidden", "1536", "1536")
        self._toolheads("make-heads", *shape, "--heads", wide[OWN], "--hidden", "1024")
        local = {"callbus": self.callbus_heads, SAME: self.ancestor_heads, OWN: self.args.heads}
        for turn in range(self.size.rounds):
            for name, width, heads in (("local", self.width, local), ("wide", WIDE, wide)):
                for system in ("callbus", SAME, OWN):
                    out = self.work / f"search-{name}-{system.replace(', ', '-')}-{turn}.json"
                    options = ["search", "--catalogue", self.exchange / "catalogues" / name]
                    options += ["--heads", heads[system], "--out", out]
                    side = self._callbus if system == "callbus" else self._toolheads
                    took = side(*options)
                    self.result.add(f"search {width}", system, took, _read(out))

    def _starts(self) -> None:
        """Both `search` commands against one server, with everything in their caches."""
        catalogue = self.exchange / "catalogues" / "local"
        text = json.loads((catalogue / "requests.json").read_text(encoding="utf-8"))[0]
        with self._server(catalogue / "table") as url:
            data = catalogue / "callbus"
            commands: dict[str, list[str | Path]] = {
                "callbus": [
                    *(self.callbus.parent / "callbus", "search", text, "--json", "--data", data),
                    *("--clm-ckpt", self.callbus_heads, "--emb-url", url, "--emb-model", "table"),
                    *("--tool-format", "documentation", "--query-format", "plain"),
                ]
            }
            for number, system in enumerate((SAME, OWN)):
                commands[system] = [
                    *(self.ours.parent / "toolheads", "search", text, "--json"),
                    *("--data", catalogue / "toolheads"),
                    *("--cache", self.work / "search-cache", "--encoder", "openai"),
                    *("--url", url, "--model", "table"),
                    *("--heads", self.exchange / "served" / f"{number}.npz"),
                ]
            for system, command in commands.items():
                self.result.add("first start", system, self._measured(*command))
            for _ in range(self.size.starts):
                for system, command in commands.items():
                    self.result.add("start", system, self._measured(*command))

    # -- processes ------------------------------------------------------------------------------

    def _measured(self, *command: str | Path) -> Measured:
        return run(command, self.log, environ=self.environ)

    def _callbus(self, *options: str | Path) -> Measured:
        return self._measured(self.callbus, "-m", "benchmarks.ancestor.callbus_side", *options)

    def _toolheads(self, *options: str | Path) -> Measured:
        return self._measured(self.ours, "-m", "benchmarks.ancestor.toolheads_side", *options)

    @contextmanager
    def _server(self, table: Path) -> Iterator[str]:
        port_file = self.work / "port"
        command: list[str | Path] = [self.ours, "-m", "benchmarks.ancestor.table_server", table]
        command += ["--port-file", port_file]
        process = subprocess.Popen(command, env={**os.environ, **self.environ})
        try:
            for _ in range(600):
                if port_file.exists() or process.poll() is not None:
                    break
                time.sleep(0.1)
            if not port_file.exists():
                msg = f"the table's server must start within a minute, see above; {table}"
                raise ProcessFailedError(msg)
            yield f"http://127.0.0.1:{port_file.read_text(encoding='utf-8')}/v1"
        finally:
            process.terminate()
            process.wait()

    def _sample(self) -> Path:
        code = "from toolheads.sample import sample_folder; print(sample_folder())"
        found = subprocess.run(
            [self.ours, "-c", code], check=True, capture_output=True, text=True
        ).stdout
        return Path(found.strip())

    def _empty_work_folder(self) -> None:
        """What an earlier run left, but for the environment and the vectors."""
        self.work.mkdir(parents=True, exist_ok=True)
        for path in self.work.iterdir():
            if path.name in ("venv", "cache"):
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    @contextmanager
    def _step(self, what: str) -> Iterator[None]:
        _tell(f"== {what}")
        began = time.perf_counter()
        yield
        seconds = time.perf_counter() - began
        self.result.steps[what] = seconds
        _tell(f"   {seconds:.0f} s")


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _machine() -> dict[str, Any]:
    """Kind of machine, and how busy it was; never its name."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {**machine_kind(), "load_1_min": load}


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
