"""`toolheads sync`: ask every source of a catalogue again."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from toolheads.catalogue import SOURCES_FILE, Source, read_sources
from toolheads.entrypoints.cli.catalogue_changes import (
    Listed,
    Lister,
    add_change_options,
    apply,
    warn_of_faults,
)
from toolheads.entrypoints.cli.ingest import KINDS
from toolheads.errors import ConfigError, ToolheadsError


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "sync",
        help="ask every source of a catalogue again",
        description=(
            "Ask every source of a catalogue for its tools again and write what changed. A "
            "source that fails keeps its tools, and the exit code is 1."
        ),
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of the catalogue")
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="of these sources only; may be repeated"
    )
    add_change_options(parser)
    parser.set_defaults(run=_sync)


def _sync(args: argparse.Namespace) -> int:
    sources = read_sources(args.folder)
    if not sources:
        msg = (
            f"a catalogue must have sources to be asked again, got none in "
            f"{args.folder / SOURCES_FILE}; see toolheads ingest"
        )
        raise ConfigError(msg)
    if args.only is not None:
        if unknown := set(args.only) - sources.keys():
            msg = f"only must name sources, {', '.join(sources)}, got {min(unknown)}"
            raise ConfigError(msg)
        sources = {name: source for name, source in sources.items() if name in args.only}
    warn_of_faults(args.folder)
    listing: dict[str, Listed | ToolheadsError] = {}
    for kind, module in KINDS.items():
        of_kind: dict[str, Source] = {n: s for n, s in sources.items() if s["kind"] == kind}
        if of_kind:
            list_sources: Lister = import_module(module).list_sources
            listing |= list_sources(of_kind, args.timeout)
    in_order = {name: listing[name] for name in sources}
    code = apply(args.folder, in_order, dry_run=args.dry_run, allow_empty=args.allow_empty)
    if code == 0 and not args.dry_run:
        print(f"{args.folder} is up to date", file=sys.stderr)
    return code
