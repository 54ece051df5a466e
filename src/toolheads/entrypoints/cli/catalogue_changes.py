"""What `ingest` and `sync` share: writing what sources list, and saying what became of it."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolheads.catalogue import Changes, Source, change, read_catalogue
from toolheads.data.datasets import TOOLS_FILE
from toolheads.domain import Tool
from toolheads.entrypoints.cli.printing import counted, printable
from toolheads.errors import SourceError, ToolheadsError

_MOST_SHOWN = 10


@dataclass(frozen=True)
class Listed:
    """What one source has now."""

    source: Source
    """How it is reached, to be kept."""
    tools: Sequence[Tool]
    dropped: Sequence[str] = ()
    """Why something that it lists was left out, a line each."""


Listing = Mapping[str, Listed | ToolheadsError]
"""Source → what it has, or why that is not known."""

Lister = Callable[[Mapping[str, Source], float], Listing]
"""Asks the sources of one kind; the number is how many seconds each may take."""

DEFAULT_TIMEOUT_S = 60.0


def add_out_option(parser: argparse.ArgumentParser) -> None:
    """Add `--out DIR`, a `Path` as `args.out`."""
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder of the catalogue"
    )


def add_change_options(parser: argparse.ArgumentParser) -> None:
    """Add `--dry-run`, `--allow-empty` and `--timeout`."""
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would change and write nothing"
    )
    parser.add_argument(
        "--allow-empty",
        action="store_true",
        help="take it for the truth when a source that had tools lists none",
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=DEFAULT_TIMEOUT_S,
        metavar="SECONDS",
        help=f"longest wait for a source to start, and again to list (default: "
        f"{DEFAULT_TIMEOUT_S:.0f})",
    )


def apply(folder: Path, listing: Listing, *, dry_run: bool, allow_empty: bool) -> int:
    """Write what sources list, each on its own, and print what became of it.

    A source that failed keeps its tools.

    Returns:
        The exit code: 0, or 1 if a source failed.
    """
    before = _counts(folder)
    failed = 0
    for name, listed in listing.items():
        try:
            if isinstance(listed, ToolheadsError):
                raise listed
            for reason in listed.dropped:
                _warn(f"{name}: left out: {reason}")
            _refuse_nothing(name, listed, before.get(name, 0), allow_empty=allow_empty)
            changes = change(folder, name, listed.tools, source=listed.source, dry_run=dry_run)
        except (ToolheadsError, OSError) as e:
            failed += 1
            _warn(f"{e}{_kept(before.get(name, 0))}")
        else:
            print_changes(name, changes, dry_run=dry_run)
    if failed:
        _warn(f"{counted(failed, 'source')} of {len(listing)} failed")
    return 1 if failed else 0


def print_changes(name: str, changes: Changes, *, dry_run: bool) -> None:
    """One line for a source; with `dry_run` a line for each tool that would change, too."""
    parts = [
        f"{len(ids)} {what}"
        for what, ids in (
            ("added", changes.added),
            ("changed", changes.changed),
            ("removed", changes.removed),
            ("kept", changes.kept),
        )
        if ids
    ]
    would = " (dry run)" if dry_run else ""
    print(printable(f"{name}: {', '.join(parts) or 'no tools'}{would}"))
    if dry_run:
        signs = (("+", changes.added), ("~", changes.changed), ("-", changes.removed))
        for sign, ids in signs:
            for tool_id in ids:
                print(printable(f"  {sign} {tool_id}"))


def warn_of_faults(folder: Path) -> None:
    """Say which lines of a catalogue cannot be read, if it is there."""
    if (folder / TOOLS_FILE).exists():
        faults = read_catalogue(folder, allow_empty=True).faults
        for fault in faults[:_MOST_SHOWN]:
            _warn(f"{fault}; it stays in the file and is left out")
        if len(faults) > _MOST_SHOWN:
            _warn(f"and {counted(len(faults) - _MOST_SHOWN, 'more line')} like these")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        msg = f"timeout must be a number of seconds > 0, got {text}"
        raise argparse.ArgumentTypeError(msg)
    return seconds


def _refuse_nothing(name: str, listed: Listed, n_before: int, *, allow_empty: bool) -> None:
    if listed.tools or (allow_empty and not listed.dropped):
        return
    if listed.dropped:
        msg = f"{name} must list a tool that can be used, got none"
        raise SourceError(msg)
    if n_before:
        msg = (
            f"{name} must list a tool, as it did before, got none; allow it (--allow-empty) or "
            f"drop the source (toolheads ingest drop)"
        )
        raise SourceError(msg)


def _counts(folder: Path) -> dict[str | None, int]:
    counts: dict[str | None, int] = {}
    if (folder / TOOLS_FILE).exists():
        for tool in read_catalogue(folder, allow_empty=True).tools:
            counts[tool.server] = counts.get(tool.server, 0) + 1
    return counts


def _kept(n_tools: int) -> str:
    return f"; its {counted(n_tools, 'tool')} of before stay" if n_tools else ""


def _warn(line: str) -> None:
    print(printable(f"toolheads: {line}"), file=sys.stderr)
