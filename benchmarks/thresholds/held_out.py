"""Data sets whose queries the packaged heads were not trained on, to fit thresholds to.

    python -m benchmarks.thresholds.held_out DATA OUT [--sizes 16 64 256]

Writes a folder for each data set of the training of `minilm`: its tools, and the queries that its
configuration kept for validation, as split `val`. They were drawn by tool, so the heads were not
trained on a request for any of these tools; no query is near a test query in its words. For each
of `--sizes`, smaller catalogues are drawn from each data set too: tools that queries ask for, and
others of the same data set, with all queries whose tools are there. A folder is written for each
kind of catalogue: most tools with parameters or not, and how many tools.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from toolheads.data import write_queries, write_tools
from toolheads.decide.calibration import CatalogueKind
from toolheads.domain import Query, Tool
from toolheads_train.data.folders import FolderSettings, read_selection
from toolheads_train.data.selection import ValidationSettings

SEED = 0
"""Of configs/minilm.yaml, for the same draw."""

EXCLUDE = ("sgd",)
"""Left out of the training, see heads/README.md."""

_ASKED = 0.25
"""Share of the tools of a small catalogue that queries are drawn for."""

_QUERIES = 100
"""Small catalogues of one size are drawn from a data set until they have so many queries."""

_MOST_DRAWN = 12
"""But no more of them than so many."""

_WITH_PARAMETERS = 0.3
"""Share of tools with parameters from which a catalogue counts as one with parameters."""

_WHOLE_FROM = 500
"""Tools from which a data set counts as large."""


def held_out(data: Path) -> dict[str, tuple[Sequence[Tool], list[Query]]]:
    """Data set → its tools and the queries that chose the checkpoint."""
    validation = ValidationSettings(by="tool", share=0.1, max_queries=500, min_queries=20)
    settings = FolderSettings(
        root=(str(data),), exclude=EXCLUDE, validation=validation, min_jaccard=0.8
    )
    _, selection = read_selection(settings, seed=SEED)
    return {
        one.dataset.name: (
            one.dataset.tools,
            [replace(query, split="val") for query in one.validation],
        )
        for one in selection.datasets
        if one.validation
    }


def small(
    tools: Sequence[Tool], queries: Sequence[Query], size: int, rng: np.random.Generator
) -> tuple[list[Tool], list[Query]]:
    """A catalogue of about `size` tools with all queries that it has all tools for."""
    asked: set[str] = set()
    for at in rng.permutation(len(queries)):
        wanted = set(queries[at].relevant)
        if len(asked | wanted) <= max(1, round(_ASKED * size)):
            asked |= wanted
    others = [row for row, tool in enumerate(tools) if tool.id not in asked]
    drawn = rng.choice(others, size=min(len(others), size - len(asked)), replace=False)
    kept = asked | {tools[row].id for row in drawn}
    return (
        [tool for tool in tools if tool.id in kept],
        [query for query in queries if set(query.relevant) <= kept],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sizes", type=int, nargs="*", default=())
    args = parser.parse_args()
    for name, (tools, queries) in held_out(args.data).items():
        shares = CatalogueKind.of([tools])
        kind = args.out / ("parameters" if shares.with_schema.least >= _WITH_PARAMETERS else "bare")
        if len(tools) >= _WHOLE_FROM:
            _write(kind / "whole" / name, tools, queries)
        print(f"{kind.name}/{name}: {len(tools):,} tools, {len(queries)} queries")
        for size in args.sizes:
            rng, so_far = np.random.default_rng([SEED, size, *name.encode()]), 0
            for at in range(_MOST_DRAWN if size < len(tools) else 0):
                some, asking = small(tools, queries, size, rng)
                if asking:
                    _write(kind / f"{size}" / f"{name}-{size}-{at}", some, asking)
                so_far += len(asking)
                if so_far >= _QUERIES:
                    break


def _write(folder: Path, tools: Sequence[Tool], queries: Sequence[Query]) -> None:
    write_tools(folder / "tools.jsonl", tools)
    write_queries(folder / "queries.jsonl", queries)


if __name__ == "__main__":
    main()
