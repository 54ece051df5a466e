"""`toolheads heads list | show | verify | pull | export`: heads files."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

from toolheads.decide.calibration import read_kinds, subject_of_vectors
from toolheads.entrypoints.cli.options import add_trust_options, loaded_heads
from toolheads.entrypoints.cli.printing import printable
from toolheads.errors import ConfigError, ToolheadsError
from toolheads.heads import Heads, packaged_heads
from toolheads.heads.convert import convert_heads
from toolheads.heads.digests import find_heads
from toolheads.heads.download import download_heads, name_in
from toolheads.heads.files import header_json
from toolheads.scorers.recipe import Recipe

_LONGEST = 120
"""Characters of one training value that `show` prints; the whole header is one `--json` away."""


def register(subparsers: Any) -> None:
    """Add the group."""
    group = subparsers.add_parser("heads", help="list, show, verify, fetch and convert heads files")
    commands = group.add_subparsers(metavar="COMMAND", required=True)

    listed = commands.add_parser("list", help="list the packaged heads")
    listed.add_argument("--json", action="store_true", help="print JSON")
    listed.set_defaults(run=_list)

    show = commands.add_parser("show", help="print what a heads file says about itself")
    show.add_argument("heads", metavar="NAME|FILE")
    show.add_argument("--json", action="store_true", help="print the whole header as JSON")
    add_trust_options(show)
    show.set_defaults(run=_show)

    verify = commands.add_parser("verify", help="check digest, format and content of heads files")
    verify.add_argument(
        "heads", nargs="*", metavar="NAME|FILE", help="(default: all packaged heads)"
    )
    add_trust_options(verify)
    verify.set_defaults(run=_verify)

    pull = commands.add_parser("pull", help="fetch a heads file and check it")
    pull.add_argument("url", metavar="URL")
    pull.add_argument("--sha256", required=True, metavar="HEX", help="digest it must have")
    pull.add_argument("--out", type=Path, metavar="FILE", help="(default: the name in the URL)")
    pull.add_argument("--force", action="store_true", help="replace a file that is there")
    pull.set_defaults(run=_pull)

    export = commands.add_parser("export", help="write heads anew in another precision")
    export.add_argument("heads", metavar="NAME|FILE")
    export.add_argument("out", type=Path, metavar="OUT.npz")
    export.add_argument("--dtype", choices=("float16", "float32"), default="float16")
    export.add_argument("--force", action="store_true", help="replace a file that is there")
    add_trust_options(export)
    export.set_defaults(run=_export)


def _list(args: argparse.Namespace) -> int:
    entries = packaged_heads()
    if args.json:
        fields = [
            {"name": e.name, "file": str(e.path), "sha256": e.sha256, "description": e.description}
            for e in entries
        ]
        print(json.dumps(fields, indent=2))
        return 0
    for e in entries:
        print(printable(f"{e.name:<24} {e.sha256[:12]}  {e.description}"))
    if not entries:
        print("no heads are packaged with this installation", file=sys.stderr)
    return 0


def _show(args: argparse.Namespace) -> int:
    heads = loaded_heads(args.heads, args)
    path, _ = find_heads(args.heads)
    header = header_json(heads)
    if args.json:
        print(json.dumps({"file": str(path), "sha256": heads.sha256, **header}, indent=2))
        return 0
    encoder, texts = heads.fingerprint.encoder, heads.texts
    revision = f", revision {encoder.revision[:12]}" if encoder.revision else ""
    cut = f"{encoder.truncation} tokens" if encoder.truncation else "no truncation of its own"
    rows: dict[str, object] = {
        "name": heads.name,
        "file": f"{path} ({path.stat().st_size / 1e6:.1f} MB)",
        "sha256": heads.sha256,
        "backbone": f"{encoder.model}{revision}, {encoder.width}-d, {encoder.pooling}, {cut}",
        "texts": f"{texts.tool_format}, {texts.query_format}, budget {texts.budget}",
        "instruction": texts.instruction or "none",
        "state head": _shape(header["architecture"]["state"], heads.state.alpha),
        "action head": _shape(header["architecture"]["action"], heads.action.alpha),
        "widths": ", ".join(map(str, (*heads.header.widths, encoder.width))),
        "centre": " and ".join(header.get("centre", ())) or "none",
        "views": " · ".join(
            f"{side} " + ", ".join(f"{view} {weight:g}" for view, weight in weights.items())
            for side, weights in header["views"].items()
        ),
        "fusion": _fusion(heads),
        "cut-off": ", ".join(f"{name} {value}" for name, value in header["cutoff"].items()),
    }
    for name, value in header["training"].items():
        if name != "name":
            said = value if isinstance(value, str) else json.dumps(value)
            rows[f"training: {name}"] = textwrap.shorten(said, _LONGEST, placeholder=" … (--json)")
    for name, value in rows.items():
        print(printable(f"{name:<16} {value}"))
    return 0


def _verify(args: argparse.Namespace) -> int:
    names = args.heads or [entry.name for entry in packaged_heads()]
    if args.sha256 and len(names) != 1:
        msg = f"sha256 must go with one file, got {len(names)}"
        raise ConfigError(msg)
    failed = 0
    for name in names:
        try:
            heads = loaded_heads(name, args)
            more = _with_thresholds(heads)
        except (ToolheadsError, OSError) as e:
            failed += 1
            print(f"failed  {name}: {e}")
        else:
            print(f"ok      {name}  sha256 {heads.sha256}{more}")
    if not names:
        print("no heads are packaged with this installation", file=sys.stderr)
    return 1 if failed else 0


def _with_thresholds(heads: Heads) -> str:
    """What comes with packaged heads, checked; empty where nothing does.

    Raises:
        CalibrationError: If the thresholds are not for these heads.
    """
    for entry in packaged_heads():
        if entry.sha256 == heads.sha256 and (kinds := read_kinds(entry)) is not None:
            recipe = Recipe.of_heads(heads)
            for one in kinds.calibrations:
                one.check_subject(subject_of_vectors(recipe, None, heads.fingerprint))
            return f", thresholds for {len(kinds.calibrations)} kinds of catalogues"
    return ""


def _pull(args: argparse.Namespace) -> int:
    out = args.out or Path(name_in(args.url))
    _refuse_to_replace(out, force=args.force)
    print(download_heads(args.url, out, sha256=args.sha256))
    return 0


def _export(args: argparse.Namespace) -> int:
    heads = loaded_heads(args.heads, args)
    _refuse_to_replace(args.out, force=args.force)
    done = convert_heads(heads, args.out, dtype=args.dtype)
    print(
        f"{done.path} {args.dtype}, {done.path.stat().st_size / 1e6:.1f} MB, sha256 {done.sha256}"
    )
    print(
        f"projections against {args.heads}: cosine >= {done.state_cosine:.9f} (state), "
        f">= {done.action_cosine:.9f} (action)"
    )
    return 0


def _refuse_to_replace(path: Path, *, force: bool) -> None:
    if path.exists() and not force:
        msg = f"{path} must not be there yet, got a file; add --force to replace it"
        raise ConfigError(msg)


def _fusion(heads: Heads) -> str:
    """What is mixed into the scores, on one line."""
    fusion, said = heads.fusion, []
    if fusion is None:
        return "none"
    if fusion.lexical is not None:
        fields = ", ".join(f"{name} {w:g}" for name, w in fusion.lexical.fields.items() if w)
        said.append(f"shared words {fusion.lexical.weight:g} ({fields})")
    if fusion.hubness is not None:
        hubness = fusion.hubness
        said.append(f"hubness {hubness.weight:g} ({hubness.neighbours} neighbours)")
    if fusion.clause_temperature:
        said.append(f"clause temperature {fusion.clause_temperature:g}")
    return " · ".join(said)


def _shape(architecture: dict[str, Any], alpha: float) -> str:
    width, hidden = architecture["width"], architecture["hidden"]
    sizes = " → ".join(map(str, [width, *hidden, width]))
    norm = ", LayerNorm" if architecture["hidden_norm"] else ""
    scaling = architecture["input_scaling"]
    return f"{sizes}, {architecture['activation']}{norm}, input {scaling}, alpha {alpha:g}"
