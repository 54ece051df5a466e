"""At which sizes a catalogue is shown in another way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from toolheads.errors import ConfigError


@dataclass(frozen=True)
class PlanSettings:
    """Thresholds of a plan. The defaults are those of one study over generated tools."""

    retrieve_from: int = 32
    """From so many tools on only the best of them are shown, >= 1."""
    two_stage_from: int = 64
    """From so many tools on the model picks from a menu first, >= 1."""
    context_share: float = 0.5
    """The part of the context that tools may take, in (0, 1]."""
    menu_tools: int = 64
    """Most tools of a menu that is retrieved, >= 1; a menu of the whole catalogue may be longer."""
    menu_description_chars: int = 200
    """Most characters that a menu line has of a description, >= 1."""

    def __post_init__(self) -> None:
        for name in ("retrieve_from", "two_stage_from", "menu_tools", "menu_description_chars"):
            check_count(getattr(self, name), name)
        share: Any = self.context_share
        is_number = isinstance(share, (int, float)) and not isinstance(share, bool)
        if not is_number or not math.isfinite(share) or not 0 < share <= 1:
            msg = f"context_share must be in (0, 1], got {share!r}"
            raise ConfigError(msg)

    def limit(self, context_tokens: int | None, budget_tokens: int | None) -> float | None:
        """The most tokens that tools may take; None without a context and without a budget.

        A context or a budget of 0 counts as not given.
        """
        limits = [
            *([self.context_share * context_tokens] if context_tokens else []),
            *([budget_tokens] if budget_tokens else []),
        ]
        return min(limits, default=None)


def check_count(value: object, name: str, *, least: int = 1) -> int:
    """A whole number, checked.

    Raises:
        ConfigError: If it is none, or below `least`.
    """
    if type(value) is not int or value < least:
        msg = f"{name} must be a whole number >= {least}, got {value!r:.80}"
        raise ConfigError(msg)
    return value


DEFAULT_SETTINGS = PlanSettings()
