"""What the text of a tool should say: frozen embeddings under several candidate formats.

    python -m benchmarks.text_formats.run DATA [--queries 300] [--tools 2000] [--seed 0]
        [--encoder KIND] [--compute-dtype NAME] [--unseen] [--only FORMAT ...]

Embeds tools and training requests of each data set with the local encoder and prints nDCG@10 on
them, one row for each candidate. Test requests are not touched. `words, described parameters` is
the format `tool/v1`.

With `--unseen`, a report and not a choice: all test requests and all tools of the catalogues whose
tools no training request names. It says how much of what a scorer gains over frozen vectors is
the text that was embedded.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from benchmarks.results.choose import ids_with

import toolheads
from toolheads.data import Dataset, read_datasets
from toolheads.domain import Query, Tool
from toolheads.evaluation import per_query_metrics
from toolheads.texts import TextSettings, format_tool
from toolheads.texts.formats import schema_parameters
from toolheads.texts.words import identifier_words

NAMES = ("seal_tools", "toolbench", "toollinkos", "metatool", "gorilla_apibench", "toolrl_rlla")
UNSEEN = (
    *("livemcpbench", "mcp_bench", "toolret_apigen", "bfcl", "bfcl_multi_turn", "autotools"),
    *("api_bank", "toolalpaca", "tau2_bench", "rotbench", "tooltalk", "toolbench", "seal_tools"),
)
UNSEEN_PART = {"seal_tools": "test_out_domain"}
"""Data set → the part of its test requests that counts as unseen."""


def _plain(tool: Tool) -> str:
    return f"{tool.name}: {tool.description}"


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
    "raw, no server": _plain,
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
    parser.add_argument("--encoder", default="local", help="kind, such as sentence-transformers")
    parser.add_argument("--compute-dtype", help="of an encoder that has a choice, as bfloat16")
    parser.add_argument("--unseen", action="store_true")
    parser.add_argument("--only", nargs="+", choices=tuple(CANDIDATES), default=tuple(CANDIDATES))
    args = parser.parse_args()
    options = {"compute_dtype": args.compute_dtype} if args.compute_dtype else {}
    encoder = toolheads.encoder(args.encoder, **options)
    names = UNSEEN if args.unseen else NAMES
    datasets = [one for one in read_datasets(args.data) if one.name in names]
    datasets.sort(key=lambda one: names.index(one.name))
    if not datasets:
        parser.error(f"DATA must hold one of {', '.join(names)}, got {args.data}")
    print(f"| format | {' | '.join(one.name for one in datasets)} | mean |")
    print(f"| --- |{' ---: |' * (len(datasets) + 1)}")
    for name in args.only:
        text = CANDIDATES[name]
        values = [100 * _ndcg(one, text, encoder, args) for one in datasets]
        cells = " | ".join(
            f"{value:.{1 + args.unseen}f}" for value in [*values, float(np.mean(values))]
        )
        print(f"| {name} | {cells} |", flush=True)
    return 0


def _ndcg(
    dataset: Dataset,
    text: Callable[[Tool], str],
    encoder: toolheads.Encoder,
    args: argparse.Namespace,
) -> float:
    queries, tools = unseen(dataset, args.data) if args.unseen else _drawn(dataset, args)
    vectors = encoder.encode([text(tool) for tool in tools])  # (n, d)
    scores = encoder.encode([query.text for query in queries]) @ vectors.T  # (q, n)
    top = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    run = {q.id: [tools[row].id for row in rows] for q, rows in zip(queries, top, strict=True)}
    qrels = {query.id: dict(query.relevance) for query in queries}
    return float(per_query_metrics(run, qrels, ["ndcg@10"])["ndcg@10"].mean())


def _drawn(dataset: Dataset, args: argparse.Namespace) -> tuple[list[Query], list[Tool]]:
    """Training requests, and as many tools as asked for, the right ones among them."""
    queries = [query for query in dataset.queries if query.split == "train" and query.relevant]
    queries = random.Random(args.seed).sample(queries, min(args.queries, len(queries)))
    needed = {tool_id for query in queries for tool_id in query.relevant}
    others = [tool for tool in dataset.tools if tool.id not in needed]
    tools = [tool for tool in dataset.tools if tool.id in needed] + others
    return queries, tools[: max(args.tools, len(needed))]


def unseen(dataset: Dataset, data: Path) -> tuple[list[Query], list[Tool]]:
    """All test requests, or those of the part that counts, and all tools."""
    queries = [query for query in dataset.queries if query.split == "test" and query.relevant]
    if dataset.name in UNSEEN_PART:
        path = data / dataset.name / "queries.jsonl"
        part = ids_with(path, "part", UNSEEN_PART[dataset.name])
        queries = [query for query in queries if query.id in part]
    return queries, list(dataset.tools)


if __name__ == "__main__":
    sys.exit(main())
