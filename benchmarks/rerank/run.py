"""What keyword reranking finds, clean and with stuffed tools among the others.

    python benchmarks/rerank/run.py DATA [--split test] [--queries 200] [--seed 0] [--variants all]
        [--probe PROBE CATALOGUES]

Ranks requests of each data set over all its tools. Clean: nDCG@10 with the defence and without.
Stuffed: the same with 1 and with 5 more tools whose descriptions hold the words that most tools of
the catalogue have; also the share of requests for which such a tool comes first. The defaults of
`KeywordSettings` were chosen with `--split train`.

A probe is a JSON file with `queries` (query, gold) and `decoys` (kind to name and text), the
catalogues one with `catalogs` (name to pairs of name and description).
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from toolheads.data import Dataset, read_dataset
from toolheads.domain import Query, Tool
from toolheads.evaluation.metrics import ndcg
from toolheads.rerank import KeywordIndex, KeywordSettings, Reranker, RerankSettings
from toolheads.rerank import keyword as keyword_room
from toolheads.rerank.words import tool_search_words, word_functions

DEFAULT = KeywordSettings()
VARIANTS = {"no defence": replace(DEFAULT, long=None), "default": DEFAULT}
MORE = {
    "plain": KeywordSettings.plain(),
    **{f"long {long}": replace(DEFAULT, long=long) for long in (2.0, 3.0, 5.0)},
}
WORDS = 300
"""Distinct words of a stuffed tool."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="test", choices=("train", "val", "test"))
    parser.add_argument("--queries", type=int, default=200, help="most of each data set")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variants", default="defence", choices=("defence", "all"))
    parser.add_argument("--probe", type=Path, nargs=2, metavar=("PROBE", "CATALOGUES"))
    args = parser.parse_args()
    variants = VARIANTS | (MORE if args.variants == "all" else {})
    if args.probe:
        probe, catalogues = args.probe
        _print_probe(probe, catalogues, variants)
    columns = [f"{name}: {what}" for name in variants for what in ("clean", "1", "5", "first")]
    print("| data set | tools | queries |", " | ".join(columns), "|")
    print("| --- | ---: | ---: |", "---: | " * len(columns))
    rows = []
    for folder in sorted(path for path in args.data.iterdir() if path.is_dir()):
        dataset = read_dataset(folder)
        queries = _sampled(dataset, args.split, args.queries, args.seed)
        if queries:
            _KNOWN.clear()
            cells = [cell for one in variants.values() for cell in _cells(dataset, queries, one)]
            rows.append(cells)
            _print_row(f"{folder.name} | {len(dataset.tools)} | {len(queries)}", cells)
    _print_row("mean | | ", np.mean(rows, axis=0))


def _sampled(dataset: Dataset, split: str, most: int, seed: int) -> list[Query]:
    queries = [query for query in dataset.split(split) if query.relevant]
    if len(queries) <= most:
        return queries
    chosen = np.random.default_rng(seed).choice(len(queries), most, replace=False)
    return [queries[row] for row in sorted(chosen)]


def _cells(
    dataset: Dataset, queries: Sequence[Query], settings: KeywordSettings
) -> tuple[float, float, float, float]:
    """nDCG@10 clean, with one and with five stuffed tools, and how often one of five is first."""
    counts = Counter(word for tool in dataset.tools for word in _words(tool))
    common = " ".join(word for word, _ in counts.most_common(WORDS))
    values = []
    first = 0
    for decoys in (0, 1, 5):
        stuffed = [Tool(f"decoy {i}", f"a_helper_{i}", description=common) for i in range(decoys)]
        tools = [*stuffed, *dataset.tools]
        index = KeywordIndex(tools, settings)
        found = []
        for query in queries:
            ranking = index.ranking(query.text)
            ids = [tools[row].id for row in ranking.rows[: min(10, ranking.matched)]]
            found.append(ndcg(ids, query.relevance, 10))
            first += decoys == 5 and ids[:1] != [] and ids[0].startswith("decoy ")
        values.append(100 * float(np.mean(found)))
    return values[0], values[1], values[2], 100 * first / len(queries)


_KNOWN: dict[int, tuple[Tool, frozenset[str]]] = {}


def _words(tool: Tool) -> frozenset[str]:
    """Words of a tool, taken apart once for all indexes of a data set."""
    if id(tool) not in _KNOWN:
        _KNOWN[id(tool)] = tool, tool_search_words(tool)
    return _KNOWN[id(tool)][1]


def _known_words(words: str, stop_words: Collection[str] | None = None) -> Any:
    of_tool, of_query = word_functions(words, stop_words)  # type: ignore[arg-type]
    return (_words if words == "search" else of_tool), of_query


keyword_room.word_functions = _known_words  # type: ignore[attr-defined]  # for its own use


def _print_row(head: str, cells: Sequence[float]) -> None:
    print(f"| {head} |", " | ".join(f"{cell:.2f}" for cell in cells), "|", flush=True)


def _print_probe(probe: Path, catalogues: Path, variants: dict[str, KeywordSettings]) -> None:
    """How many requests have the right tool first, and in the first five."""
    asked = json.loads(probe.read_text(encoding="utf-8"))
    pairs = [
        pair
        for name in ("cad", "office")
        for pair in json.loads(catalogues.read_text(encoding="utf-8"))["catalogs"][name]
    ]
    print("| decoy | decoys |", " | ".join(variants), "|")
    print("| --- | ---: |", "---: | " * len(variants))
    for kind, (_, text) in asked["decoys"].items():
        for decoys in (0, 1, 5):
            stuffed = [(f"a_helper_{i}", text) for i in range(decoys)]
            tools = [
                Tool(f"{i}", name, description=about)
                for i, (name, about) in enumerate([*stuffed, *pairs])
            ]
            cells = []
            for keyword in variants.values():
                settings = RerankSettings(method="keyword", top_n=5, keyword=keyword)
                reranker = Reranker(tools, settings)
                lists = [(reranker.rerank(q["query"]).names, q["gold"]) for q in asked["queries"]]
                first = sum(names[0] == gold for names, gold in lists)
                cells.append(f"{first} / {sum(gold in names for names, gold in lists)}")
            print(f"| {kind} | {decoys} |", " | ".join(cells), "|", flush=True)
    print()


if __name__ == "__main__":
    main()
