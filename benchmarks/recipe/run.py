"""What each part of the training recipe is worth on data sets that training never saw.

    python -m benchmarks.recipe.run DATA [--cache DIR] [--work DIR] [--only NAME ...]

One row for each variant of `configs/minilm.yaml`, measured as `benchmarks.recipe.folds` says: the
mean gain in nDCG@10 over the frozen vectors, the worst data set, and the seconds of both
trainings. What the switches of the trainer do to heads alone is in `benchmarks.recipe.levers`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks.recipe.folds import Folds, row

KEEP_ALL = ("--calibration.alphas=[1.0]",)
HEADS_ALONE = (
    *KEEP_ALL,
    "--calibration.tool_weights=[{text: 1.0}]",
    "--calibration.clause_weights=[0.0]",
    "--calibration.lexical_weights=[]",
)
SMALLER = ("--model.head.hidden=[384]", "--trainer.max_epochs=10")
SHARPER = (*SMALLER, "--model.loss.temperature=0.025")
HALF_FREE = (*SMALLER, "--data.sampling.label_free_share=0.5")
EQUAL = (*SHARPER, "--data.sampling.power=0.0")
VARIANTS: dict[str, tuple[str, ...]] = {
    "minilm.yaml": (),
    "all that was learned kept": KEEP_ALL,
    "no heads": ("--calibration.alphas=[0.0]",),
    "heads alone": HEADS_ALONE,
    "half of each batch label-free": (*KEEP_ALL, "--data.sampling.label_free_share=0.5"),
    "… hidden layer of 384, 500 steps": (*KEEP_ALL, *HALF_FREE),
    "… … heads alone": (*HEADS_ALONE, *HALF_FREE),
    "no base-cosine mask": (*KEEP_ALL, "--model.loss.mask_margin=null"),
    "both directions": (*KEEP_ALL, "--model.loss.both_directions=true"),
    "sampling by n": (*KEEP_ALL, "--data.sampling.power=1.0"),
    "2,000 steps": (*KEEP_ALL, "--trainer.max_epochs=40"),
    "hidden layer of 1536": (*KEEP_ALL, "--model.head.hidden=[1536]"),
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
    folds = Folds(args.data, args.cache, args.work)
    print("| variant | mean gain | worst data set | seconds |")
    print("| --- | ---: | ---: | ---: |", flush=True)
    for name, options in VARIANTS.items():
        if args.only is None or name in args.only:
            start = time.monotonic()
            gains = {**folds.fit(name, 0, options), **folds.fit(name, 1, options)}
            print(row(name, gains, f"{time.monotonic() - start:.0f}"), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
