"""Puts calibrations of packaged heads, one for each kind of catalogue, beside these heads.

    python -m benchmarks.thresholds.pack minilm FILE… --leaders LEADERS.json

Writes heads/minilm.thresholds.json, and its sha256 into heads/index.json. The floors of a size come
from the scores that `leaders` wrote, so that they hold for data sets that are none of these.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from toolheads.arrays import Floats
from toolheads.decide import Calibration, KindsOfThresholds, load_calibration
from toolheads.decide.calibration import MatchFloor, save_kinds
from toolheads.decide.calibration.match_floor import floor_across
from toolheads.durable import file_sha256, write_whole
from toolheads.heads import packaged_heads
from toolheads.heads.digests import INDEX_FILE


def sets_of(leaders: Mapping[str, Mapping[str, Sequence[float]]], file: Path) -> list[Floats]:
    """The scores of all data sets in catalogues of the size in a file's name."""
    size = file.stem.rpartition("-")[2]
    return [
        np.array(scores, np.float32)
        for kind, sets in leaders.items()
        if kind.endswith(f"/{size}")
        for scores in sets.values()
    ]


def with_floors(calibration: Calibration, sets: Sequence[Floats]) -> Calibration:
    """A calibration whose floors hold for another data set."""
    every = np.concatenate(sets)
    floors: list[MatchFloor] = []
    for fitted in calibration.floors:
        score = floor_across(sets, fitted.alpha)
        if floors:  # data sets may differ more in how their next lowest scores lie
            score = max(score, floors[-1].score)
        missed = float((every < score).mean())
        floors.append(MatchFloor(fitted.alpha, score, missed, None))
    return replace(calibration, floors=tuple(floors))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("heads")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--leaders", type=Path, required=True)
    args = parser.parse_args()
    (entry,) = (one for one in packaged_heads() if one.name == args.heads)
    leaders = json.loads(args.leaders.read_text(encoding="utf-8"))
    kinds = KindsOfThresholds(
        tuple(with_floors(load_calibration(file), sets_of(leaders, file)) for file in args.files)
    )
    path = save_kinds(entry.thresholds, kinds)
    index = entry.path.with_name(INDEX_FILE)
    content = json.loads(index.read_text(encoding="utf-8"))
    content[entry.path.name]["thresholds"] = file_sha256(path)
    write_whole(index, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())
    for one in kinds.calibrations:
        kind = one.kind
        floors = ", ".join(f"{floor.alpha:g}: {floor.score:.3f}" for floor in one.floors)
        print(
            f"{kind.tools.least:,.0f} to {kind.tools.most:,.0f} tools, "
            f"{kind.with_schema.least:.0%} to {kind.with_schema.most:.0%} with parameters: "
            f"{one.data['queries']} queries, floors {floors}"
        )


if __name__ == "__main__":
    main()
