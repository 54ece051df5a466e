"""`toolheads decide`: which one tool of a catalogue a need names, if any. Prints JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from toolheads.data import read_tools
from toolheads.data.datasets import tools_file
from toolheads.decide import (
    Picker,
    PickerSettings,
    load_calibration,
    packaged_settings,
    read_tools_json,
)
from toolheads.decide.calibration.packaged import FALSE_BINDS
from toolheads.domain import Hit, Tool
from toolheads.entrypoints.cli.progress import ProgressBar
from toolheads.entrypoints.cli.scorers import add_scorer_options, named_scorer
from toolheads.errors import ConfigError, DataError, Fault
from toolheads.ports import Scorer
from toolheads.sample import dataset_path
from toolheads.scorers.vectors import check_text


def register(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "decide", help="say which one tool a need names, if any", description=__doc__
    )
    parser.add_argument("need", help="what is needed, in words")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--tools", type=Path, metavar="FILE", help="a tools file (JSONL), or a JSON array of tools"
    )
    where.add_argument(
        "--data", type=dataset_path, metavar="DIR", help="a folder with tools.jsonl, or `sample`"
    )
    parser.add_argument(
        "--skip-bad", action="store_true", help="leave out lines that cannot be read"
    )
    thresholds = parser.add_mutually_exclusive_group()
    thresholds.add_argument(
        "--calibration",
        type=Path,
        metavar="FILE",
        help="thresholds of `toolheads calibrate` (default: those that come with packaged heads)",
    )
    thresholds.add_argument(
        "--settings", metavar="FILE|JSON", help="thresholds of one's own, such as {} for defaults"
    )
    parser.add_argument(
        "--false-binds",
        type=float,
        metavar="SHARE",
        help=f"which thresholds of the calibration (default: {FALSE_BINDS:g})",
    )
    parser.add_argument(
        "--shortlist", type=int, metavar="N", help="list up to N tools that are worth a look"
    )
    add_scorer_options(parser)
    parser.set_defaults(run=_decide)


def _decide(args: argparse.Namespace) -> int:
    check_text(args.need)
    if args.shortlist is not None and args.shortlist < 0:
        msg = f"shortlist must be >= 0, got {args.shortlist}"
        raise ConfigError(msg)
    tools = _tools(args)
    with ExitStack() as stack:
        bar = None if args.scorer == "bm25" else stack.enter_context(ProgressBar())
        named = named_scorer(args, progress=bar)
        if named.encoder is not None:
            stack.callback(named.encoder.close)
        settings = _settings(args, named.scorer, tools)
        picker = Picker(tools, named.scorer, settings)
        if bar:
            bar.close()  # a single need needs no bar
        answer = picker.resolve(args.need).to_json()
        if args.shortlist is not None:
            hits = picker.shortlist(args.need, args.shortlist)
            answer["shortlist"] = [_fields(hit) for hit in hits]
    print(json.dumps(answer | {"settings": settings.to_json()}, indent=2))
    return 0


def _settings(args: argparse.Namespace, scorer: Scorer, tools: Sequence[Tool]) -> PickerSettings:
    if args.settings is not None:
        if args.false_binds is not None:
            msg = f"false-binds must be left out with settings, got {args.false_binds:g}"
            raise ConfigError(msg)
        return PickerSettings.from_json(_text(args.settings))
    share = FALSE_BINDS if args.false_binds is None else args.false_binds
    if args.calibration is not None:
        calibration = load_calibration(args.calibration)
        calibration.check(scorer, tools)
        return calibration.settings(share)
    found = packaged_settings(scorer, tools, share)
    if found is None:
        msg = (
            f"calibration or settings must be given for scorer {scorer.name}, since no thresholds "
            "come with it; make some with toolheads calibrate"
        )
        raise ConfigError(msg)
    return found


def _text(file_or_json: str) -> str:
    if file_or_json.lstrip().startswith("{"):
        return file_or_json
    return Path(file_or_json).read_text(encoding="utf-8")


def _tools(args: argparse.Namespace) -> Sequence[Tool]:
    """The tools of a folder, of a JSONL file, or of a file with one JSON array."""
    path: Path = args.tools or tools_file(args.data)
    if args.tools is not None and path.is_file():
        with path.open("rb") as file:
            start = file.read(64).lstrip()
        if start.startswith(b"["):
            return _array(path)
    return read_tools(path, skip_bad=args.skip_bad)


def _array(path: Path) -> Sequence[Tool]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as e:
        fault = Fault(str(path), 0, f"the file must be UTF-8, got {e.reason} at byte {e.start}")
        msg = f"{path} cannot be read"
        raise DataError(msg, [fault]) from e
    return read_tools_json(text, path=str(path))


def _fields(hit: Hit) -> dict[str, object]:
    tool = hit.tool
    return {"id": tool.id, "server": tool.server, "name": tool.name, "score": hit.score}
