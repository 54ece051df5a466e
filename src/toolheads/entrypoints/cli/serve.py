"""`toolheads serve`: a catalogue over MCP and REST."""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from toolheads.bootstrap import make_encoder
from toolheads.catalogue import Source
from toolheads.data.datasets import TOOLS_FILE
from toolheads.entrypoints.cli.aids import (
    add_aid_options,
    check_thresholds,
    floor_thresholds,
    made_aids,
)
from toolheads.entrypoints.cli.options import (
    add_encoder_options,
    add_trust_options,
    encoder_arguments,
    encoder_settings,
    loaded_heads,
)
from toolheads.errors import ConfigError, import_extra, need_extra
from toolheads.facade import DEFAULT_HEADS, RETRIEVER_SCORERS, encoder_for, load_retriever
from toolheads.heads import Heads
from toolheads.indexes import KINDS, limit_blas_threads
from toolheads.ports import Encoder
from toolheads.retrieval import Retriever
from toolheads.usage import Retention, UsageRecorder

if TYPE_CHECKING:
    from toolheads.serving import Aids, Keys, ServeSettings

DSN_VARIABLE = "TOOLHEADS_DSN"
"""The database of index pgvector, which may hold a password."""

USAGE_FOLDER = "usage"
"""In the folder of a catalogue: the usage log."""

_DESCRIPTION = """\
Serve a catalogue: MCP at /mcp with the two tools search_tools and call_tool, REST at /v1, health
at /healthz and /readyz, Prometheus at /metrics. Changes of the catalogue, and of the lists of its
MCP servers, are taken over while it serves. docs/serve.md has everything about it.
"""

_M_ARENA_MAX = -8
"""Of glibc's mallopt."""

