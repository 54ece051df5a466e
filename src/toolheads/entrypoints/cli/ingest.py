"""`toolheads ingest`: take tools from where they are into a catalogue.

One module for each kind of source: `register(commands)` adds its command, `list_sources` is what
`toolheads sync` calls.
"""

from __future__ import annotations

import argparse
from importlib import import_module

from toolheads.catalogue import drop
from toolheads.entrypoints.cli.catalogue_changes import (
    add_out_option,
    print_changes,
    warn_of_faults,
)

KINDS = {
    "mcp": "toolheads.entrypoints.cli.ingest_mcp",
    "openapi": "toolheads.entrypoints.cli.ingest_openapi",
    "tools": "toolheads.entrypoints.cli.ingest_tools",
}
"""Kind of a source → the module that asks it."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands of this group."""
    group = subparsers.add_parser(
        "ingest",
        help="take tools from MCP servers, OpenAPI descriptions and files into a catalogue",
    )
    commands = group.add_subparsers(metavar="COMMAND", required=True)
    for module in KINDS.values():
        import_module(module).register(commands)
    drop_command = commands.add_parser("drop", help="remove sources and their tools")
    drop_command.add_argument("names", nargs="+", metavar="NAME", help="name of a source")
    add_out_option(drop_command)
    drop_command.add_argument(
        "--dry-run", action="store_true", help="say what would go and write nothing"
    )
    drop_command.set_defaults(run=_drop)


def _drop(args: argparse.Namespace) -> int:
    warn_of_faults(args.out)
    for name in dict.fromkeys(args.names):
        print_changes(name, drop(args.out, name, dry_run=args.dry_run), dry_run=args.dry_run)
    return 0
