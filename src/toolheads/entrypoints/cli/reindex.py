"""`toolheads reindex`: a fresh index out of tools, heads and cached vectors."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from toolheads.bootstrap import make_encoder
from toolheads.cache import DTYPES as CACHE_DTYPES
from toolheads.entrypoints.cli.engine import add_engine_options, cluster_of, encoder_of_worker
from toolheads.entrypoints.cli.options import (
    add_cache_option,
    add_encoder_options,
    add_trust_options,
    encoder_arguments,
    loaded_heads,
)
from toolheads.entrypoints.cli.printing import counted, printable
from toolheads.errors import ConfigError, import_extra
from toolheads.facade import DEFAULT_HEADS, settings_for
from toolheads.indexes import DTYPES, KINDS, limit_blas_threads
from toolheads.jobs import Report, Target, reindex

DSN_VARIABLE = "TOOLHEADS_DSN"


def register(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "reindex",
        help="make an index of any kind hold these tools, in bounded memory",
        description="Make an index hold the rows of these tools and no others, in one step at the "
        "end, while searches go on. Only texts that are not in the cache are embedded; with new "
        "heads over the same tools none is. Run the same command to go on after an interruption.",
    )
    parser.add_argument(
        "tools",
        nargs="+",
        type=Path,
        metavar="TOOLS",
        help="JSONL or Parquet file, or a folder: with a tools.jsonl, or with shards of either",
    )
    parser.add_argument(
        "--heads",
        default=DEFAULT_HEADS,
        metavar="NAME|PATH",
        help=f"heads that make the rows (default: {DEFAULT_HEADS})",
    )
    add_trust_options(parser)
    parser.add_argument(
        "--width", type=int, metavar="N", help="leading entries of a row to keep (default: all)"
    )
    group = parser.add_argument_group("index")
    group.add_argument(
        "--index",
        choices=KINDS,
        default="numpy",
        help="kind of index (default: numpy); faiss-cagra is built on a GPU only",
    )
    group.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder of numpy and faiss, such as CATALOGUE/index",
    )
    group.add_argument(
        "--dsn", metavar="DSN", help=f"database of pgvector (default: ${DSN_VARIABLE})"
    )
    group.add_argument(
        "--dtype",
        choices=DTYPES,
        default="float32",
        help="what rows are stored in (default: float32)",
    )
    group.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the index, such as lists=4096 or table=rows; may be repeated; what is "
        "not set fits the number of rows",
    )
    add_cache_option(parser)
    parser.add_argument(
        "--cache-dtype",
        choices=CACHE_DTYPES,
        default="float16",
        help="what the cache stores vectors in (default: float16)",
    )
    parser.add_argument(
        "--quarantine",
        type=Path,
        metavar="FILE",
        help="where bad lines go, with the reason (default: quarantine.jsonl in --out)",
    )
    parser.add_argument(
        "--project-threads",
        type=int,
        metavar="N",
        help="threads that project vectors (default: all cores)",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_engine_options(parser)
    add_encoder_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Reindex, and print the report."""
    heads = loaded_heads(args.heads, args).at_width(args.width)
    dsn = args.dsn
    if dsn is None and args.index == "pgvector":
        dsn = os.environ.get(DSN_VARIABLE)
    target = Target(args.index, args.out, dsn, args.dtype, _settings(args.settings))
    encoder = settings_for(heads, **encoder_arguments(args))
    cluster = cluster_of(args, encoder)
    if cluster is not None:
        encoder = encoder_of_worker(encoder, cluster)
    threads = args.project_threads
    if threads is not None and cluster is not None:
        msg = f"--project-threads must be left out with --engine ray, got {threads}"
        raise ConfigError(msg)
    if threads is None:
        threads = os.cpu_count() or 1
    elif threads < 1:
        msg = f"--project-threads must be >= 1, got {threads}"
        raise ConfigError(msg)
    if threads > 1:
        limit_blas_threads(1)
    # Ray prints what happens to its processes on stdout, which belongs to the report.
    with redirect_stdout(sys.stderr), _Bar() as bar:
        report = reindex(
            args.tools,
            heads,
            target,
            encoder=partial(make_encoder, encoder),
            cache=args.cache,
            cache_dtype=args.cache_dtype,
            quarantine=args.quarantine,
            threads=threads,
            progress=bar,
            cluster=cluster,
        )
    if args.json:
        print(json.dumps(report.to_json(), indent=2, ensure_ascii=False))
    else:
        print(as_text(report))
    if report.failed:
        print(
            f"toolheads: {counted(report.failed, 'line')} could not be used, see "
            f"{report.quarantine}",
            file=sys.stderr,
        )
    return 0


def as_text(report: Report) -> str:
    """A report in four lines, and one for what faiss built."""
    speed = report.texts_per_second
    resumed = f" ({report.resumed:,} by the run before)" if report.resumed else ""
    return "\n".join(
        [
            f"{counted(report.seen, 'line')}: {counted(report.tools, 'tool')}, "
            f"{report.failed:,} failed",
            f"{counted(report.embedded, 'text')} embedded, {report.reused:,} reused from the cache",
            f"{counted(report.added, 'row')} added{resumed}, {report.removed:,} removed, "
            f"{report.kept:,} kept; {report.size_bytes:,} bytes in {report.seconds:.1f} s"
            + (f" ({speed:,.0f} texts/s)" if speed else ""),
            f"{report.index}, width {report.width}, {report.dtype}: {printable(report.place)}",
            *_structure_line(report),
        ]
    )


def _structure_line(report: Report) -> list[str]:
    """What faiss built, and what it finds."""
    if report.structure is None:
        return []
    about = dict(report.structure)
    line = f"{about.pop('structure')} over {counted(about.pop('rows'), 'row')}"
    recall, at = about.pop("recall", None), about.pop("recall_at", None)
    queries = about.pop("recall_queries", None)
    if queries:
        line += f", recall@{at} {recall:.3f} ({queries:,} queries near rows)"
    elif recall:
        line += ", exact"
    numbers = ", ".join(f"{name} {value:,}" for name, value in about.items())
    return [f"{line}; {numbers}" if numbers else line]


def _settings(listed: list[str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for given in listed:
        name, equals, value = given.partition("=")
        if not name or not equals or not value:
            msg = f"--set must be NAME=VALUE, got {given!r:.80}"
            raise ConfigError(msg)
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


class _Bar:
    """Shows lines done and lines/s on stderr; nothing when all is done at once."""

    def __init__(self) -> None:
        tqdm = import_extra("tqdm", user="the progress bar", extra="cache").tqdm
        wait_s = 0.2 if sys.stderr.isatty() else 10.0
        self._bar = tqdm(
            desc="reindexing", unit=" lines", file=sys.stderr, delay=0.5, mininterval=wait_s
        )

    def __call__(self, seen: int) -> None:
        self._bar.update(seen - self._bar.n)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.close()
