"""Shared tools: how many tools of a catalogue a training has met already.

A tool that was met elsewhere is known by its name and description, whatever its server, id or
parameters: what heads learned of its text they know here too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from toolheads.data.datasets import Dataset
from toolheads.domain import Tool

ToolKey = tuple[str, str]
"""Name and description of a tool, but for case and blanks."""


@dataclass(frozen=True)
class SharedTools:
    """What of one data set's test is no news to heads. Counts tools, equal ones each."""

    tools: int
    """Tools of the data set."""
    tools_in_training: int
    """Of them, those that are in the training corpus in any part: asked for, or as negatives."""
    relevant: int
    """Tools that are relevant to a test query."""
    relevant_in_training: int
    """Of them, those that are in the training corpus in any part."""
    relevant_labelled: int
    """Of them, those that a labelled training query asks for."""
    sha256: Mapping[str, str]
    """File of the data set → sha256; other files have other counts."""

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self) | {"sha256": dict(self.sha256)}


COUNTS = tuple(field.name for field in fields(SharedTools) if field.name != "sha256")
"""Names of the counts."""


def tool_key(tool: Tool) -> ToolKey:
    """What two tools share that are one tool."""
    name, description = (" ".join(t.casefold().split()) for t in (tool.name, tool.description))
    return name, description


def shared_tools(
    dataset: Dataset, corpus: Collection[ToolKey], labelled: Collection[ToolKey]
) -> SharedTools:
    """Count the tools of a data set's test that a training has met.

    Args:
        dataset: Its test queries say which tools are relevant.
        corpus: Keys of all tools of the training corpus.
        labelled: Keys of the tools that labelled training queries ask for.
    """
    keys = {tool.id: tool_key(tool) for tool in dataset.tools}
    relevant = {tool_id for query in dataset.split("test") for tool_id in query.relevant}

    def met(ids: Iterable[str], seen: Collection[ToolKey]) -> int:
        return sum(keys[tool_id] in seen for tool_id in ids)

    return SharedTools(
        tools=len(keys),
        tools_in_training=met(keys, corpus),
        relevant=len(relevant),
        relevant_in_training=met(relevant, corpus),
        relevant_labelled=met(relevant, labelled),
        sha256=dict(sorted(dataset.digest.items())),
    )


def shared_tools_of(record: object, dataset: Dataset) -> dict[str, int] | None:
    """The counts that the training record of heads holds of a data set.

    Args:
        record: `shared_tools` of a training record, data set → `SharedTools.to_json`; anything
            else counts as not known.
        dataset: With the digests of its files.

    Returns:
        Name of a count → count; None where nothing is known of these very files.
    """
    of_set = record.get(dataset.name) if isinstance(record, Mapping) else None
    if not isinstance(of_set, Mapping) or of_set.get("sha256") != dataset.digest:
        return None
    counts = {name: of_set.get(name) for name in COUNTS}
    known = {name: count for name, count in counts.items() if type(count) is int}
    return known if len(known) == len(COUNTS) else None
