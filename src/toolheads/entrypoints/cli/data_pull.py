"""`toolheads data pull`: make a data set of a public release."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from toolheads.data.releases import RELEASES, find_release, pull
from toolheads.entrypoints.cli.printing import printable


def register_pull(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the group `data`."""
    listed = "\n".join(
        f"  {name}\n      {release.about}\n      licence: {release.licence}"
        for name, release in RELEASES.items()
    )
    parser = commands.add_parser(
        "pull",
        help="make a data set of a public release",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=(
            "Fetch a public release at the commit this version was written for, check its files\n"
            "against the digests of that commit, and write tools.jsonl, queries.jsonl and\n"
            "SOURCE.md. The folder appears whole or not at all; the same again changes nothing."
        ),
        epilog=(
            f"releases:\n{listed}\n"
            "  hub:OWNER/NAME[@REVISION]\n"
            "      any data set of the Hugging Face Hub that holds tools.jsonl\n"
        ),
    )
    parser.add_argument("release", metavar="RELEASE", help="one of those below")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="the data set (default: data/RELEASE)"
    )
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="DIR",
        help="convert files that are at hand instead of fetching them",
    )
    parser.add_argument("--endpoint", metavar="URL", help="a mirror of the Hub")
    parser.add_argument(
        "--replace", action="store_true", help="another data set that is in --out may go"
    )
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    parser.set_defaults(run=_pull)


def _pull(args: argparse.Namespace) -> int:
    release = find_release(args.release)
    folder = release.name.removeprefix("hub:").replace("/", "--")
    pulled = pull(
        release,
        args.out or Path("data") / folder,
        source=args.source,
        replace=args.replace,
        endpoint=args.endpoint,
    )
    if args.json:
        answer = {
            "release": release.name,
            "out": str(pulled.out),
            "licence": pulled.licence,
            "unchanged": pulled.unchanged,
        }
        print(json.dumps(answer, indent=1))
        return 0
    print(f"{pulled.out}: {'already there' if pulled.unchanged else 'written'}")
    for line in pulled.source.splitlines():
        if line.startswith("- "):
            print(printable(line.removeprefix("- ")))
    return 0
