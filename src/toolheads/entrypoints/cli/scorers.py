"""The scorer that a command line names, with the record that a report keeps of it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from toolheads.bootstrap import make_encoder
from toolheads.cutoff import CutoffSettings
from toolheads.embedder import Embedder, Progress
from toolheads.entrypoints.cli.options import (
    ENCODER_OPTIONS,
    TEXT_OPTIONS,
    TRUST_OPTIONS,
    add_cache_option,
    add_encoder_options,
    add_text_options,
    add_trust_options,
    encoder_arguments,
    encoder_settings,
    loaded_heads,
    text_settings,
)
from toolheads.errors import ConfigError
from toolheads.evaluation.report import ScorerRecord
from toolheads.facade import DEFAULT_HEADS, SCORERS, encoder_for, load_scorer
from toolheads.heads import Heads, Views
from toolheads.heads.parts import PARTS, without_parts
from toolheads.ports import Encoder, Scorer
from toolheads.scorers.bm25 import BM25Scorer
from toolheads.scorers.dense import DenseScorer
from toolheads.scorers.hybrid import HybridScorer
from toolheads.scorers.vectors import VectorScorer

WITH_HYBRID = (*SCORERS, "hybrid")
"""Kinds for a command that can mix words in though the heads file does not."""

_ON_HEADS = ("clm", "hybrid")


@dataclass(frozen=True)
class NamedScorer:
    """A scorer without a corpus yet.

    Attributes:
        scorer: The scorer.
        record: What a report says about it.
        cutoff: Adaptive K that it shows; None where scores are no cosines.
        encoder: To be closed at the end; None without one.
        shared_tools: What the heads say about tools of test sets that they met in training.
    """

    scorer: Scorer
    record: ScorerRecord
    cutoff: CutoffSettings | None = None
    encoder: Encoder | None = None
    shared_tools: object = None


def add_scorer_options(parser: argparse.ArgumentParser, *, kinds: Sequence[str] = SCORERS) -> None:
    """Add `--scorer` and what goes with each kind; `named_scorer` reads them.

    Args:
        parser: Of the command.
        kinds: What `--scorer` may be.
    """
    on_heads = _listed(kind for kind in _ON_HEADS if kind in kinds)
    mixed = "; hybrid is clm with words mixed in, by weight 0.5 unless the heads say otherwise"
    parser.set_defaults(scorer_kinds=tuple(kinds))
    parser.add_argument(
        "--scorer",
        choices=kinds,
        default="clm",
        help="default: clm" + mixed * ("hybrid" in kinds),
    )
    parser.add_argument(
        "--heads",
        metavar="NAME|FILE",
        help=f"heads of scorer {on_heads} (default: {DEFAULT_HEADS})",
    )
    parser.add_argument(
        "--width",
        type=int,
        metavar="N",
        help=f"leading entries of a projection that scorer {on_heads} keeps, of heads that were "
        "trained for it (default: all)",
    )
    parser.add_argument(
        "--without",
        type=_parts,
        metavar="PART,…",
        help=f"parts of scorer {on_heads} to switch off: {', '.join(PARTS)}",
    )
    add_trust_options(parser)
    for side, example in (("tool", "text=0.7,name=0.3"), ("query", "text=1,clause=0.5")):
        parser.add_argument(
            f"--{side}-views",
            type=_weights,
            metavar="VIEW=W,…",
            help=f"weights of views of scorer dense, such as {example} (default: text=1)",
        )
    add_encoder_options(parser)
    add_text_options(parser)
    add_cache_option(parser)


def named_scorer(args: argparse.Namespace, *, progress: Progress | None = None) -> NamedScorer:
    """The scorer that `add_scorer_options` parsed.

    Raises:
        ConfigError: If an option belongs to another kind of scorer.
        DigestError: If the heads are not the known ones.
        BackboneMismatchError: If the heads are for another encoder.
    """
    _refuse_foreign_options(args)
    if args.scorer == "bm25":
        bm25 = BM25Scorer()
        return NamedScorer(bm25, ScorerRecord("bm25", parameters={"k1": bm25.k1, "b": bm25.b}))
    if args.scorer == "dense":
        views = Views(**{s: w for s, w in _views(args).items() if w is not None})
        encoder = make_encoder(encoder_settings(args))
        embedder = Embedder(encoder, text_settings(args), args.cache, progress=progress)
        dense = DenseScorer(embedder, views)
        record = ScorerRecord(
            "dense", fingerprint=embedder.fingerprint, parameters={"views": views.to_json()}
        )
        return NamedScorer(dense, record, dense.cutoff, encoder)
    return _on_heads(args, progress)


def _on_heads(args: argparse.Namespace, progress: Progress | None) -> NamedScorer:
    """Scorer clm or hybrid, which differ in what is mixed in."""
    without = args.without or ()
    if args.scorer == "hybrid" and "lexical" in without:
        msg = "without lexical must be left out for scorer hybrid, which mixes words in; use clm"
        raise ConfigError(msg)
    heads = loaded_heads(args.heads or DEFAULT_HEADS, args)
    heads = without_parts(heads, without)
    heads = heads.at_width(args.width)  # refused before an encoder is loaded
    encoder = encoder_for(heads, **encoder_arguments(args))
    scorer = _made(args, heads, encoder, progress)
    special: dict[str, object] = {} if args.width is None else {"width": args.width}
    fusion = scorer.recipe.fusion
    if fusion is not None:
        special["fusion"] = fusion.to_json()
    if without:
        special["without"] = list(without)
    record = ScorerRecord(
        args.scorer,
        heads=heads.name,
        heads_sha256=heads.sha256 or None,
        fingerprint=heads.fingerprint,
        parameters={"views": heads.header.views.to_json(), **special},
    )
    met = heads.header.training.get("shared_tools")
    return NamedScorer(scorer, record, scorer.cutoff, encoder, met)


def _made(
    args: argparse.Namespace, heads: Heads, encoder: Encoder, progress: Progress | None
) -> VectorScorer:
    if args.scorer == "clm":
        return load_scorer(heads, encoder, cache=args.cache, progress=progress)
    return HybridScorer(Embedder(encoder, heads.texts, args.cache, progress=progress), heads)


def _views(args: argparse.Namespace) -> dict[str, dict[str, float] | None]:
    return {"tool": args.tool_views, "query": args.query_views}


def _refuse_foreign_options(args: argparse.Namespace) -> None:
    """An option that would be ignored is an error: the report could not be what was meant."""
    owners = {
        _ON_HEADS: ("heads", "width", "without", *TRUST_OPTIONS),
        ("dense",): ("tool_views", "query_views", *TEXT_OPTIONS),
        (*_ON_HEADS, "dense"): ENCODER_OPTIONS,
    }
    for kinds, options in owners.items():
        for option in options:
            is_given = getattr(args, option) not in (None, False)
            if is_given and args.scorer not in kinds:
                msg = (
                    f"{option.replace('_', '-')} must be left out for scorer {args.scorer}; "
                    f"it belongs to {_listed(k for k in kinds if k in args.scorer_kinds)}"
                )
                raise ConfigError(msg)


def _listed(kinds: Iterable[str]) -> str:
    """`clm`, `clm and dense`, `clm, hybrid and dense`."""
    *some, last = kinds
    return f"{', '.join(some)} and {last}" if some else last


def _parts(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",")))


def _weights(text: str) -> dict[str, float]:
    try:
        pairs = [part.split("=") for part in text.split(",")]
        return {view.strip(): float(weight) for view, weight in pairs}
    except ValueError as e:
        msg = f"must be VIEW=WEIGHT with commas between them, got {text!r}"
        raise argparse.ArgumentTypeError(msg) from e
