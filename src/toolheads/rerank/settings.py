"""How tools are reranked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal, get_args

from toolheads.errors import ConfigError
from toolheads.rerank.keyword import KeywordSettings
from toolheads.rerank.llm.settings import LlmSettings
from toolheads.rerank.mentions import Mentions

Method = Literal["off", "keyword", "llm", "heads"]

METHODS: tuple[Method, ...] = get_args(Method)
"""Ways to rerank: not at all, by shared words, by a chat model, by a scorer."""

DEFAULT_TOP_N = 15


@dataclass(frozen=True)
class RerankSettings:
    """How tools are reranked. Every field can be changed alone, with `dataclasses.replace`."""

    method: Method = "off"
    """`off` lists every tool as it is."""
    top_n: int = DEFAULT_TOP_N
    """How many tools are chosen beside those that are named or pinned; 0 or less: none."""
    pinned: Sequence[str] = ()
    """Names or ids of tools that are always listed, in the order of the catalogue."""
    mentions: Mentions = "identifiers"
    """Tools that the message names are always listed, first. See `toolheads.rerank.mentions`."""
    lookback: int = 3
    """Most earlier messages of the user that are ranked on too, the newest first, while what is
    ranked on shares no word with any tool. Only of use with a conversation."""
    floor: float | None = None
    """Score from which on a hit of the scorer counts as a match; None takes every hit for one."""
    keyword: KeywordSettings = field(default_factory=KeywordSettings)
    """Which words count."""
    llm: LlmSettings = field(default_factory=LlmSettings)
    """How a chat model is asked."""

    def __post_init__(self) -> None:
        for name, choices in (("method", METHODS), ("mentions", get_args(Mentions))):
            value = getattr(self, name)
            if value not in choices:
                near = get_close_matches(str(value), choices, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                msg = f"{name} must be one of {', '.join(choices)}, got {value!r:.80}{hint}"
                raise ConfigError(msg)
        for name in ("top_n", "lookback"):
            if type(getattr(self, name)) is not int:
                msg = f"{name} must be a whole number, got {getattr(self, name)!r:.80}"
                raise ConfigError(msg)
        if isinstance(self.pinned, str) or not all(isinstance(name, str) for name in self.pinned):
            msg = f"pinned must be a list of names, got {self.pinned!r:.80}"
            raise ConfigError(msg)
        if self.floor is not None and not math.isfinite(self.floor):
            msg = f"floor must be None or finite, got {self.floor}"
            raise ConfigError(msg)
