"""Reads the data once and writes what both sides get: pairs, test sets, a catalogue to search.

The training queries, the held-out ones and every vector are those of `configs/ancestor.yaml`, so
that the two trainers see the same rows in the same split.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.ancestor.exchange import Pairs, VectorTable, unit_rows, write_json
from benchmarks.ancestor.recipe import folder_data
from benchmarks.ancestor.table_server import MODEL

from toolheads.bootstrap import make_encoder
from toolheads.data import Dataset, read_datasets, write_tools
from toolheads.domain import Tool
from toolheads.embedder import Embedder
from toolheads.heads import Heads, load_heads, save_heads
from toolheads.identity import PROBE_TEXTS, EncoderIdentity, Fingerprint
from toolheads.texts import format_tool, query_view_texts, tool_view_texts
from toolheads_train.data.corpus import TrainingCorpus
from toolheads_train.data.folders import load_folders
from toolheads_train.loop.validation import ValidationSet

HARMLESS = "hello"
"""What toolheads asks a server first, to learn the width of its vectors."""


def main() -> None:
    """Write the exchange folder."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", nargs="+", required=True, metavar="DIR")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--overlap", default=None)
    parser.add_argument("--exclude", nargs="*", default=[])
    parser.add_argument("--max-queries", type=int, default=None)
    parser.add_argument("--validation-by", default=None)
    parser.add_argument("--catalogue-tools", type=int, required=True)
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--heads", nargs="*", default=[], metavar="NAME|FILE")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--exchange", type=Path, required=True)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    rng = np.random.default_rng(args.seed)
    counts = _pairs(args)
    datasets = read_datasets(args.data)
    data = folder_data(args.config, root=args.data, cache=str(args.cache))
    encoder = make_encoder(data.folders.encoder)
    try:
        embedder = Embedder(encoder, data.folders.texts, args.cache)
        for dataset in datasets:
            _test_set(dataset, embedder, args.exchange / "test")
        found = _catalogue(datasets, embedder, args, rng)
    finally:
        encoder.close()
    write_json(args.exchange / "prepared.json", {**counts, **found})


def _pairs(args: argparse.Namespace) -> dict[str, Any]:
    """Training pairs and validation sets, exactly as the trainer of the config selects them."""
    changes: dict[str, Any] = {
        "root": args.data,
        "cache": str(args.cache),
        "exclude": args.exclude,
        "overlap": args.overlap,
        "max_queries": args.max_queries,
    }
    data = folder_data(args.config, **changes)
    if args.validation_by is not None:
        validation = replace(data.folders.validation, by=args.validation_by)
        data = folder_data(args.config, **changes, validation=validation)
    loaded = load_folders(data.folders, seed=0, label_free=False)
    logging.getLogger(__name__).info("\n".join(loaded.summary()))
    pairs = _training_pairs(loaded.corpus)
    pairs.save(args.exchange / "train.npz")
    for one in loaded.validation_sets:
        _validation_pairs(one).save(args.exchange / "validation" / f"{one.name}.npz")
    return {
        "train_queries": len(pairs.queries),
        "train_tools": len(pairs.tools),
        "validation_queries": sum(len(one.relevant) for one in loaded.validation_sets),
        "width": int(pairs.queries.shape[1]),
        "encoder": asdict(loaded.fingerprint.encoder),
    }


def _training_pairs(corpus: TrainingCorpus) -> Pairs:
    """Equal tools are one row, as callbus makes them of equal texts."""
    groups = corpus.groups.numpy()
    _, first, row_of = np.unique(groups, return_index=True, return_inverse=True)
    offsets, values = corpus.positives.offsets.tolist(), corpus.positives.values.tolist()
    relevant = [
        dict.fromkeys((int(row_of[row]) for row in values[start:end]), 1)
        for start, end in pairwise(offsets)
    ]
    return Pairs(corpus.queries.numpy(), corpus.tools[:, 0].numpy()[first], relevant)


def _validation_pairs(one: ValidationSet) -> Pairs:
    offsets = one.relevant.offsets.tolist()
    rows, grades = one.relevant.rows.tolist(), one.relevant.grades.tolist()
    relevant = [
        dict(zip(rows[start:end], grades[start:end], strict=True))
        for start, end in pairwise(offsets)
    ]
    return Pairs(one.queries.numpy(), one.tools[:, 0].numpy(), relevant)


def _test_set(dataset: Dataset, embedder: Embedder, folder: Path) -> None:
    queries = [query for query in dataset.split("test") if query.relevant]
    if not queries:
        return
    row_of = {tool.id: row for row, tool in enumerate(dataset.tools)}
    Pairs(
        embedder.queries([query.text for query in queries], with_clauses=False).whole,
        embedder.tools(dataset.tools)["text"],
        [{row_of[tool_id]: g for tool_id, g in query.relevance.items()} for query in queries],
    ).save(folder / f"{dataset.name}.npz")


