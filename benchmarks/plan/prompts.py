"""What the prompts of each strategy take, and how often the right tool is in them.

    python benchmarks/plan/prompts.py DATA_DIR [--queries 300] [--seed 0]

For each data set with test queries: tokens of all tools in one block, of a menu of all, and the
mean over queries of the k best as a block and of a menu of the 64 best, by BM25 as `retrieve` has
it; and the share of queries of whose right tools all are among them. Formats: `xml_schema` for
blocks. A model that picks from them is not part of it.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from toolheads.data import Dataset, read_datasets
from toolheads.plan import ESTIMATE, TwoStage, plan_catalogue, render, retrieve
from toolheads.scorers.bm25 import BM25Scorer

KS = (8, 64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(
        "| data set | tools | all | menu of all | best 8 | right | menu of 64 | right | plan, 32k |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---|")
    for dataset in read_datasets(args.data, skip_bad=True, on_faults=lambda _: None):
        if any(q.relevant for q in dataset.split("test")):
            print(row(dataset, args.queries, args.seed), flush=True)


def row(dataset: Dataset, most: int, seed: int) -> str:
    tools = dataset.tools
    asked = [query for query in dataset.split("test") if query.relevant]
    asked = random.Random(seed).sample(asked, min(most, len(asked)))
    scorer = BM25Scorer()
    scorer.index(tools)
    tokens, right = dict.fromkeys(KS, 0), dict.fromkeys(KS, 0)
    for query in asked:
        ranking = retrieve(tools, query.text, k=KS[-1], scorer=scorer, is_indexed=True).tools
        for k in KS:
            best = ranking[:k]
            tokens[k] += ESTIMATE(
                render(best, "xml_schema") if k == KS[0] else TwoStage(best).selection_system()
            )
            right[k] += set(query.relevant) <= {tool.id for tool in best}
    plan = plan_catalogue(tools, context_tokens=32_768)
    menu = ESTIMATE(TwoStage(tools).selection_system())
    numbers = [f"{len(tools):,}", f"{plan.schema_tokens:,}", f"{menu:,}"]
    for k in KS:
        numbers += [f"{tokens[k] / len(asked):,.0f}", f"{right[k] / len(asked):.1%}"]
    return f"| {dataset.name} | " + " | ".join(numbers) + f" | `{plan.strategy}` |"


if __name__ == "__main__":
    main()
