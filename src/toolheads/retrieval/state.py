"""What searches read: one catalogue, all that belongs to it, and nothing that ever changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from toolheads.arrays import Bools, Ids
from toolheads.catalogue import joined_digest
from toolheads.domain import Tool
from toolheads.lexical import FieldedIndex
from toolheads.retrieval.naming import Names
from toolheads.scorers.fused import Words
from toolheads.scorers.indexed_corpus import IndexedCorpus
from toolheads.scorers.spread import Spread


@dataclass(frozen=True)
class Snapshot:
    """What is worked out of n tools, in the order of their ids, and can be saved."""

    ids: tuple[str, ...]
    digests: tuple[bytes, ...]
    """(n,) see `catalogue.tool_digest`."""
    keys: tuple[str, ...]
    """(n,) keys of rows; empty strings where no row is made of a tool."""
    words: FieldedIndex
    spread: Spread | None = None
    """Of the rows that are there; None if there are none."""
    embedded: frozenset[str] = frozenset()
    """The keys of these rows."""
    lines: Mapping[bytes, bytes] = field(default_factory=dict)
    """Key of the line of a tool → its digest, so that a line once read need not be digested."""

    @cached_property
    def catalogue(self) -> str:
        """Digest of the set of tools."""
        return joined_digest(self.digests)

    @cached_property
    def row_of(self) -> Mapping[str, int]:
        """Id → row."""
        return {tool_id: row for row, tool_id in enumerate(self.ids)}


@dataclass(frozen=True)
class Floor:
    """What the best tool must score for anything to match."""

    score: float
    """Inclusive."""
    least_tools: int
    """Fewest tools among which the best one is looked for."""


@dataclass(frozen=True)
class State:
    """One catalogue, ready to be searched."""

    tools: tuple[Tool, ...]
    """By id."""
    snapshot: Snapshot
    names: Names
    words: Words
    corpus: IndexedCorpus | None
    """What vectors are searched with; None if words alone are asked for, or too few tools have a
    row yet."""
    pending: int
    """Tools whose row is still to be made."""
    floor: Floor | None = None
    """None where none is fitted to such a catalogue, or too many tools have no row yet."""

    @cached_property
    def server_rows(self) -> Mapping[str, Ids]:
        """Server → its tools."""
        rows: dict[str, list[int]] = {}
        for row, tool in enumerate(self.tools):
            if tool.server is not None:
                rows.setdefault(tool.server, []).append(row)
        return {server: np.array(own, np.int64) for server, own in rows.items()}

    def allowed(self, sources: Collection[str] | None) -> Bools | None:
        """(n,) which tools are of these servers; None for all."""
        if sources is None:
            return None
        allowed = np.zeros(len(self.tools), np.bool_)
        for source in sources:
            if source in self.server_rows:
                allowed[self.server_rows[source]] = True
        return allowed

    def with_corpus(
        self,
        snapshot: Snapshot,
        corpus: IndexedCorpus | None,
        pending: int,
        floor: Floor | None = None,
    ) -> State:
        """The same tools with more rows."""
        return replace(self, snapshot=snapshot, corpus=corpus, pending=pending, floor=floor)