def _catalogue(
    datasets: Sequence[Dataset],
    embedder: Embedder,
    args: argparse.Namespace,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Tools, requests and the vectors of all their texts, at the encoder's width and at 4096."""
    heads = [load_heads(name, allow_unverified=True) for name in args.heads]
    tools = _drawn_tools(datasets, args.catalogue_tools, rng)
    invented = args.catalogue_tools - len(tools)
    tools += [
        Tool(id=f"made/{i}", name=f"made_up_tool_{i}", server="made", description=f"Made-up {i}.")
        for i in range(invented)
    ]
    texts = [
        q.text for d in datasets for q in d.split("test") if q.text == " ".join(q.text.split())
    ]
    texts = list(dict.fromkeys(texts))
    drawn = [texts[row] for row in rng.permutation(len(texts))[: args.requests]]
    views = sorted({"text", *(view for h in heads for view in h.header.views.tool)})
    needed = _needed_texts(tools, drawn, views, embedder, heads)
    made = {
        text
        for tool in tools[len(tools) - invented :]
        for text in tool_view_texts(tool, views, embedder.texts)
    }
    real = [text for text in needed if text not in made]
    fill = [text for text in needed if text in made]
    width = embedder.fingerprint.encoder.width
    known = np.concatenate(
        # What the encoder is asked for is not kept: the cache may be another's.
        [embedder.embed(real, keep=False), unit_rows(len(fill), width, args.seed)]
    )
    for name, rows in (
        ("local", known),
        ("wide", unit_rows(len(needed), 4096, args.seed)),
    ):
        folder = args.exchange / "catalogues" / name
        VectorTable([*real, *fill], rows).save(folder / "table")
        (folder / "requests.json").write_text(json.dumps(drawn), encoding="utf-8")
        _write_catalogue(tools, embedder, folder)
    for number, one in enumerate(heads):
        _save_for_server(one, embedder, args.exchange / "served" / f"{number}.npz")
    return {
        "catalogue_tools": len(tools),
        "made_up_tools": invented,
        "requests": len(drawn),
    }


def _drawn_tools(datasets: Sequence[Dataset], count: int, rng: np.random.Generator) -> list[Tool]:
    """Tools of all data sets, drawn at random, ids made unique."""
    every = [
        replace(tool, id=f"{one.name}/{tool.id}", extra={})
        for one in datasets
        for tool in one.tools
    ]
    return [every[row] for row in np.sort(rng.permutation(len(every))[:count])]


def _needed_texts(
    tools: Sequence[Tool],
    requests: Sequence[str],
    views: Sequence[str],
    embedder: Embedder,
    heads: Iterable[Heads],
) -> list[str]:
    with_clauses = any(one.header.views.has_clauses for one in heads)
    texts = [text for tool in tools for text in tool_view_texts(tool, views, embedder.texts)]
    for request in requests:
        texts += query_view_texts(request, embedder.texts, with_clauses=with_clauses)
    return list(dict.fromkeys([*texts, *requests, *PROBE_TEXTS, HARMLESS]))


def _write_catalogue(tools: Sequence[Tool], embedder: Embedder, folder: Path) -> None:
    """The same tools in each side's own format, callbus's with the text that was embedded."""
    write_tools(folder / "toolheads" / "tools.jsonl", tools)
    (folder / "callbus").mkdir(parents=True, exist_ok=True)
    with (folder / "callbus" / "tools.jsonl").open("w", encoding="utf-8") as file:
        for tool in tools:
            record = {
                "id": tool.id,
                "doc": {
                    "server": tool.server,
                    "name": tool.name,
                    "description": tool.description,
                    "inputSchema": dict(tool.input_schema or {}),
                },
                "documentation": format_tool(tool, embedder.texts),
                "category": tool.server or "",
            }
            # ASCII: callbus cuts its lines at U+2028 and U+0085 too.
            file.write(json.dumps(record, ensure_ascii=True) + "\n")


def _save_for_server(heads: Heads, embedder: Embedder, path: Path) -> None:
    """The same heads, for the same vectors as the table's server gives them."""
    identity = EncoderIdentity(
        model=MODEL, revision="", pooling="server", truncation=0,
        width=heads.state.width, dtype="server",
    )  # fmt: skip
    header = replace(heads.header, fingerprint=Fingerprint(identity, embedder.texts))
    probe = embedder.embed(PROBE_TEXTS, keep=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_heads(path, replace(heads, header=header, probe=probe, sha256=""))


if __name__ == "__main__":
    main()
