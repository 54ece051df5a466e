"""`toolheads ingest openapi`: the operations of an OpenAPI description."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toolheads.catalogue import Source, source_name
from toolheads.entrypoints.cli.catalogue_changes import (
    Listed,
    Listing,
    add_change_options,
    add_out_option,
    apply,
    warn_of_faults,
)
from toolheads.errors import ConfigError, ToolheadsError
from toolheads.sources.openapi import DEFAULT_BYTES, read_openapi_source
from toolheads.sources.openapi.servers import is_address

_DESCRIPTION = """\
Take the operations of an OpenAPI description (3.0 to 3.2, JSON or YAML) into a catalogue. An
operation that cannot be used is left out and told, the others are taken. References to variables
of the environment (${VAR}) are put in when they are used and never stored.
"""


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "openapi", help="operations of an OpenAPI description", description=_DESCRIPTION
    )
    parser.add_argument("spec", metavar="SPEC", help="path or address of the description")
    parser.add_argument("--name", required=True, help="name of the source")
    parser.add_argument(
        "--base-url",
        metavar="URL",
        help="address of the API (default: the first server of the description). One that is "
        "given may be private, and is what headers are sent to",
    )
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME: VALUE",
        help="sent with every call, such as 'Authorization: Bearer ${TOKEN}'; may be repeated",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="TAG|OPERATION",
        help="of these alone: a tag, an operationId, or 'GET /path'; may be repeated",
    )
    parser.add_argument(
        "--max-tool-bytes",
        type=int,
        default=DEFAULT_BYTES,
        metavar="N",
        help=f"most bytes of a tool's description and schema (default: {DEFAULT_BYTES:,}); "
        "examples, then words, then what lies deepest is left out",
    )
    parser.add_argument(
        "--allow-write",
        action="store_true",
        help="let the operations of this source be called that are not GET or HEAD",
    )
    add_out_option(parser)
    add_change_options(parser)
    parser.set_defaults(run=_ingest)


def list_sources(sources: Mapping[str, Source], timeout_s: float) -> Listing:
    """Read descriptions again. See `toolheads.entrypoints.cli.catalogue_changes.Lister`."""
    return {name: _listed(name, source, timeout_s) for name, source in sources.items()}


def _ingest(args: argparse.Namespace) -> int:
    name = source_name(args.name)
    warn_of_faults(args.out)
    spec = args.spec if is_address(args.spec) else str(Path(args.spec).resolve())
    source: dict[str, Any] = {"kind": "openapi", "spec": spec}
    if args.base_url is not None:
        source["base_url"] = args.base_url
    if headers := _headers(args.header):
        source["headers"] = headers
    if args.only:
        source["only"] = args.only
    if args.max_tool_bytes != DEFAULT_BYTES:
        source["max_tool_bytes"] = args.max_tool_bytes
    if args.allow_write:
        source["allow_write"] = True
    listing = list_sources({name: source}, args.timeout)
    if isinstance(error := listing[name], ConfigError):
        raise error
    return apply(args.out, listing, dry_run=args.dry_run, allow_empty=args.allow_empty)


def _listed(name: str, source: Source, timeout_s: float) -> Listed | ToolheadsError:
    try:
        listing = read_openapi_source(name, source, timeout_s=timeout_s)
    except ToolheadsError as e:
        return e
    return Listed(source, listing.tools, [str(skipped) for skipped in listing.skipped])


def _headers(lines: Sequence[str]) -> dict[str, str]:
    """Header lines as a mapping. An error shows no value, since it may be a secret."""
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip() or not value.strip():
            msg = f"header must be written as 'NAME: VALUE', got {name.strip()[:40]!r} alone"
            raise ConfigError(msg)
        headers[name.strip()] = value.strip()
    return headers
