"""`toolheads embed`: put the vectors of data sets into the cache."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from toolheads.bootstrap import EncoderSettings, make_encoder
from toolheads.cache import DTYPES
from toolheads.data import Dataset, read_datasets
from toolheads.embedder import EmbedCounts, Embedder
from toolheads.entrypoints.cli.engine import add_engine_options, cluster_of, encoder_of_worker
from toolheads.entrypoints.cli.options import (
    add_cache_option,
    add_data_option,
    add_encoder_options,
    add_text_options,
    encoder_settings,
    text_settings,
)
from toolheads.entrypoints.cli.printing import counted
from toolheads.entrypoints.cli.progress import ProgressBar
from toolheads.errors import ConfigError
from toolheads.identity import Fingerprint
from toolheads.jobs import Cluster
from toolheads.texts import TOOL_VIEWS, TextSettings, query_view_texts, tool_view_texts


def register(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "embed",
        help="embed the tools and queries of data sets into the cache",
        description="Embed the tools and queries of data sets into the cache. Texts that are in "
        "it already are not sent again: run the same command to go on after an interruption.",
    )
    add_data_option(parser)
    add_cache_option(parser)
    parser.add_argument(
        "--views",
        default="text",
        metavar="VIEW,…",
        help=f"views of a tool, of {', '.join(TOOL_VIEWS)} (default: text)",
    )
    parser.add_argument(
        "--clauses", action="store_true", help="embed the clauses of queries with several, too"
    )
    parser.add_argument(
        "--splits",
        metavar="SPLIT,…",
        help="queries of these splits only (default: all; '' embeds tools only)",
    )
    parser.add_argument(
        "--dtype",
        choices=DTYPES,
        default="float16",
        help="what vectors are stored in (default: float16)",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    add_text_options(parser)
    add_engine_options(parser)
    add_encoder_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Embed, and print what it took."""
    texts = text_settings(args)
    datasets = read_datasets(args.data, skip_bad=args.skip_bad)
    todo = list(_texts(datasets, args, texts))
    names = [dataset.name for dataset in datasets]
    settings = encoder_settings(args)
    cluster = cluster_of(args, settings)
    if cluster is not None:
        settings = encoder_of_worker(settings, cluster)
        counts, fingerprint = _distributed(todo, args, texts, settings, cluster)
        _print_summary(args, names, fingerprint, counts)
        return 0
    encoder = make_encoder(settings)
    try:
        with ProgressBar() as bar:
            embedder = Embedder(encoder, texts, args.cache, dtype=args.dtype, progress=bar)
            try:
                counts = embedder.fill(todo)
            except KeyboardInterrupt:
                bar.close()
                return _interrupted(embedder, todo)
    finally:
        encoder.close()
    _print_summary(args, names, embedder.fingerprint, counts)
    return 0


def _distributed(
    todo: Sequence[str],
    args: argparse.Namespace,
    texts: TextSettings,
    settings: EncoderSettings,
    cluster: Cluster,
) -> tuple[EmbedCounts, Fingerprint]:
    embedding = import_module("toolheads.jobs.distributed.embedding")
    filling = embedding.Filling(
        partial(make_encoder, settings), texts, args.cache.resolve(), args.dtype
    )
    # Ray prints what happens to its processes on stdout, which belongs to the summary.
    with redirect_stdout(sys.stderr), ProgressBar() as bar:
        filled: tuple[EmbedCounts, Fingerprint] = embedding.fill_cache(todo, filling, cluster, bar)
    return filled


def _texts(
    datasets: Sequence[Dataset], args: argparse.Namespace, settings: TextSettings
) -> Iterator[str]:
    views = _names(args.views)
    if not views:
        msg = f"--views must name at least one of {', '.join(TOOL_VIEWS)}, got nothing"
        raise ConfigError(msg)
    there = sorted({query.split for dataset in datasets for query in dataset.queries})
    splits = there if args.splits is None else _names(args.splits)
    for split in splits:
        if split not in there:
            msg = f"--splits must name splits of the queries ({', '.join(there)}), got {split!r}"
            raise ConfigError(msg)
    for dataset in datasets:
        for tool in dataset.tools:
            yield from tool_view_texts(tool, views, settings)
        for query in dataset.queries:
            if query.split in splits:
                yield from query_view_texts(query.text, settings, with_clauses=args.clauses)


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]


def _interrupted(embedder: Embedder, texts: Sequence[str]) -> int:
    unique = list(dict.fromkeys(texts))
    cache = embedder.cache
    stored = 0 if cache is None else int(np.count_nonzero(cache.find(unique) >= 0))
    print(
        f"toolheads: interrupted; {stored:,} of {len(unique):,} texts are in the cache, "
        "run the same command to go on",
        file=sys.stderr,
    )
    return 130


def _print_summary(
    args: argparse.Namespace, names: Sequence[str], fingerprint: Fingerprint, counts: EmbedCounts
) -> None:
    encoder = fingerprint.encoder
    speed = counts.embedded / counts.seconds if counts.embedded else None
    if args.json:
        summary = {
            "data_sets": list(names),
            **asdict(counts),
            "texts_per_second": speed,
            "cache": str(args.cache),
            "fingerprint": fingerprint.key,
            "model": encoder.model,
            "width": encoder.width,
            "dtype": args.dtype,
        }
        print(json.dumps(summary, indent=2, ensure_ascii=False))
        return
    print(
        f"{counted(counts.texts, 'text')} of {counted(len(names), 'data set')}, "
        f"{counts.unique:,} unique: "
        f"{counts.reused:,} reused, {counts.embedded:,} embedded in {counts.seconds:.1f} s"
        + (f" ({speed:,.0f} texts/s)" if speed else "")
    )
    print(f"{encoder.model}, width {encoder.width}, {args.dtype}: {args.cache}")
