"""Writes expected.json with pytrec_eval: `python tests/golden/trec/make.py`."""

from __future__ import annotations

import json
from pathlib import Path

import pytrec_eval

HERE = Path(__file__).parent
NAMES = {"ndcg": "ndcg_cut", "recall": "recall", "precision": "P", "map": "map_cut"}
CUTOFFS = (1, 3, 5, 10)


def main() -> None:
    with (HERE / "run.txt").open(encoding="utf-8") as file:
        run = pytrec_eval.parse_run(file)
    with (HERE / "qrels.txt").open(encoding="utf-8") as file:
        qrels = pytrec_eval.parse_qrel(file)
    depths = ",".join(map(str, CUTOFFS))
    wanted = {f"{name}.{depths}" for name in NAMES.values()}
    found = pytrec_eval.RelevanceEvaluator(qrels, wanted).evaluate(run)
    expected = {
        query_id: {
            f"{ours}@{k}": values[f"{theirs}_{k}"]
            for ours, theirs in NAMES.items()
            for k in CUTOFFS
        }
        for query_id, values in sorted(found.items())
    }
    text = json.dumps(expected, indent=1, ensure_ascii=False)
    (HERE / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
