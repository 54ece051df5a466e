"""A new state out of the old one and other tools: what stays is not worked out again.

What comes out depends on the tools and the rows that are there alone, to the bit, whatever was
served before: the order of tools is that of their ids, words are counted in whole numbers, and so
is the spread of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from toolheads.arrays import Floats
from toolheads.catalogue import tool_digest
from toolheads.data.jsonl import LineError, shown
from toolheads.domain import Tool
from toolheads.errors import ConfigError, DataError
from toolheads.heads.fusion import LexicalPart
from toolheads.lexical import FieldedIndex
from toolheads.ports import VectorIndex
from toolheads.retrieval.answer import Update
from toolheads.retrieval.naming import Names
from toolheads.retrieval.state import Floor, Snapshot, State
from toolheads.scorers.fused import Words
from toolheads.scorers.hybrid import LEXICAL_PART
from toolheads.scorers.indexed import IndexedRows
from toolheads.scorers.indexed_corpus import IndexedCorpus, gathered, spread_of
from toolheads.scorers.rank_fusion import RankFusion
from toolheads.scorers.recipe import Recipe
from toolheads.scorers.spread import Spread
from toolheads.texts import TextSettings, tool_view_texts

_LEAST_SHARE = 0.5
"""Vectors are searched once at least this share of the tools has a row; before, the words of all
tools say more."""


_MOST_PENDING = 0.01
"""Share of tools without a row up to which a search may say that nothing matches: what fits best
might be one of them."""

FloorOf = Callable[[Sequence[Tool]], Floor | None]
"""The floor that is fitted to a catalogue; None where none is."""


@dataclass(frozen=True)
class Wish:
    """Tools that are to be served."""

    tools: Sequence[Tool]
    line_keys: Sequence[bytes] = ()
    """Of the line of each, see `catalogue.read_catalogue`; empty for tools of no file."""


@dataclass(frozen=True)
class Scoring:
    """How a retriever scores, apart from any catalogue."""

    recipe: Recipe | None
    """None for words alone."""
    index: VectorIndex | None
    key_of: Callable[[Sequence[str]], str]
    """Names a row by the texts it is made of."""
    texts: TextSettings
    ranks: RankFusion | None = None
    floor_of: FloorOf | None = None

    @property
    def lexical(self) -> LexicalPart:
        """How words count, mixed in or alone."""
        fusion = self.recipe.fusion if self.recipe else None
        return fusion.lexical if fusion is not None and fusion.lexical else LEXICAL_PART

    @property
    def mixes_words(self) -> bool:
        """Whether the scores by vectors have words mixed in."""
        fusion = self.recipe.fusion if self.recipe else None
        return fusion is not None and fusion.lexical is not None

    def row_keys(self, tools: Sequence[Tool]) -> list[str]:
        """Keys of the rows of tools; empty strings where words alone count."""
        if self.recipe is None:
            return [""] * len(tools)
        views = list(self.recipe.tool_weights)
        return [self.key_of(tool_view_texts(tool, views, self.texts)) for tool in tools]


def empty_state(scoring: Scoring) -> State:
    """That of no tools."""
    words = FieldedIndex([], scoring.lexical.settings)
    return _state((), Snapshot((), (), (), words), scoring, Names())


def rebuilt(old: State, wish: Wish, scoring: Scoring) -> tuple[State, Update]:
    """The state of other tools, without rows, and what is different about them.

    Args:
        old: What was served, or what was saved of an earlier run.
        wish: The tools.
        scoring: How they are scored.

    Raises:
        ConfigError: If two tools have one id.
        DataError: If a tool holds what is no JSON.
    """
    tools, lines = _by_id(wish)
    before = old.snapshot
    digests = _digests(old, tools, lines)
    kept = np.array([before.row_of.get(tool.id, -1) for tool in tools], np.int64)
    is_same = np.array(
        [row >= 0 and before.digests[row] == d for row, d in zip(kept, digests, strict=True)],
        np.bool_,
    )
    new_rows = np.flatnonzero(~is_same)
    new_tools = [tools[row] for row in new_rows]
    keys = [before.keys[row] if row >= 0 else "" for row in kept]
    for row, key in zip(new_rows.tolist(), scoring.row_keys(new_tools), strict=True):
        keys[row] = key
    places = np.full(len(before.ids), -1, np.int64)
    places[kept[is_same]] = np.flatnonzero(is_same)
    index = before.words
    if len(new_rows) or (places < 0).any():
        index = before.words.changed(places, new_tools, new_rows)
    snapshot = Snapshot(
        tuple(tool.id for tool in tools),
        digests,
        tuple(keys),
        index,
        lines=dict(zip(lines, digests, strict=False)),
    )
    update = Update(
        added=tuple(tools[row].id for row in new_rows if kept[row] < 0),
        changed=tuple(tools[row].id for row in new_rows if kept[row] >= 0),
        removed=tuple(i for i in before.ids if i not in snapshot.row_of),
        catalogue=snapshot.catalogue,
    )
    gone = [old.tools[row] for row in np.flatnonzero(places < 0)] if old.tools else []
    names = old.names.changed(gone, new_tools) if old.tools else Names(tools)
    words = old.words if not update and old.tools else None
    return _state(tools, snapshot, scoring, names, words), update


def with_rows(state: State, before: Snapshot, scoring: Scoring) -> State:
    """The state with all rows that the index has by now.

    Args:
        state: Its corpus is not looked at.
        before: An earlier snapshot, whose spread is taken up rather than worked out anew.
        scoring: How tools are scored.

    Raises:
        IndexStoreError: If the index fails.
    """
    recipe, index = scoring.recipe, scoring.index
    if recipe is None or index is None:
        return state
    own = state.snapshot.keys
    embedded = frozenset(own) & index.keys()
    known = [key if key in embedded else None for key in own]
    pending = known.count(None)
    spread = _spread(before, embedded, own, recipe, index) if embedded else None
    snapshot = replace(state.snapshot, spread=spread, embedded=embedded)
    if spread is None or pending > (1 - _LEAST_SHARE) * len(own):
        return state.with_corpus(snapshot, None, pending)
    mean = spread.mean if pending else None
    rows = IndexedRows.of(known, recipe.longest, mean)
    words = state.words if scoring.mixes_words else None
    corpus = IndexedCorpus(recipe, rows, spread, words, scoring.ranks)
    floor = None
    if scoring.floor_of is not None and pending <= _MOST_PENDING * len(own):
        floor = scoring.floor_of(state.tools)
    return state.with_corpus(snapshot, corpus, pending, floor)


def _spread(
    before: Snapshot,
    embedded: frozenset[str],
    keys: Sequence[str],
    recipe: Recipe,
    index: VectorIndex,
) -> Spread:
    now = _counted(keys, embedded)
    old = _counted(before.keys, before.embedded)
    if now == old and before.spread is not None:
        return before.spread
    more = [key for key, n in now.items() for _ in range(n - old.get(key, 0))]
    less = [key for key, n in old.items() for _ in range(n - now.get(key, 0))]
    size = sum(now.values())
    spread = before.spread
    is_small = len(more) + len(less) < size // 2 and size >= recipe.width
    if spread is None or not spread.is_summed or not is_small or not index.keys() >= set(less):
        known = [key if key in embedded else None for key in keys]
        return spread_of(index, IndexedRows.of(known, recipe.longest))
    rows: Floats = gathered(index, [*more, *less])
    return spread.changed(rows[: len(more)], rows[len(more) :])


def _counted(keys: Sequence[str], embedded: frozenset[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for key in keys:
        if key in embedded:
            counts[key] = counts.get(key, 0) + 1
    return counts


def _state(
    tools: tuple[Tool, ...],
    snapshot: Snapshot,
    scoring: Scoring,
    names: Names,
    words: Words | None = None,
) -> State:
    """Without rows yet."""
    if words is None:
        words = Words(snapshot.words, snapshot.words.folded(scoring.lexical.fields))
    pending = len(tools) if scoring.recipe else 0
    return State(tools, snapshot, names, words, None, pending)


def _by_id(wish: Wish) -> tuple[tuple[Tool, ...], tuple[bytes, ...]]:
    order = sorted(range(len(wish.tools)), key=lambda i: wish.tools[i].id)
    tools = tuple(wish.tools[i] for i in order)
    for one, two in pairwise(tools):
        if one.id == two.id:
            msg = f"tools must have ids of their own, got {shown(one.id)} twice"
            raise ConfigError(msg)
    lines = tuple(wish.line_keys[i] for i in order) if wish.line_keys else ()
    return tools, lines


def _digests(old: State, tools: Sequence[Tool], lines: Sequence[bytes]) -> tuple[bytes, ...]:
    """(n,) digests, those of the same objects and the same lines taken over."""
    # What was saved of an earlier run has no tools.
    same = zip(old.tools, old.snapshot.digests, strict=False)
    before: Mapping[int, bytes] = {id(tool): digest for tool, digest in same}
    read = old.snapshot.lines
    digests = []
    for row, tool in enumerate(tools):
        digest = before.get(id(tool)) or (read.get(lines[row]) if lines else None)
        digests.append(digest or _digest(tool))
    return tuple(digests)


def _digest(tool: Tool) -> bytes:
    try:
        return tool_digest(tool)
    except LineError as e:
        msg = f"tool {shown(tool.id)} must be readable as JSON, got {e}"
        raise DataError(msg) from e