_LIBRARIES = ("starlette", "uvicorn", "prometheus_client", "jsonschema")
_LATER = "mcp"
"""Loaded when it is needed, see `serving.late_mcp`; whether it is there is said at the start."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "serve", help="serve a catalogue over MCP and REST", description=_DESCRIPTION
    )
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        metavar="DIR",
        help="folder of a catalogue (see toolheads ingest), or a tools file alone",
    )
    parser.add_argument(
        "--config",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="serve the servers of an MCP client's config file, without ingest; into DIR if given",
    )
    parser.add_argument(
        "--server",
        action="append",
        default=[],
        metavar="NAME=URL|COMMAND",
        help="serve one MCP server, as --config does; may be repeated",
    )
    _add_door_options(parser)
    _add_limit_options(parser)
    _add_log_options(parser)
    _add_search_options(parser)
    add_aid_options(parser)
    parser.set_defaults(run=_serve)


def _add_door_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where")
    group.add_argument("--stdio", action="store_true", help="MCP over stdin and stdout, no port")
    group.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1")
    group.add_argument("--port", type=int, default=8765, help="default: 8765; 0 takes a free one")
    group.add_argument("--keys", type=Path, metavar="FILE", help="JSON file of keys")
    group.add_argument(
        "--mcp-tools",
        type=lambda text: tuple(part.strip() for part in text.split(",")),
        default=("search", "call"),
        metavar="NAME,…",
        help="what MCP clients are offered: search, call, resolve (default: search,call)",
    )
    for name, what in (
        ("--allowed-host", "one more name in the Host header, * for any"),
        ("--allowed-origin", "a web page's origin that may call"),
        ("--trusted-proxy", "a proxy whose X-Forwarded-For is believed"),
    ):
        group.add_argument(
            name, action="append", default=[], metavar="NAME", help=f"{what}; may be repeated"
        )


def _add_limit_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("limits")
    group.add_argument(
        "--allow-write",
        action="store_true",
        help="call OpenAPI operations other than GET and HEAD too",
    )
    group.add_argument(
        "--rate",
        type=float,
        default=0.0,
        metavar="N",
        help="requests a minute of each key or address (default: no limit)",
    )
    group.add_argument(
        "--deadline", type=float, default=30.0, metavar="SECONDS", help="longest request"
    )
    group.add_argument(
        "--call-timeout", type=float, default=60.0, metavar="SECONDS", help="longest call of a tool"
    )


def _add_log_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("usage log")
    where = group.add_mutually_exclusive_group()
    where.add_argument(
        "--usage-log", type=Path, metavar="DIR", help=f"default: {USAGE_FOLDER}/ in the catalogue"
    )
    where.add_argument("--no-usage-log", action="store_true", help="record nothing")
    group.add_argument(
        "--log-text",
        action="store_true",
        help="record the texts of queries and arguments, not only digests: what learn needs",
    )
    group.add_argument(
        "--keep-days", type=int, default=Retention.days, metavar="N", help="0 keeps all days"
    )
    group.add_argument(
        "--keep-bytes", type=int, default=Retention.max_bytes, metavar="N", help="0 is no limit"
    )


def _add_search_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("search")
    group.add_argument(
        "--scorer", choices=RETRIEVER_SCORERS, default="hybrid", help="default: hybrid"
    )
    group.add_argument(
        "--heads",
        metavar="NAME|FILE",
        help=f"heads of scorers hybrid and clm (default: {DEFAULT_HEADS})",
    )
    group.add_argument(
        "--width", type=int, metavar="N", help="leading entries of a projection to keep"
    )
    group.add_argument("--index", choices=KINDS, default="numpy", help="default: numpy")
    group.add_argument(
        "--dsn", metavar="DSN", help=f"database of index pgvector (default: ${DSN_VARIABLE})"
    )
    group.add_argument(
        "--stable-sessions",
        action="store_true",
        help="keep the set and order of tools stable over a session, for prompt caches",
    )
    add_trust_options(parser)
    add_encoder_options(parser)


def _serve(args: argparse.Namespace) -> int:
    _run(args)
    if any(thread is not threading.main_thread() for thread in threading.enumerate()):
        # A thread that loads a model, or waits for an encoder that hangs: the interpreter would
        # abort under the first and wait for the second. Everything is closed and written by now.
        with suppress(OSError):  # nobody reads it any more
            sys.stdout.flush()
        os._exit(0)
    return 0


def _run(args: argparse.Namespace) -> None:
    for library in _LIBRARIES:
        import_extra(library, user="serve", extra="serve")
    need_extra(_LATER, user="serve", extra="serve")
    from toolheads import serving

    settings = serving.ServeSettings(
        deadline_s=args.deadline,
        call_timeout_s=args.call_timeout,
        rate_per_minute=args.rate,
        stable_sessions=args.stable_sessions,
        mcp_tools=args.mcp_tools,
        allowed_hosts=tuple(args.allowed_host),
        allowed_origins=tuple(args.allowed_origin),
    )
    if not args.verbose:
        # A server that prints what is no message would have a traceback logged for each line.
        logging.getLogger("mcp").setLevel(logging.CRITICAL)
    _share_heaps()
    limit_blas_threads(1)  # searches run side by side; each with all cores would slow the others
    keys = serving.load_keys(args.keys)
    servers = _servers(args)
    if args.folder is None and not servers:
        msg = "DIR, --config or --server must be given, got none; see toolheads serve --help"
        raise ConfigError(msg)
    heads = _heads(args)
    aids = made_aids(args)
    with ExitStack() as stack:
        # Until a server that drains takes it over.
        stack.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, _exit))
        listener = None
        if not args.stdio:
            serving.check_exposure(args.host, keys)
            listener = stack.enter_context(serving.bind(args.host, args.port))
        folder = args.folder or Path(stack.enter_context(_temporary()))
        if servers:
            asyncio.run(serving.list_into(folder, servers))
        _check_catalogue(folder)
        calls, companions = serving.calls_of(
            folder, timeout_s=args.call_timeout, allow_write=args.allow_write
        )
        retriever = stack.enter_context(closing(_retriever(args, folder, heads, aids)))
        check_thresholds(aids, retriever.subject, is_needed="resolve" in settings.mcp_tools)
        companions = (*companions, partial(serving.give_back_after_changes, _served(retriever)))
        usage = _recorder(args)
        if usage is not None:
            stack.callback(usage.close)
        common: dict[str, Any] = {
            "settings": settings,
            "usage": usage,
            "heads": heads.sha256 if heads else "",
            "companions": companions,
            "aids": aids,
        }
        if listener is None:
            serving.run_stdio(retriever, calls, on_signal=lambda: _leave(usage), **common)
            return
        names = serving.host_names(args.host)
        app = serving.create_app(retriever, calls, keys=keys, names=names, **common)
        address = serving.address_of(listener, args.host)
        serving.run_http(
            app,
            listener,
            settings=settings,
            trusted_proxies=args.trusted_proxy,
            when_ready=lambda: _say(address, keys, settings),
        )


def _served(retriever: Retriever) -> Callable[[], object]:
    """What tells one state of a retriever from another, as far as much memory is concerned."""
    return lambda: (retriever.catalogue_digest, retriever.status().pending)


def _servers(args: argparse.Namespace) -> dict[str, Source]:
    """The servers of config files and options; those that cannot be used are told and left out."""
    if not args.config and not args.server:
        return {}
    from toolheads.sources.mcp import read_client_config, server_argument

    found: dict[str, Source] = {}
    given: list[Mapping[str, Source]] = []
    for path in args.config:
        config = read_client_config(path)
        for name, fault in (config.faults or {}).items():
            print(f"toolheads: {name} is left out: {fault}", file=sys.stderr)
        given.append(config.sources)
    given += [dict([server_argument(text)]) for text in args.server]
    for sources in given:
        if both := found.keys() & sources.keys():
            msg = f"each server must be named once, got {min(both)} twice"
            raise ConfigError(msg)
        found |= sources
    return found


def _check_catalogue(folder: Path) -> None:
    """Refuse a place without tools; what is wrong with those there are is told while it serves."""
    file = folder / TOOLS_FILE if folder.is_dir() else folder
    if not file.is_file():
        msg = (
            f"DIR must be a catalogue or a tools file, got none at {folder}; make one with "
            "toolheads ingest"
        )
        raise ConfigError(msg)


def _heads(args: argparse.Namespace) -> Heads | None:
    if args.scorer in ("hybrid", "clm"):
        return loaded_heads(args.heads or DEFAULT_HEADS, args)
    if args.heads is not None:
        msg = f"heads must be left out for scorer {args.scorer}, got {args.heads!r}"
        raise ConfigError(msg)
    return None


def _retriever(
    args: argparse.Namespace, folder: Path, heads: Heads | None, aids: Aids
) -> Retriever:
    dsn = args.dsn or os.environ.get(DSN_VARIABLE)
    return load_retriever(
        heads or DEFAULT_HEADS,
        _encoder(args, heads),
        folder=folder,
        scorer=args.scorer,
        index=args.index,
        dsn=dsn if args.index == "pgvector" else None,
        width=args.width,
        thresholds=floor_thresholds(aids),
        told_nothing=args.told_nothing,
    )


def _encoder(args: argparse.Namespace, heads: Heads | None) -> Encoder | None:
    """The encoder that the options name; None leaves it to the environment."""
    given = encoder_arguments(args)
    if all(value is None for value in given.values()):
        return None
    return make_encoder(encoder_settings(args)) if heads is None else encoder_for(heads, **given)


def _recorder(args: argparse.Namespace) -> UsageRecorder | None:
    folder = args.usage_log
    if folder is None and args.folder is not None and args.folder.is_dir():
        folder = args.folder / USAGE_FOLDER
    if folder is None or args.no_usage_log:
        return None
    retention = Retention(days=args.keep_days, max_bytes=args.keep_bytes)
    return UsageRecorder(folder, keep_texts=args.log_text, retention=retention)


def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="toolheads-", ignore_cleanup_errors=True)


def _say(address: str, keys: Keys, settings: ServeSettings) -> None:
    lock = "a key is needed" if len(keys) else "open to this machine"
    rate = f", {settings.rate_per_minute:g} requests a minute" if settings.rate_per_minute else ""
    print(f"serving {address} (MCP at /mcp, REST at /v1; {lock}{rate})", flush=True)


def _share_heaps() -> None:
    """Keep glibc from giving each thread a heap of its own.

    What one thread frees is of no use to another then, and a server whose catalogue changes all the
    time grows (measured, docs/benchmarks.md). Other libraries have nothing to set.
    """
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def _exit(_: int, __: FrameType | None) -> None:
    raise SystemExit(0)


def _leave(usage: UsageRecorder | None) -> None:
    """End at once: a read of stdin cannot be interrupted. What was recorded is written first."""
    if usage is not None:
        usage.close()
    os._exit(0)
