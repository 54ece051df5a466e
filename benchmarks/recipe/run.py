"""What each part of the training recipe is worth on data sets that training never saw.

    python benchmarks/recipe/run.py DATA [--cache DIR] [--work DIR] [--only NAME ...]

Leaves data sets out: the data sets with training requests are dealt into two folds; heads are
trained without a fold and measured on the training requests of its data sets (at most 500 each,
test requests are not touched). One row for each variant of `configs/minilm.yaml`: the mean gain
in nDCG@10 over the frozen vectors, the worst data set, and the seconds of both trainings. sgd is
left out, as in the packaged heads. The checkpoint is chosen on the same requests, so read
differences between rows, not a row as a result.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path

CONFIG = Path(__file__).parents[2] / "configs" / "minilm.yaml"
FOLDS = (
    ("toolbench", "toollinkos", "glaive_demo", "aws_cli", "metatool"),
    ("seal_tools", "toolrl_rlla", "azure_cli", "gorilla_apibench", "tldr_commands"),
)
KEEP_ALL = ("--calibration.alphas=[1.0]",)
HEADS_ALONE = (
    *KEEP_ALL,
    "--calibration.tool_weights=[{text: 1.0}]",
    "--calibration.clause_weights=[0.0]",
    "--calibration.lexical_weights=[]",
)
SMALLER = ("--model.head.hidden=[384]", "--trainer.max_epochs=10")
SHARPER = (*SMALLER, "--model.loss.temperature=0.025")
EQUAL = (*SHARPER, "--data.sampling.power=0.0")
VARIANTS: dict[str, tuple[str, ...]] = {
    "minilm.yaml": (),
    "all that was learned kept": KEEP_ALL,
    "no heads": ("--calibration.alphas=[0.0]",),
    "heads alone": HEADS_ALONE,
    "half of each batch label-free": (*KEEP_ALL, "--data.sampling.label_free_share=0.5"),
    "no base-cosine mask": (*KEEP_ALL, "--model.loss.mask_margin=null"),
    "both directions": (*KEEP_ALL, "--model.loss.both_directions=true"),
    "sampling by n": (*KEEP_ALL, "--data.sampling.power=1.0"),
    "2,000 steps": (*KEEP_ALL, "--trainer.max_epochs=40"),
    "hidden layer of 1536": (*KEEP_ALL, "--model.head.hidden=[1536]"),
    "averaged weights, decay 0.99": (*KEEP_ALL, "--model.ema=0.99"),
    "feature dropout 0.1": (*KEEP_ALL, "--model.head.feature_dropout=0.1"),
    "centred": (*KEEP_ALL, "--model.head.centre=corpus"),
    "one linear map": (*KEEP_ALL, "--model.head.hidden=[]"),
    "low rank, 64": (*KEEP_ALL, "--model.head.hidden=[64]", "--model.head.activation=identity"),
    "widths 64, 128, 256 too": (*KEEP_ALL, "--model.head.widths=[64,128,256]"),
    "hidden layer of 384, 500 steps": (*KEEP_ALL, *SMALLER),
    "… temperature from 0.025": (*KEEP_ALL, *SHARPER),
    "… all data sets equal": (*KEEP_ALL, *EQUAL),
    "… 60 % kept": (*EQUAL, "--calibration.alphas=[0.6]"),
    "… 30 % kept": (*EQUAL, "--calibration.alphas=[0.3]"),
}
"""Names that begin with … add to the row before them."""


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
        run = f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}-{number}"
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
