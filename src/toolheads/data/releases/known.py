"""The releases this package knows, each at one commit, and any data set of the Hub."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from toolheads.data.datasets import QUERIES_FILE, TOOLS_FILE, read_dataset
from toolheads.data.releases.mcp_servers import (
    MCP_ZERO_FILE,
    convert_livemcpbench,
    convert_mcp_zero,
)
from toolheads.data.releases.release import Converted, Hub, Release
from toolheads.data.releases.toolret import convert_toolret, convert_toolret_train
from toolheads.errors import ConfigError

_HUB = re.compile(r"hub:([\w.-]+/[\w.-]+?)(?:@([\w./-]+))?")
_TABLES = ("**/*.parquet", "**/*.jsonl", "**/*.json")

_ALL = (
    Release(
        name="toolret",
        about="ToolRet: 44,453 tools of three corpora, 7,961 queries of 35 tasks, all test.",
        licence="Apache-2.0 for the benchmark's code; the data sets on the Hub state none",
        convert=convert_toolret,
        hubs=(
            Hub(
                "mangopy/ToolRet-Tools",
                "e06c38c75612b6536bd959e08cdd345894aba6a7",
                ("*/*.parquet",),
            ),
            Hub(
                "mangopy/ToolRet-Queries",
                "b8c76ad3349ff17497b6bdb28bb5b8f61a0f6445",
                ("*/*.parquet",),
            ),
        ),
    ),
    Release(
        name="toolret-train",
        about="ToolRet's training set: 208,826 queries with positive tools and mined negatives.",
        licence="none stated; ask its authors before passing on what is made from it",
        convert=convert_toolret_train,
        hubs=(
            Hub(
                "mangopy/ToolRet-Training-20w",
                "fdf5a317455b1e60785de7ba587496aa6cc878e4",
                _TABLES,
            ),
        ),
    ),
    Release(
        name="livemcpbench",
        about="LiveMCPBench: 527 tools of 70 MCP servers and 95 tasks with the tools people used.",
        licence="Apache-2.0",
        convert=convert_livemcpbench,
        hubs=(
            Hub(
                "ICIP/LiveMCPBench",
                "ddea2d24196638bc4026c4cb891f679d0357bfd0",
                ("tools/tools.json", "tasks/tasks.json"),
            ),
        ),
    ),
    Release(
        name="mcp-zero",
        about="MCP-Zero: 2,797 tools of 308 MCP servers, read from their READMEs by a model.",
        licence="MIT",
        convert=convert_mcp_zero,
        by_hand=f"{MCP_ZERO_FILE}, linked from the README of github.com/xfey/MCP-Zero",
    ),
)

RELEASES: Mapping[str, Release] = MappingProxyType({release.name: release for release in _ALL})
"""Name → release."""


def find_release(name: str) -> Release:
    """A release by its name; `hub:OWNER/NAME[@REVISION]` is any data set of the Hub.

    Raises:
        ConfigError: If there is no such release.
    """
    if name in RELEASES:
        return RELEASES[name]
    if match := _HUB.fullmatch(name):
        return _hub_release(match[1], match[2] or "main")
    msg = f"release must be one of {', '.join(RELEASES)} or hub:OWNER/NAME[@REVISION], got {name!r}"
    raise ConfigError(msg)


def _hub_release(repo: str, revision: str) -> Release:
    return Release(
        name=f"hub:{repo}",
        about=f"The data set {repo} of the Hugging Face Hub.",
        licence="",  # that of its card
        convert=_convert_dataset,
        hubs=(Hub(repo, revision, (TOOLS_FILE, QUERIES_FILE)),),
    )


def _convert_dataset(folder: Path) -> Converted:
    """Read a repository that holds our two files already."""
    dataset = read_dataset(folder)
    return Converted(list(dataset.tools), list(dataset.queries))
