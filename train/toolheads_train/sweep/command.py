"""`toolheads train sweep`: every combination of a grid, at once where it goes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from toolheads.durable import write_whole
from toolheads.errors import ConfigError
from toolheads_train.command import parsing
from toolheads_train.sweep.grid import Grid, wandb_sweep
from toolheads_train.sweep.report import render
from toolheads_train.sweep.running import MOST_AT_ONCE, Sweep


def main(argv: Sequence[str]) -> int:
    """Train every combination of a grid and print a table.

    Words that are not listed are settings of `toolheads train fit`, the same for all.
    """
    parser = argparse.ArgumentParser(
        prog="toolheads train sweep",
        description=main.__doc__,
        epilog="example: toolheads train sweep --config configs/minilm.yaml --grid grid.yaml "
        "--out runs/sweep --data.root DATA",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--config", type=Path, required=True, help="config of `fit`")
    parser.add_argument(
        "--grid", type=Path, required=True, help="YAML: dotted name of a setting → list of values"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/sweep"), help="default: runs/sweep")
    parser.add_argument(
        "--at-once",
        type=int,
        default=MOST_AT_ONCE,
        help=f"most pairs of heads trained together (default: {MOST_AT_ONCE}); 1: one by one",
    )
    parser.add_argument(
        "--soup",
        choices=("mean", "join"),
        help="also make one heads file of all seeds of a variant; see `toolheads train soup`",
    )
    parser.add_argument(
        "--ensemble", action="store_true", help="also rank by the mean score of all seeds"
    )
    parser.add_argument(
        "--wandb-sweep", type=Path, metavar="OUT.yaml", help="also write the grid for W&B agents"
    )
    args, more = parser.parse_known_args(list(argv))
    if args.at_once < 1:
        msg = f"at-once must be >= 1, got {args.at_once}"
        raise ConfigError(msg)
    if not args.config.is_file() or not args.grid.is_file():
        missing = args.config if not args.config.is_file() else args.grid
        msg = f"config and grid must be files, got no file {missing}"
        raise ConfigError(msg)
    grid = Grid.read(args.grid)
    if args.wandb_sweep is not None:
        write_whole(args.wandb_sweep, wandb_sweep(grid, args.config).encode())
    with parsing():
        sweep = Sweep(args.config, grid, args.out, more, at_once=args.at_once)
        rows = sweep.run(soup_how=args.soup, ensemble=args.ensemble)
    sys.stdout.write(render(rows) + "\n")
    return 0
