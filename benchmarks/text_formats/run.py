"""What the text of a tool should say: frozen embeddings under several candidate formats.

    python benchmarks/text_formats/run.py DATA [--queries 300] [--tools 2000] [--seed 0]

Embeds tools and training requests of each data set with the local encoder and prints nDCG@10 on
them, one row for each candidate. Test requests are not touched. `words, described parameters` is
the format `tool/v1`.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import toolheads
from toolheads.data import Dataset, read_datasets
from toolheads.domain import Tool
from toolheads.evaluation import per_query_metrics
from toolheads.texts import TextSettings, format_tool
from toolheads.texts.formats import schema_parameters
from toolheads.texts.words import identifier_words

NAMES = ("seal_tools", "toolbench", "toollinkos", "metatool", "gorilla_apibench", "toolrl_rlla")


def _raw(tool: Tool) -> str:
    return f"{tool.server or ''} {tool.name}: {tool.description}".strip()


def _words(tool: Tool) -> str:
    names = " ".join(identifier_words(part) for part in (tool.server, tool.name) if part)
    return f"{names}: {tool.description}"


def _named(head: Callable[[Tool], str]) -> Callable[[Tool], str]:
    def text(tool: Tool) -> str:
        names = ", ".join(name for name, _ in schema_parameters(tool.input_schema))
        return f"{head(tool)}\nParameters: {names}" if names else head(tool)

    return text


def _described(tool: Tool) -> str:
    listed = "; ".join(f"{n}: {d}" if d else n for n, d in schema_parameters(tool.input_schema))
    return f"{_raw(tool)}\nParameters: {listed}" if listed else _raw(tool)


CANDIDATES: dict[str, Callable[[Tool], str]] = {
    "raw": _raw,
    "words": _words,
    "raw, parameter names": _named(_raw),
    "words, parameter names": _named(_words),
    "raw, described parameters": _described,
    "words, described parameters": lambda tool: format_tool(tool, TextSettings()),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--tools", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    encoder = toolheads.encoder("local")
    datasets = [one for one in read_datasets(args.data) if one.name in NAMES]
    print(f"| format | {' | '.join(one.name for one in datasets)} | mean |")
    print(f"| --- |{' ---: |' * (len(datasets) + 1)}")
    for name, text in CANDIDATES.items():
        values = [100 * _ndcg(one, text, encoder, args) for one in datasets]
        cells = " | ".join(f"{value:.1f}" for value in [*values, float(np.mean(values))])
        print(f"| {name} | {cells} |", flush=True)
    return 0


def _ndcg(
    dataset: Dataset,
    text: Callable[[Tool], str],
    encoder: toolheads.Encoder,
    args: argparse.Namespace,
) -> float:
    queries = [query for query in dataset.queries if query.split == "train" and query.relevant]
    queries = random.Random(args.seed).sample(queries, min(args.queries, len(queries)))
    needed = {tool_id for query in queries for tool_id in query.relevant}
    others = [tool for tool in dataset.tools if tool.id not in needed]
    tools = [tool for tool in dataset.tools if tool.id in needed] + others
    tools = tools[: max(args.tools, len(needed))]
    vectors = encoder.encode([text(tool) for tool in tools])  # (n, d)
    scores = encoder.encode([query.text for query in queries]) @ vectors.T  # (q, n)
    top = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    run = {q.id: [tools[row].id for row in rows] for q, rows in zip(queries, top, strict=True)}
    qrels = {query.id: dict(query.relevance) for query in queries}
    return float(per_query_metrics(run, qrels, ["ndcg@10"])["ndcg@10"].mean())


if __name__ == "__main__":
    sys.exit(main())
