"""What a retriever may be told."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from toolheads.cutoff import CutoffSettings
from toolheads.errors import ConfigError

_MAY_BE_ZERO = ("deadline_s", "keep_rows_s")


@dataclass(frozen=True)
class RetrieverSettings:
    """Limits and patience of a retriever. Times are in seconds."""

    cutoff: CutoffSettings | None = None
    """How many hits a search without k keeps; None takes what the heads were tuned with."""
    lexical_k: int = 10
    """Most hits of a lexical answer to a search without k, >= 1."""
    candidates: int = 100
    """Rows that the index is asked for at first, >= 1; more where these do not prove the best."""
    deadline_s: float = 2.0
    """Longest wait for the vector of a query before words answer, >= 0."""
    workers: int = 4
    """Calls of the encoder for queries in flight at once, >= 1."""
    waiting: int = 64
    """Queries that may wait for a worker, >= 1; the next is answered by words at once."""
    failures: int = 3
    """Failures of the encoder in a row after which it is left alone, >= 1. After the first one it
    is tried in the background, and left alone at once if that fails too."""
    retry_s: float = 1.0
    """How long it is left alone before it is tried again, > 0; doubles with each failure."""
    most_retry_s: float = 30.0
    """The longest that gets."""
    check_every_s: float = 300.0
    """How often the encoder is checked for other weights behind the same name, > 0."""
    cached_queries: int = 4096
    """Most queries whose vectors are kept, >= 0."""
    cached_bytes: int = 32 << 20
    """Most bytes of them, >= 0."""
    conversations: int = 1024
    """Most conversations that are remembered, >= 0; the one longest unused is forgotten."""
    conversation_tools: int = 64
    """Most tools of one conversation, >= 1; then it starts anew."""
    keep_rows_s: float = 600.0
    """How long the row of a tool that is gone is kept, >= 0: a server that comes back within this
    time has its tools embedded."""
    poll_s: float = 0.2
    """How often a followed file is looked at, > 0."""

    def __post_init__(self) -> None:
        least = {"cached_queries": 0, "cached_bytes": 0, "conversations": 0}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "cutoff":
                if value is not None and not isinstance(value, CutoffSettings):
                    msg = f"cutoff must be None or CutoffSettings, got {value!r:.80}"
                    raise ConfigError(msg)
            elif field.type == "int":
                bound = least.get(field.name, 1)
                if type(value) is not int or value < bound:
                    msg = f"{field.name} must be a whole number >= {bound}, got {value!r:.80}"
                    raise ConfigError(msg)
            elif not _is_time(value, may_be_zero=field.name in _MAY_BE_ZERO):
                rule = ">=" if field.name in _MAY_BE_ZERO else ">"
                msg = f"{field.name} must be a finite number {rule} 0, got {value!r:.80}"
                raise ConfigError(msg)


def _is_time(value: object, *, may_be_zero: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) and (value >= 0 if may_be_zero else value > 0)
