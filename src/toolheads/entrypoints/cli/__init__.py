"""Command line `toolheads`: one module for each group of commands, joined here.

Commands of other installed packages (`toolheads train`) come in through the entry-point group
`toolheads.commands`; their arguments are handed over unread.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from importlib.metadata import entry_points, version

from toolheads.errors import ToolheadsError

_GROUPS = (
    "embed",
    "reindex",
    "cache",
    "heads",
    "search",
    "eval",
    "compare",
    "table",
    "data",
    "ingest",
    "sync",
    "serve",
    "rerank",
    "plan",
    "decide",
    "calibrate",
)
"""Modules of this package, each with `register(subparsers)` for the command of its name."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        The exit code: 0 done, 1 the answer is no (a verification failed), 2 bad input.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that is no text, or a character that the terminal's encoding lacks, is shown
        # escaped: it must not end a command whose work is done.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(words)
    except SystemExit:  # argparse: --help, or words it cannot read
        _flush()
        raise
    return _flush() or code


def _run(words: list[str]) -> int:
    plugins = {e.name: e for e in entry_points(group="toolheads.commands")}
    try:
        if words and words[0] in plugins:
            plugin: Callable[[Sequence[str]], int] = plugins[words[0]].load()
            return plugin(words[1:])
        args = _parser(plugins, _asked(words)).parse_args(words)
        _log_to_stderr(verbose=args.verbose)
        run: Callable[[argparse.Namespace], int] = args.run
        return run(args)
    except BrokenPipeError:  # more was to be printed than fits the pipe; `_flush` sees it again
        return 0
    except (ToolheadsError, OSError) as e:
        print(f"toolheads: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("toolheads: interrupted", file=sys.stderr)
        return 130


def _flush() -> int:
    """Print what waits to be printed, here where a failure can be told; 2 if it failed.

    A reader that went away (`toolheads … | head`) is no failure.
    """
    if sys.stdout is None:
        return 0
    try:
        sys.stdout.flush()
    except OSError as e:
        # What is left in the buffer would be tried again as Python ends, with a complaint.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(e, BrokenPipeError):
            return 0
        print(f"toolheads: the output must be writable, got: {e.strerror}", file=sys.stderr)
        return 2
    return 0


def _log_to_stderr(*, verbose: bool) -> None:
    """Warnings of this package and others go to stderr; with `verbose` what is done, too."""
    level = logging.INFO if verbose else logging.WARNING
    handler = logging.StreamHandler()
    handler.setLevel(level)  # some libraries give their own logger a lower one
    name = "%(name)s" if verbose else "toolheads"
    logging.basicConfig(level=level, format=f"{name}: %(message)s", handlers=[handler])


def _asked(words: Iterable[str]) -> tuple[str, ...]:
    """The modules that a command line needs: one where it names a command, or else all."""
    first = next((word for word in words if not word.startswith("-")), "")
    return (first,) if first in _GROUPS else _GROUPS


def _parser(plugins: Iterable[str], groups: Iterable[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="toolheads",
        description="Pick, out of thousands of tools, the few that a request needs.",
        epilog=f"also: {', '.join(f'toolheads {name} --help' for name in sorted(plugins))}",
    )
    parser.add_argument("--version", action="version", version=f"toolheads {version('toolheads')}")
    parser.add_argument("-v", "--verbose", action="store_true", help="log what is done, to stderr")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for group in groups:
        import_module(f"toolheads.entrypoints.cli.{group}").register(subparsers)
    return parser
