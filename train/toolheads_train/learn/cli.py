"""`toolheads learn`: parse, read, learn, write.

Imports nothing heavy at the top, so that the other commands stay fast.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

from toolheads.errors import ConfigError, ToolheadsError, import_extra

_NEEDED = ("torch", "lightning.pytorch", "jsonargparse")
NOT_KEPT = 3
"""Exit code where the given heads stay."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `toolheads learn …`.

    Args:
        argv: The words after `toolheads learn`.

    Returns:
        The exit code: 0 new heads were written, 2 bad input, 3 the given heads stay, 130
        interrupted.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        for module in _NEEDED:
            import_extra(module, user="toolheads learn", extra="train")
        return _run(words)
    except (ToolheadsError, OSError) as e:
        sys.stderr.write(f"toolheads learn: {e}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("toolheads learn: interrupted\n")
        return 130
    except SystemExit as e:  # --help and --print_config end like this
        return e.code if isinstance(e.code, int) else 0


def _run(words: list[str]) -> int:
    from toolheads.data import read_datasets, read_tools
    from toolheads.entrypoints.cli.progress import ProgressBar
    from toolheads.heads import save_heads
    from toolheads.usage import read_usage
    from toolheads_train.learn.run import learn

    for noisy in ("lightning.pytorch", "lightning.pytorch.utilities.rank_zero"):
        logging.getLogger(noisy).setLevel(logging.ERROR)  # what devices there are, tips
    args, settings = _parsed(words)
    out = Path(args.out)
    if out.suffix != ".npz":
        msg = f"out must end in .npz, got {out}"
        raise ConfigError(msg)
    given = _heads(args)
    log = read_usage(args.log)
    tools = read_tools(_tools_file(args.tools), skip_bad=args.skip_bad)
    replay = read_datasets(args.data, skip_bad=args.skip_bad) if args.data else []
    with closing(_encoder(given, args.encoder)) as encoder, ProgressBar() as progress:
        done = learn(
            given,
            log,
            tools,
            encoder,
            settings,
            name=out.stem,
            replay=replay,
            cache=Path(args.cache) if args.cache else None,
            progress=progress,
        )
    sys.stdout.write(done.report.to_text())
    record = done.report.to_json()
    if done.heads is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        record["sha256"] = save_heads(out, done.heads, dtype=settings.dtype)
        sys.stdout.write(f"{out}\nsha256 {record['sha256']}\n")
    elif args.report is None:
        return _not_kept(done.report.reason)
    _write_report(Path(args.report) if args.report else out.with_suffix(".report.json"), record)
    return 0 if done.heads is not None else _not_kept(done.report.reason)


def _not_kept(reason: str) -> int:
    sys.stderr.write(f"toolheads learn: {reason}\n")
    return NOT_KEPT


def _write_report(path: Path, record: dict[str, Any]) -> None:
    from toolheads.durable import write_whole

    write_whole(path, json.dumps(record, indent=2, sort_keys=True).encode() + b"\n")


def _parsed(words: list[str]) -> tuple[Any, Any]:
    """Arguments and settings."""
    from jsonargparse import ArgumentError, ArgumentParser, set_parsing_settings

    from toolheads.bootstrap import EncoderSettings
    from toolheads_train.learn.settings import LearnSettings

    set_parsing_settings(docstring_parse_attribute_docstrings=True)
    parser = ArgumentParser(
        prog="toolheads learn",
        description="Train heads on from a usage log; write them only if they prove better on its "
        "latest requests.",
        exit_on_error=False,
    )
    parser.add_argument("--config", action="config", help="YAML of any of the options")
    parser.add_argument("--log", type=str, help="folder with usage-YYYY-MM-DD.jsonl files")
    parser.add_argument("--tools", type=str, help="tools file or folder; `sample` is the sample's")
    parser.add_argument("--heads", type=str, default="minilm", help="heads that are served now")
    parser.add_argument("--out", type=str, help="heads file to write, ends in .npz")
    parser.add_argument("--report", type=str | None, help="where to write the report as JSON")
    parser.add_argument("--data", type=list[str] | None, help="data sets to replay, or folders")
    parser.add_argument("--skip_bad", type=bool, default=False, help="leave out bad data lines")
    parser.add_argument("--cache", type=str | None, default=".cache/toolheads", help="of vectors")
    parser.add_argument("--sha256", type=str | None, help="digest the given heads must have")
    parser.add_argument(
        "--allow_unverified", type=bool, default=False, help="load heads without a known digest"
    )
    parser.add_argument(
        "--encoder",
        type=EncoderSettings | None,
        default=None,
        help="backbone of the heads; null is the environment's, else the local one",
    )
    parser.add_class_arguments(LearnSettings, None)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s).*JSONARGPARSE_DEPRECATION_WARNINGS")
        try:
            args = parser.parse_args(words)
        except ArgumentError as e:
            raise ConfigError(" ".join(str(e).split())) from e
        for name in ("log", "tools", "out"):
            if not args[name]:
                msg = f"{name} must be given, got nothing; pass --{name}"
                raise ConfigError(msg)
        # The older of the versions that are allowed have the second name alone.
        made = (getattr(parser, "instantiate", None) or parser.instantiate_classes)(args)
    settings = LearnSettings(**{one.name: made[one.name] for one in fields(LearnSettings)})
    return made, settings


def _tools_file(where: str) -> Path:
    from toolheads.data.datasets import tools_file
    from toolheads.sample import dataset_path

    path = dataset_path(where)
    return tools_file(path) if path.is_dir() else path


def _heads(args: Any) -> Any:
    from toolheads.heads import load_heads

    return load_heads(args.heads, sha256=args.sha256, allow_unverified=args.allow_unverified)


def _encoder(given: Any, settings: Any) -> Any:
    """The encoder of the heads, as the settings or the environment say."""
    from toolheads.facade import encoder_for

    if settings is None:
        return encoder_for(given)
    return encoder_for(given, kind=settings.kind, **settings.options)
