"""Command line `toolheads`: one module for each group of commands, joined here.

Commands of other installed packages (`toolheads train`) come in through the entry-point group
`toolheads.commands`; their arguments are handed over unread.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import entry_points, version

from toolheads.errors import ToolheadsError

_GROUPS = ("embed", "cache", "heads", "search", "eval", "compare", "table", "data")
"""Modules of this package; each has `register(subparsers)`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        The exit code: 0 done, 1 the answer is no (a verification failed), 2 bad input.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    plugins = {e.name: e for e in entry_points(group="toolheads.commands")}
    try:
        if words and words[0] in plugins:
            plugin: Callable[[Sequence[str]], int] = plugins[words[0]].load()
            return plugin(words[1:])
        args = _parser(plugins).parse_args(words)
        level = logging.INFO if args.verbose else logging.WARNING
        logging.basicConfig(level=level, format="%(name)s: %(message)s", stream=sys.stderr)
        run: Callable[[argparse.Namespace], int] = args.run
        return run(args)
    except (ToolheadsError, OSError) as e:
        if isinstance(e, BrokenPipeError):
            return _closed_pipe()
        print(f"toolheads: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("toolheads: interrupted", file=sys.stderr)
        return 130


def _parser(plugins: Sequence[str] | dict[str, object]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="toolheads",
        description="Pick, out of thousands of tools, the few that a request needs.",
        epilog=f"also: {', '.join(f'toolheads {name} --help' for name in sorted(plugins))}",
    )
    parser.add_argument("--version", action="version", version=f"toolheads {version('toolheads')}")
    parser.add_argument("-v", "--verbose", action="store_true", help="log what is done, to stderr")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for group in _GROUPS:
        import_module(f"toolheads.entrypoints.cli.{group}").register(subparsers)
    return parser


def _closed_pipe() -> int:
    """The reader went away (`toolheads … | head`): no error, and nothing more to say."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
