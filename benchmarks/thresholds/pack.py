"""Puts calibrations of packaged heads, one for each kind of catalogue, beside these heads.

    python -m benchmarks.thresholds.pack minilm FILE…

Writes heads/minilm.thresholds.json, and its sha256 into heads/index.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from toolheads.decide import KindsOfThresholds, load_calibration
from toolheads.decide.calibration import save_kinds
from toolheads.durable import file_sha256, write_whole
from toolheads.heads import packaged_heads
from toolheads.heads.digests import INDEX_FILE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("heads")
    parser.add_argument("files", nargs="+", type=Path)
    args = parser.parse_args()
    (entry,) = (one for one in packaged_heads() if one.name == args.heads)
    kinds = KindsOfThresholds(tuple(load_calibration(file) for file in args.files))
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
