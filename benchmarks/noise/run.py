"""What wrong labels do to training, and whether its choices keep heads from harm.

    python benchmarks/noise/run.py DATA [--cache DIR] [--work DIR] [--rates 0 10 20 40]
        [--trained NAME ...] [--left-out NAME ...] [--catalogues NAME ...] [OPTION ...]

DATA is a folder of data sets. Five of them are trained on, five others with training requests are
left out; label-free pairs are made of the catalogues. Of each trained one a tenth of the tools is
held out with its requests for validation, as `configs/minilm.yaml` does. Then a share of the labels
is made wrong: the right tools of a request are replaced by as many others of its data set, drawn at
random; of the training requests only, or of those that validate as well. Test requests are not
touched: what is called left out below are training requests of data sets that had no part in
training or choosing.

Heads are trained by `configs/minilm.yaml` with the whole text alone as view, no words in the score
and all shares of what was learned to choose from, so that what is gained or lost is the heads'
doing; each OPTION (`--model.optimizer.lr=1e-3`) goes to the trainer.
One row for each share of wrong labels, in points of nDCG@10 over the frozen vectors:

- as chosen: what the run keeps (its best step, and the share of what was learned);
- all kept: the last step whole, as if nothing had been chosen.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from toolheads.data import Dataset, read_dataset
from toolheads.data.datasets import QUERIES_FILE, dataset_folders
from toolheads.data.overlap import Overlap, overlapping_tools, read_overlap, without_tools
from toolheads.data.records import from_query
from toolheads.data.splits import split_by_tool
from toolheads.domain import Query
from toolheads.evaluation.comparison import compare
from toolheads.evaluation.report_file import read_report

CONFIG = Path(__file__).parents[2] / "configs" / "minilm.yaml"
TRAINED = ("seal_tools", "toolrl_rlla", "azure_cli", "gorilla_apibench", "tldr_commands")
LEFT_OUT = ("toolbench", "toollinkos", "glaive_demo", "aws_cli", "metatool")
MOST = 500
"""Requests of one data set that validate or are measured."""
HEADS_ALONE = (
    *("--calibration.tool_weights=[{text: 1.0}]", "--calibration.clause_weights=[0.0]"),
    *("--calibration.lexical_weights=[]", "--calibration.alphas=[1.0, 0.8, 0.6, 0.4, 0.2, 0.0]"),
)
COMMAND = (sys.executable, "-m", "toolheads.entrypoints.cli")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".cache/toolheads"))
    parser.add_argument("--work", type=Path, default=Path("runs/noise"))
    parser.add_argument("--rates", type=int, nargs="+", default=[0, 10, 20, 40], metavar="PERCENT")
    parser.add_argument("--trained", nargs="+", default=TRAINED, metavar="NAME")
    parser.add_argument("--left-out", nargs="+", default=LEFT_OUT, metavar="NAME")
    parser.add_argument("--catalogues", nargs="+", metavar="NAME", help="default: all")
    args, options = parser.parse_known_args()
    trained = [read_dataset(args.data / name) for name in args.trained]
    left_out = [read_dataset(args.data / name) for name in args.left_out]
    catalogues = [
        folder
        for folder in dataset_folders(args.data)
        if not (folder / QUERIES_FILE).exists()
        and (args.catalogues is None or folder.name in args.catalogues)
    ]
    others = args.work / "data" / "left-out"
    for one in left_out:
        asked = _some(one.split("train"))
        _write(args.data, others, one, [replace(query, split="test") for query in asked])
    for stale in args.work.glob("frozen-*.json"):
        stale.unlink()
    shared = args.data / "overlap.json"
    overlap = read_overlap(shared) if shared.exists() else {}
    splits = {one.name: _held_out(one, overlap) for one in trained}
    print(_row(*HEADER))
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    clean = args.work / "data" / "clean"
    for one in trained:
        _write(args.data, clean, one, splits[one.name])
    for rate in args.rates:
        for which in (("train",), ("train", "val")) if rate else ((),):
            folder = args.work / "data" / "-".join([str(rate), *which])
            for one in trained:
                queries = _with_wrong_labels(one, splits[one.name], rate / 100, which)
                _write(args.data, folder, one, queries)
            roots = [folder, others, *catalogues]
            print(_measured(args, folder.name, roots, [clean, others], options), flush=True)
    return 0


HEADER = (
    *("wrong labels", "of", "best step", "kept", "validation as labelled", "validation, right"),
    *("left out, as chosen", "worst set", "left out, all kept", "seconds"),
)


def _measured(
    args: argparse.Namespace,
    name: str,
    roots: Sequence[Path],
    measured: Sequence[Path],
    options: Sequence[str],
) -> str:
    """Train, measure, and give the row."""
    start = time.monotonic()
    _run(
        *("train", "fit", "--config", str(CONFIG), "--name", name, "--runs", str(args.work)),
        *("--overwrite", "true", f"--data.root=[{','.join(map(str, roots))}]"),
        *(f"--data.cache={args.cache}", "--data.validation.by=given", *HEADS_ALONE),
        *options,
    )
    seconds = time.monotonic() - start
    run = args.work / name
    last = run / "last.npz"
    last.unlink(missing_ok=True)
    _run("train", "export", "--ckpt", f"{run}/checkpoints/last.ckpt", "--out", str(last))
    summary = json.loads((run / "summary.json").read_text())
    told = [summary["metrics"][which]["mean"]["ndcg@10"] for which in ("frozen", "heads")]
    clean, others = measured
    right = told[1] - told[0]
    if "val" in name:
        right = _gain(args, clean, "val", run / "heads.npz").macro.difference
    chosen = _gain(args, others, "test", run / "heads.npz")
    whole = _gain(args, others, "test", last)
    worst = min(chosen.datasets, key=lambda line: line.difference)
    rate, _, which = name.partition("-")
    return _row(
        f"{rate} %",
        which.replace("-", " and ") or "none",
        f"{summary['best_step']} of {summary['steps']}",
        f"{100 * summary['share']:.0f} %",
        f"{100 * (told[1] - told[0]):+.2f}",
        f"{100 * right:+.2f}",
        "{:+.2f} [{:+.2f}, {:+.2f}]".format(
            *(100 * x for x in (chosen.macro.difference, *chosen.macro.interval))
        ),
        f"{100 * worst.difference:+.2f} ({worst.name})",
        f"{100 * whole.macro.difference:+.2f}",
        f"{seconds:.0f}",
    )


def _gain(args: argparse.Namespace, data: Path, split: str, heads: Path):
    """The paired comparison with frozen vectors; those are measured once."""
    reports = []
    for scorer, out in (
        (("dense",), args.work / f"frozen-{data.name}-{split}.json"),
        (("clm", "--heads", str(heads)), heads.with_name(f"{heads.stem}-{data.name}.json")),
    ):
        if scorer[0] == "clm" or not out.exists():
            _run(
                *("eval", "--data", str(data), "--split", split, "--cache", str(args.cache)),
                *("--json", str(out), "--scorer", *scorer),
            )
        reports.append(read_report(out))
    return compare(*reports)


def _held_out(one: Dataset, overlap: Overlap) -> list[Query]:
    """Training queries, and validation queries of held-out tools, at most `MOST`."""
    gone = overlapping_tools(overlap, [one.name], allowed=[tool.id for tool in one.tools])
    asked = without_tools((query for query in one.split("train") if query.relevant), gone)
    split = split_by_tool(asked, one.tools, val=0.1, seed=0)
    return [*split.train, *_some(split.val)]


def _with_wrong_labels(
    one: Dataset, queries: Sequence[Query], rate: float, which: Sequence[str]
) -> list[Query]:
    """The same queries; of those of some splits, a share has other tools, as many as before."""
    rng = np.random.default_rng([*one.name.encode()])
    ids = np.array([tool.id for tool in one.tools])
    found = []
    for query in queries:
        is_wrong = rng.random() < rate  # drawn for all, so that rates and splits agree on the rest
        order = rng.permutation(len(ids))[: 2 * len(query.relevance) + 1]
        if is_wrong and query.split in which:
            wrong = [x for x in ids[order].tolist() if x not in query.relevance]
            query = replace(query, relevance=dict.fromkeys(wrong[: len(query.relevant)], 1))
        found.append(query)
    return found


def _some(queries: Sequence[Query]) -> list[Query]:
    """At most `MOST` of those that some tool fits, drawn at random, in their order."""
    fitting = [query for query in queries if query.relevant]
    rows = np.random.default_rng(0).permutation(len(fitting))[:MOST]
    return [fitting[row] for row in np.sort(rows)]


def _write(data: Path, root: Path, one: Dataset, queries: Sequence[Query]) -> None:
    """A data set of the same tools with these queries."""
    folder = root / one.name
    folder.mkdir(parents=True, exist_ok=True)
    tools = folder / "tools.jsonl"
    tools.unlink(missing_ok=True)
    tools.symlink_to((data / one.name / "tools.jsonl").resolve())
    lines = "".join(f"{json.dumps(from_query(query))}\n" for query in queries)
    (folder / "queries.jsonl").write_text(lines, encoding="utf-8")


def _run(*words: str) -> None:
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stderr[-2000:]}")


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
