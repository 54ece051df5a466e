"""What learning from a log came to: as JSON for programs, as text for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from toolheads_train.learn.decision import SHOWN, WHOLE, Comparison, Estimate


@dataclass
class LearnReport:
    """Filled as far as learning came; JSON types but for the comparison."""

    given: dict[str, str]
    """Name and sha256 of the heads that it started from."""
    log: dict[str, Any]
    """Digest, files, lines, damaged lines, searches, calls, searches by other heads."""
    settings: dict[str, Any]
    counts: dict[str, int] = field(default_factory=dict)
    """What of the log was used, what was left out and why → how many."""
    agreement: float | None = None
    """Share of the shown tools that the given heads show as well, chance taken off."""
    steps: int = 0
    """Optimiser steps that were taken."""
    best_step: int = 0
    """Step of the best validation; 0 are the given heads."""
    validation: dict[str, float] = field(default_factory=dict)
    """nDCG@10 of the shown tools in the validation part: `given` and `best`."""
    comparison: Comparison | None = None
    """Given and new heads on the held-out requests, as they are served."""
    margin: dict[str, float] = field(default_factory=dict)
    """Margin of the adaptive cut, `before` and `after`, and the mean `length` of a list."""
    promoted: bool = False
    reason: str = ""
    """Why the new heads were kept, or not."""

    def to_json(self) -> dict[str, Any]:
        """JSON types only; no time, path or host in it."""
        return asdict(self)

    def held_out_figures(self) -> dict[str, Any]:
        """What a heads file says of the comparison, JSON types only; empty where there was none."""
        found = self.comparison
        if found is None:
            return {}
        return {
            "requests": found.requests,
            **{
                name: {
                    "before": found.before[name].mean,
                    "after": found.after[name].mean,
                    "change": asdict(found.change[name]),
                    "p": found.p[name],
                }
                for name in (SHOWN, WHOLE)
            },
        }

    def to_text(self) -> str:
        """Several lines, the last says what was decided."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        log = self.log
        yield (
            f"log: {log['searches']} searches and {log['calls']} calls in {log['lines']} lines of "
            f"{log['files']} files, {log['damaged']} lines damaged"
        )
        if log["other_heads"]:
            yield f"     {log['other_heads']} searches were ranked by other heads than the given"
        yield from (f"  {count:>7}  {what}" for what, count in self.counts.items() if count)
        if self.agreement is not None:
            yield f"shown tools that the given heads show too, less chance: {self.agreement:.2f}"
        if self.validation:
            yield (
                "validation, nDCG@10 of the shown tools: given "
                f"{100 * self.validation['given']:.1f}, best {100 * self.validation['best']:.1f} "
                f"at step {self.best_step} of {self.steps}"
            )
        if self.comparison is not None:
            yield from _table(self.comparison)
        if self.margin:
            yield (
                f"margin of the cut: {self.margin['before']:g} before, {self.margin['after']:g} "
                f"after, for lists of {self.margin['length']:.1f} tools"
            )
        yield f"{'kept' if self.promoted else 'not kept'}: {self.reason}"


def _table(comparison: Comparison) -> Iterator[str]:
    yield f"held-out requests: {comparison.requests}, nDCG@10 with 95 % intervals"
    for name, what in ((SHOWN, "of the shown tools"), (WHOLE, "of all tools")):
        before, after = comparison.before[name], comparison.after[name]
        yield (
            f"  {what:<18} before {_shown(before)}  after {_shown(after)}  "
            f"change {_shown(comparison.change[name], sign='+')}  p = {comparison.p[name]:.4f}"
        )


def _shown(estimate: Estimate, sign: str = "") -> str:
    low, high = 100 * estimate.low, 100 * estimate.high
    return f"{100 * estimate.mean:{sign}.1f} [{low:{sign}.1f}, {high:{sign}.1f}]"
