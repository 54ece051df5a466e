"""`toolheads ingest mcp`: the tools of MCP servers."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from toolheads.catalogue import Source, drop, read_sources
from toolheads.entrypoints.cli.catalogue_changes import (
    Listed,
    Listing,
    add_change_options,
    add_out_option,
    apply,
    print_changes,
    warn_of_faults,
)
from toolheads.entrypoints.cli.printing import printable
from toolheads.errors import ConfigError, ToolheadsError, import_extra

_DESCRIPTION = """\
Start or reach MCP servers, list their tools, and write those to a catalogue. A server that fails
keeps the tools it had, the others are taken, and the exit code is 1. References to variables of
the environment (${VAR}) in a config file are put in when a server is started and never stored.
"""


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("mcp", help="tools of MCP servers", description=_DESCRIPTION)
    parser.add_argument(
        "--config",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="config file of an MCP client (mcpServers, or servers of VS Code); may be repeated",
    )
    parser.add_argument(
        "--server",
        action="append",
        default=[],
        metavar="NAME=URL|COMMAND",
        help="one server; may be repeated",
    )
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="of these servers only; may be repeated"
    )
    parser.add_argument(
        "--prune",
        action="store_true",
        help="remove the MCP servers of the catalogue that are not named here (any more)",
    )
    add_out_option(parser)
    add_change_options(parser)
    parser.set_defaults(run=_ingest)


def list_sources(sources: Mapping[str, Source], timeout_s: float) -> Listing:
    """Ask servers for their tools. See `toolheads.entrypoints.cli.catalogue_changes.Lister`."""
    mcp = _room()
    settings = mcp.McpSettings(start_timeout_s=timeout_s, list_timeout_s=timeout_s)
    answers: Mapping[str, Any] = asyncio.run(mcp.list_servers(sources, settings=settings))
    return {
        name: answer
        if isinstance(answer, ToolheadsError)
        else Listed(sources[name], answer.tools, [fault.reason for fault in answer.dropped])
        for name, answer in answers.items()
    }


def _ingest(args: argparse.Namespace) -> int:
    warn_of_faults(args.out)
    sources, failures = _named(args)
    listing = failures | dict(list_sources(sources, args.timeout))
    code = apply(args.out, listing, dry_run=args.dry_run, allow_empty=args.allow_empty)
    if args.prune:
        for name, source in read_sources(args.out).items():
            if source["kind"] == "mcp" and name not in listing:
                changes = drop(args.out, name, dry_run=args.dry_run)
                print_changes(name, changes, dry_run=args.dry_run)
    return code


def _named(
    args: argparse.Namespace,
) -> tuple[dict[str, Source], dict[str, Listed | ToolheadsError]]:
    """The servers that the options name, and those that cannot be used."""
    mcp = _room()
    sources: dict[str, Source] = {}
    failures: dict[str, Listed | ToolheadsError] = {}
    if not args.config and not args.server:
        msg = "config or server must name a server, got neither; see toolheads ingest mcp --help"
        raise ConfigError(msg)
    if args.prune and args.only:
        msg = "prune must be left out with only, which names some of the servers"
        raise ConfigError(msg)
    for path in args.config:
        config = mcp.read_client_config(path)
        for name in config.skipped:
            print(printable(f"{name}: skipped, switched off in {path}"), file=sys.stderr)
        _add(sources, config.sources)
        failures |= {name: ConfigError(str(fault)) for name, fault in config.faults.items()}
    for text in args.server:
        name, source = mcp.server_argument(text)
        _add(sources, {name: source})
    if args.only is not None:
        if unknown := set(args.only) - sources.keys() - failures.keys():
            known = ", ".join([*sources, *failures])
            msg = f"only must name servers of the config, {known}, got {min(unknown)}"
            raise ConfigError(msg)
        sources = {name: source for name, source in sources.items() if name in args.only}
        failures = {name: fault for name, fault in failures.items() if name in args.only}
    return sources, failures


def _add(sources: dict[str, Source], more: Mapping[str, Source]) -> None:
    if both := sources.keys() & more.keys():
        msg = f"each server must be named once, got {min(both)} twice"
        raise ConfigError(msg)
    sources.update(more)


def _room() -> ModuleType:
    import_extra("mcp", user="ingest mcp", extra="mcp")
    room = import_extra("toolheads.sources.mcp", user="ingest mcp", extra="mcp")
    if not logging.getLogger().isEnabledFor(logging.INFO):
        # What a server prints beside its messages is told once, with its failure.
        logging.getLogger("mcp").setLevel(logging.CRITICAL)
    return room
