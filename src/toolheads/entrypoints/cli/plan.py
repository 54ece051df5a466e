"""`toolheads plan`: how a catalogue is best shown to a model, and what it takes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolheads.data.datasets import tools_file
from toolheads.entrypoints.cli.options import DEFAULT_CACHE
from toolheads.entrypoints.cli.printing import printable
from toolheads.errors import ConfigError, Fault
from toolheads.facade import DEFAULT_HEADS, load_scorer
from toolheads.plan import (
    FORMATS,
    CataloguePlan,
    Fit,
    PlanSettings,
    Retrieval,
    fit_to_budget,
    format_sizes,
    named_counter,
    plan_catalogue,
    retrieve,
)
from toolheads.plan.catalogue_file import CatalogueFile, read_catalogue_file
from toolheads.plan.retrieval import SCORERS, made_scorer
from toolheads.plan.tokens import TokenCounter
from toolheads.ports import Scorer

_COLUMNS = 100
_SHOWN = 10
"""Hits of the ranking, and left-out parts, that are printed without `--json`."""

_DEFAULTS = PlanSettings()


def register(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "plan",
        help="how to show a catalogue to a model, within a context and a budget",
        description=(
            "Say how a catalogue is best shown to a model: all of it, what a query retrieves, a "
            "menu first, or a menu of what is retrieved. Exits with 1 if nothing fits."
        ),
    )
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="tools: JSONL, or JSON as OpenAI, Anthropic or an MCP server list them",
    )
    parser.add_argument(
        "--format",
        default="xml_schema",
        metavar="NAME",
        help=f"how tools are written: {', '.join(FORMATS)} (default: xml_schema)",
    )
    parser.add_argument("--context", type=int, metavar="N", help="tokens that the model can read")
    parser.add_argument("--budget", type=int, metavar="N", help="most tokens for tools")
    parser.add_argument("--query", metavar="TEXT", help="what is asked for")
    parser.add_argument(
        "-k", "--k", type=int, default=8, metavar="N", help="tools to retrieve (default: 8)"
    )
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="NAME",
        help="a tool that stays whatever its rank; may be given several times",
    )
    parser.add_argument(
        "--scorer",
        default="bm25",
        choices=(*SCORERS, "clm"),
        help="what ranks tools for the query; clm has trained heads (default: bm25)",
    )
    parser.add_argument(
        "--heads", metavar="NAME|FILE", help=f"heads of scorer clm (default: {DEFAULT_HEADS})"
    )
    parser.add_argument(
        "--tokenizer",
        default="estimate",
        metavar="NAME|FILE",
        help="tiktoken:NAME or a tokenizer.json counts tokens exactly (default: estimate; "
        "compatible is a quarter of the characters)",
    )
    for option, field in _THRESHOLDS.items():
        default = getattr(_DEFAULTS, field)
        parser.add_argument(
            option,
            type=type(default),
            metavar="X" if isinstance(default, float) else "N",
            help=f"{_HELP[field]} (default: {default})",
        )
    parser.add_argument(
        "--fit", action="store_true", help="make the tools fit the budget by leaving parts out"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write what --fit leaves, in the file's own shape"
    )
    parser.add_argument("--sizes", action="store_true", help="also the tokens in every format")
    parser.add_argument("--skip-bad", action="store_true", help="leave out tools with faults")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_plan, usage_error=parser.error)


_THRESHOLDS = {
    "--retrieve-from": "retrieve_from",
    "--two-stage-from": "two_stage_from",
    "--context-share": "context_share",
    "--menu-tools": "menu_tools",
}
_HELP = {
    "retrieve_from": "tools from which on only the best are shown",
    "two_stage_from": "tools from which on a menu comes first",
    "context_share": "part of the context for tools",
    "menu_tools": "most tools of a menu that is retrieved",
}


def _plan(args: argparse.Namespace) -> int:
    if args.fit and args.budget is None:
        args.usage_error("--fit needs --budget")
    if args.out and not args.fit:
        args.usage_error("--out needs --fit")
    for name in ("context", "budget", "k"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            msg = f"{name} must be >= 1, got {getattr(args, name)}"
            raise ConfigError(msg)
    if args.heads and args.scorer != "clm":
        msg = f"heads must be left out for scorer {args.scorer}; it belongs to clm"
        raise ConfigError(msg)
    given = {f: getattr(args, f) for f in _THRESHOLDS.values() if getattr(args, f) is not None}
    settings = PlanSettings(**given)
    counter = named_counter(args.tokenizer)
    file = tools_file(args.file) if args.file.is_dir() else args.file
    catalogue = read_catalogue_file(file, skip_bad=args.skip_bad, on_faults=_tell)
    query = args.query if args.query and args.query.strip() else None
    shared: dict[str, Any] = {"query": query, "keep": args.keep}
    ranking = None
    if query:
        scorer = _indexed(args, catalogue)
        shared |= {"scorer": scorer, "is_indexed": True}
        ranking = retrieve(catalogue.tools, k=args.k, **shared)
    plan = plan_catalogue(
        catalogue.tools,
        format_id=args.format,
        context_tokens=args.context,
        budget_tokens=args.budget,
        k=args.k,
        tokenizer=counter,
        settings=settings,
        **shared,
    )
    fit = None
    if args.fit:
        fit = fit_to_budget(catalogue.tools, args.format, args.budget, tokenizer=counter, **shared)
        if args.out:
            catalogue.write(args.out, fit.tools)
    _print(args, plan, ranking, fit, _sizes(args, catalogue, counter))
    return 0 if (plan.fits if fit is None else fit.fits) else 1


def _indexed(args: argparse.Namespace, catalogue: CatalogueFile) -> Scorer:
    if args.scorer == "clm":
        scorer: Scorer = load_scorer(args.heads or DEFAULT_HEADS, cache=DEFAULT_CACHE)
    else:
        scorer = made_scorer(args.scorer)
    scorer.index(catalogue.tools)
    return scorer


def _sizes(
    args: argparse.Namespace, catalogue: CatalogueFile, counter: TokenCounter
) -> dict[str, int] | None:
    return format_sizes(catalogue.tools, counter) if args.sizes else None


def _tell(faults: Any) -> None:
    listed: list[Fault] = list(faults)
    print(f"toolheads: left out {len(listed)} tools, first: {listed[0]}", file=sys.stderr)


def _print(
    args: argparse.Namespace,
    plan: CataloguePlan,
    ranking: Retrieval | None,
    fit: Fit | None,
    sizes: dict[str, int] | None,
) -> None:
    if args.json:
        whole = plan.to_json()
        whole["ranking"] = None if ranking is None else ranking.to_json()
        whole["fit"] = None if fit is None else fit.to_json()
        if sizes is not None:
            whole["sizes"] = sizes
        print(json.dumps(whole, indent=2))
        return
    lines = [*_plan_lines(plan)]
    if ranking is not None:
        lines += _ranking_lines(ranking)
    if fit is not None:
        lines += ["", *fit.steps, *_dropped_lines(fit)]
    if sizes is not None:
        lines += ["", *(f"{tokens:>10,}  {name}" for name, tokens in sizes.items())]
    for line in lines:
        print(printable(line))


def _plan_lines(plan: CataloguePlan) -> Iterator[str]:
    yield f"{plan.strategy}: {plan.reason}"
    yield f"{plan.n_tools:,} tools, {plan.schema_tokens:,} tokens as {plan.format_id}"
    if plan.menu_tokens is not None:
        yield f"menu: {plan.menu_size:,} tools, {plan.menu_tokens:,} tokens"
    fits = "" if plan.fits else ", which does not fit"
    yield f"largest prompt: {plan.prompt_tokens:,} tokens{fits}"
    for row in plan.evidence:
        note = f" ({row.note})" if row.note else ""
        interval = "" if row.interval is None else f" [{row.interval[0]}, {row.interval[1]}]"
        yield f"  {row.value}{interval} {row.unit}: {row.label}{note}, {row.source}"


def _ranking_lines(ranking: Retrieval) -> Iterator[str]:
    yield ""
    if ranking.nothing_matches:
        yield "nothing matches the query"
        return
    for tool, score in ranking.ranked[: min(_SHOWN, ranking.n_matched)]:
        yield f"{score:8.3f}  {tool.id}  {tool.description}"[:_COLUMNS]


def _dropped_lines(fit: Fit) -> Iterator[str]:
    """The tools that went; of descriptions the steps say how many."""
    tools = [item for item in fit.dropped if item.parameter is None]
    for item in tools[:_SHOWN]:
        yield f"  -{item.tokens:,}  {item.tool_id}"[:_COLUMNS]
    if len(tools) > _SHOWN:
        yield f"  and {len(tools) - _SHOWN:,} more"
