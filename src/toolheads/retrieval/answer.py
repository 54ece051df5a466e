"""What a search answers, and how the retriever is: plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from toolheads.domain import Hit

Mode = Literal["dense", "lexical"]
"""`dense`: by vectors, mixed with words as the scorer says. `lexical`: by words alone."""

Circuit = Literal["closed", "open", "half_open"]
"""Of the encoder: in use, left alone after failures, or being tried again."""


@dataclass(frozen=True)
class Answer:
    """The tools for one query."""

    hits: tuple[Hit, ...]
    """Best first; of a conversation, in the order they were first shown."""
    mode: Mode
    reason: str | None
    """Why the answer is lexical, in one line; None for a dense one, or where words were asked
    for."""
    nothing_matches: bool
    """Whether no tool fits. There are no hits then, but for those that a conversation has been
    shown before."""
    named: tuple[str, ...]
    """Ids of the tools that the query names exactly, in the order of the hits; all are hits."""
    catalogue: str
    """Digest of the set of tools that was searched."""
    took_ms: float


@dataclass(frozen=True)
class Update:
    """What replacing the tools came to, as ids in order."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    catalogue: str
    """Digest of the tools that are served now."""

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


@dataclass(frozen=True)
class Status:
    """How a retriever is, for health checks and metrics."""

    ready: bool
    """Whether searches are answered; they are from the first moment there are tools."""
    mode: Mode
    """Of the next new query, as far as one can tell."""
    degraded: bool
    """Whether something is worse than it should be; `reason` says what."""
    reason: str | None
    scorer: str
    tools: int
    pending: int
    """Tools that are found by their words alone, since they are not embedded yet."""
    catalogue: str
    circuit: Circuit
    encoder_failures: int
    """Since the start."""
    reload_error: str | None
    """Why the last reload failed; None once one succeeds."""
    reload_failures: int
    """Since the start."""
    reloaded_at: float | None
    """When the tools were last taken over, in seconds since 1970."""
    faults: int
    """Lines that the last reading of the catalogue left out."""
    floor: float | None
    """Score below which the best tool is none; None where none is fitted to this catalogue."""
    cached_queries: int
    cached_bytes: int

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self)
