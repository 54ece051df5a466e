"""`toolheads search`: the tools for one query, on the terminal."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from toolheads.data import read_tools
from toolheads.data.datasets import tools_file
from toolheads.domain import Hit, Query
from toolheads.entrypoints.cli.printing import printable
from toolheads.entrypoints.cli.progress import ProgressBar
from toolheads.entrypoints.cli.scorers import WITH_HYBRID, add_scorer_options, named_scorer
from toolheads.errors import ConfigError
from toolheads.ports import Scorer
from toolheads.sample import dataset_path
from toolheads.scorers.explanation import Explanation
from toolheads.scorers.vectors import VectorScorer, check_text

_DEFAULT_K = 10
_COLUMNS = 100


def register(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("search", help="find the tools that a query needs")
    parser.add_argument("text", help="the query, as a person types it")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--tools", type=Path, metavar="FILE", help="a tools file")
    where.add_argument(
        "--data", type=dataset_path, metavar="DIR", help="a folder with tools.jsonl, or `sample`"
    )
    parser.add_argument(
        "--skip-bad", action="store_true", help="leave out lines that cannot be read"
    )
    parser.add_argument(
        "-k",
        "--k",
        type=int,
        metavar="N",
        help=f"how many hits (default: what the cut-off keeps; bm25: {_DEFAULT_K})",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--explain", action="store_true", help="say what each score is made of (not bm25)"
    )
    add_scorer_options(parser, kinds=WITH_HYBRID)
    parser.set_defaults(run=_search)


def _search(args: argparse.Namespace) -> int:
    check_text(args.text)
    if args.k is not None and args.k < 1:
        msg = f"k must be >= 1, got {args.k}"
        raise ConfigError(msg)
    if args.explain and args.scorer == "bm25":
        msg = "explain must be left out for scorer bm25; it belongs to clm, hybrid and dense"
        raise ConfigError(msg)
    tools = read_tools(args.tools or tools_file(args.data), skip_bad=args.skip_bad)
    with ProgressBar() if args.scorer != "bm25" else nullcontext() as progress:
        named = named_scorer(args, progress=progress)
        with closing(named.encoder) if named.encoder else nullcontext():
            named.scorer.index(tools)
            if progress:
                progress.close()  # a single query needs no bar
            hits = _hits(named.scorer, args.text, args.k)
            explained = [_explanation(named.scorer, args, hit) for hit in hits]
    if args.json:
        both = zip(hits, explained, strict=True)
        print(json.dumps([_fields(hit, parts) for hit, parts in both], indent=2))
        return 0
    for hit, parts in zip(hits, explained, strict=True):
        print(_line(hit))
        if parts is not None:
            for line in _reasons(parts):
                print(line)
    if not hits:
        print("no tool fits", file=sys.stderr)
    return 0


def _hits(scorer: Scorer, text: str, k: int | None) -> list[Hit]:
    if isinstance(scorer, VectorScorer):
        return scorer.search(text, k)
    return scorer.rank([Query("", text)], k or _DEFAULT_K)[0]


def _explanation(scorer: Scorer, args: argparse.Namespace, hit: Hit) -> Explanation | None:
    """What a hit's score is made of, where it was asked for."""
    if not args.explain or not isinstance(scorer, VectorScorer):
        return None
    return scorer.explain(args.text, hit.tool_id)


def _fields(hit: Hit, parts: Explanation | None) -> dict[str, object]:
    tool = hit.tool
    explained = {} if parts is None else {"parts": parts.to_json()}
    return {
        "id": tool.id,
        "server": tool.server,
        "name": tool.name,
        "description": tool.description,
        "score": hit.score,
        **explained,
    }


def _line(hit: Hit) -> str:
    """Score, tool and the start of its description."""
    name = f"{hit.tool.server}/{hit.tool.name}" if hit.tool.server else hit.tool.name
    line = f"{hit.score:7.3f}  {name}  {hit.tool.description}"
    return printable(line, columns=_COLUMNS)


def _reasons(parts: Explanation) -> Iterator[str]:
    """A line for each part of a score that is not 0, indented under the score."""
    rows = [
        (parts.whole, "whole request", ""),
        (parts.clause, "best clause", parts.best_clause or "the whole request"),
        (parts.lexical, "shared words", ", ".join(f"{m.term} ({m.field})" for m in parts.terms)),
        (parts.hubness, "near to everything", ""),
    ]
    for value, name, detail in rows:
        if value:
            said = f"{name}: {detail}" if detail else name
            yield printable(f"{value:15.3f}  {said}", columns=_COLUMNS)
