"""`toolheads cache info | verify | prune`: look after the vector cache."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from toolheads.cache import cache_info, prune_cache, verify_cache
from toolheads.entrypoints.cli.options import add_cache_option


def register(subparsers: Any) -> None:
    """Add the commands."""
    parser = subparsers.add_parser("cache", help="look after the vector cache")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    info = commands.add_parser("info", help="list what is in it: model, width, rows, size")
    verify = commands.add_parser(
        "verify", help="read every byte and name damaged shards; exit 1 if there are any"
    )
    prune = commands.add_parser(
        "prune",
        help="remove leftovers of killed runs, damaged shards and duplicates; merge small shards",
    )
    prune.add_argument("--dry-run", action="store_true", help="only say what would be done")
    for command, run in ((info, run_info), (verify, run_verify), (prune, run_prune)):
        add_cache_option(command)
        command.add_argument("--json", action="store_true", help="print JSON")
        command.set_defaults(run=run)


def run_info(args: argparse.Namespace) -> int:
    """List what is in a cache."""
    info = cache_info(args.cache)
    if args.json:
        spaces = [
            {
                "key": space.fingerprint.key,
                "fingerprint": space.fingerprint.to_json(),
                "width": space.fingerprint.encoder.width,
                "dtype": space.dtype,
                "rows": space.rows,
                "shards": space.shards,
                "bytes": space.size_bytes,
            }
            for space in info.spaces
        ]
        _print_json({"spaces": spaces, "damages": [str(damage) for damage in info.damages]})
        return 0
    for space in info.spaces:
        encoder, texts = space.fingerprint.encoder, space.fingerprint.texts
        print(
            f"{space.fingerprint.key}  {encoder.model}  width {encoder.width}  {space.dtype}  "
            f"{space.rows:,} rows  {_size(space.size_bytes)}  {space.shards} shards  "
            f"{texts.tool_format}  {texts.query_format}"
        )
    if not info.spaces:
        print(f"no vectors in {args.cache}")
    _name_damages(info.damages)
    return 0


def run_verify(args: argparse.Namespace) -> int:
    """Read every byte of a cache."""
    report = verify_cache(args.cache)
    if args.json:
        _print_json(
            {
                "shards": report.shards,
                "rows": report.rows,
                "bytes": report.size_bytes,
                "damages": [{"path": str(d.path), "reason": d.reason} for d in report.damages],
            }
        )
    else:
        damaged = f"{len(report.damages)} damaged" if report.damages else "none damaged"
        print(
            f"{report.shards} shards read, {report.rows:,} good rows, "
            f"{_size(report.size_bytes)}, {damaged}"
        )
        _name_damages(report.damages)
    return 1 if report.damages else 0


def run_prune(args: argparse.Namespace) -> int:
    """Clean up a cache; exit 1 if a folder in it cannot be used and has to be deleted."""
    report = prune_cache(args.cache, dry_run=args.dry_run)
    if args.json:
        _print_json(
            {
                "dry_run": args.dry_run,
                "leftovers": [str(path) for path in report.leftovers],
                "set_aside": [str(path) for path in report.set_aside],
                "damages": [str(damage) for damage in report.damages],
                "merged": [str(path) for path in report.merged],
                "written": [str(path) for path in report.written],
                "duplicates": report.duplicates,
                "freed_bytes": report.freed_bytes,
                "unusable": [str(damage) for damage in report.unusable],
            }
        )
    else:
        print(
            f"{'would remove' if args.dry_run else 'removed'} "
            f"{len(report.leftovers)} leftovers of killed runs, "
            f"{len(report.set_aside) + len(report.damages)} damaged shards, "
            f"{report.duplicates:,} duplicate rows; "
            f"{'would merge' if args.dry_run else 'merged'} {len(report.merged)} shards"
            + ("" if args.dry_run else f" into {len(report.written)}")
            + f"; {_size(report.freed_bytes)} freed"
        )
        _name_damages([*report.damages, *report.unusable])
    return 1 if report.unusable else 0


def _name_damages(damages: Any) -> None:
    for damage in damages:
        print(f"toolheads: {damage}", file=sys.stderr)


def _print_json(what: Any) -> None:
    print(json.dumps(what, indent=2, ensure_ascii=False))


def _size(size_bytes: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if abs(size_bytes) < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "bytes" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} GiB"
