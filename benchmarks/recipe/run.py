"""What each part of the training recipe is worth on data sets that training never saw.

    python benchmarks/recipe/run.py DATA [--cache DIR] [--work DIR] [--only NAME ...]

Leaves data sets out: the data sets with training requests are dealt into two folds; heads are
trained without a fold and measured on the training requests of its data sets (at most 500 each,
test requests are not touched). One row for each variant of `configs/minilm.yaml`: the mean gain
in nDCG@10 over the frozen vectors, the worst data set, and the seconds of both trainings. The
checkpoint is chosen on the same requests, so read differences between rows, not a row as a result.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

CONFIG = Path(__file__).parents[2] / "configs" / "minilm.yaml"
FOLDS = (
    ("toolbench", "toollinkos", "glaive_demo", "aws_cli", "metatool"),
    ("seal_tools", "toolrl_rlla", "azure_cli", "gorilla_apibench", "tldr_commands"),
)
HEADS_ALONE = ("--calibration.tool_weights=[]", "--calibration.clause_weights=[]")
VARIANTS: dict[str, tuple[str, ...]] = {
    "minilm.yaml": (),
    "alpha 1": ("--calibration.alphas=[1.0]",),
    "alpha 0.3": ("--calibration.alphas=[0.3]",),
    "no heads, views only": ("--calibration.alphas=[0.0]",),
    "name and summary 0.2 each": (
        "--calibration.tool_weights=[{text: 0.6, name: 0.2, summary: 0.2}]",
    ),
    "text of tools alone, clauses": ("--calibration.tool_weights=[{text: 1.0}]",),
    "heads alone, no views": HEADS_ALONE,
    "heads alone, alpha 1": (*HEADS_ALONE, "--calibration.alphas=[1.0]"),
    "no label-free pairs": ("--data.sampling.label_free_share=0",),
    "80 % label-free pairs": ("--data.sampling.label_free_share=0.8",),
    "no base-cosine mask": ("--model.loss.mask_margin=null",),
    "base-cosine mask at +0.05": ("--model.loss.mask_margin=0.05",),
    "both directions": ("--model.loss.both_directions=true",),
    "temperature starts at 0.05": ("--model.loss.temperature=0.05",),
    "sampling by sqrt(n)": ("--data.sampling.power=0.5",),
    "sampling by n": ("--data.sampling.power=1.0",),
    "lr 3e-4": ("--model.optimizer.lr=3e-4",),
    "two layers of 1536, lr 3e-5": (
        "--model.head.hidden=[1536,1536]",
        "--model.optimizer.lr=3e-5",
    ),
    "low rank 64, linear": ("--model.head.hidden=[64]", "--model.head.activation=identity"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".cache/toolheads"))
    parser.add_argument("--work", type=Path, default=Path("runs/recipe"))
    parser.add_argument("--only", nargs="*", default=None, metavar="NAME")
    args = parser.parse_args()
    print("| variant | mean gain | worst data set | seconds |")
    print("| --- | ---: | ---: | ---: |", flush=True)
    for name, options in VARIANTS.items():
        if args.only is None or name in args.only:
            print(_row(name, options, args), flush=True)
    return 0


def _row(name: str, options: tuple[str, ...], args: argparse.Namespace) -> str:
    gains: dict[str, float] = {}
    start = time.monotonic()
    for number, fold in enumerate(FOLDS):
        run = f"{name.replace(' ', '-').replace('/', '-').replace('%', '')}-{number}"
        command = [
            *(sys.executable, "-m", "toolheads.entrypoints.cli", "train", "fit"),
            *("--config", str(CONFIG), "--name", run, "--runs", str(args.work)),
            *(
                "--overwrite",
                "true",
                f"--data.root=[{args.data}]",
                "--data.exclude=[sgd]",
                f"--data.cache={args.cache}",
            ),
            *("--data.validation.by=given", f"--data.validation.datasets=[{','.join(fold)}]"),
            *options,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{name}: {done.stderr[-2000:]}")
        metrics = json.loads((args.work / run / "summary.json").read_text())["metrics"]
        for one in fold:
            change = metrics["heads"][one]["ndcg@10"] - metrics["frozen"][one]["ndcg@10"]
            gains[one] = 100 * change
    worst = min(gains, key=lambda one: gains[one])
    mean = sum(gains.values()) / len(gains)
    return (
        f"| {name} | {mean:+.2f} | {gains[worst]:+.2f} ({worst}) | {time.monotonic() - start:.0f} |"
    )


if __name__ == "__main__":
    sys.exit(main())
