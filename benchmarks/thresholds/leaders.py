"""Scores of the best tool on held-out requests, for floors that hold in catalogues of other kinds.

    python -m benchmarks.thresholds.leaders OUT --cache DIR --to FILE.json

OUT is what `held_out` wrote. Writes kind/size → data set → scores of the best tool for queries,
all of which have a right tool in the catalogue.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from toolheads.bootstrap import make_encoder, resolve_settings
from toolheads.data import read_dataset
from toolheads.decide.calibration.run import drawn
from toolheads.facade import load_scorer

_QUERIES = 150
"""Of each catalogue."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--sizes", nargs="*", default=["256", "64", "16", "whole"])
    args = parser.parse_args()
    scorer = load_scorer("minilm", make_encoder(resolve_settings()), cache=args.cache)
    scores: dict[str, dict[str, list[float]]] = {}
    for size in args.sizes:
        for folder in sorted(args.out.glob(f"*/{size}/*")):
            dataset = read_dataset(folder)
            queries = drawn(dataset.split("val"), dataset.name, _QUERIES, 0)
            scorer.index(dataset.tools)
            best = [hits[0].score for hits in scorer.rank(queries, 1)]
            kind = scores.setdefault(f"{folder.parts[-3]}/{size}", {})
            kind.setdefault(folder.name.partition(f"-{size}-")[0], []).extend(best)
        args.to.write_text(json.dumps(scores), encoding="utf-8")
        print(size, flush=True)


if __name__ == "__main__":
    main()
