"""Training, validation and held-out requests, each part later than the one before it.

What is learnt has to help with requests to come, so the held-out ones are the latest. A request
that was there before, or nearly was, is no new one: it is left out of the later part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from toolheads.arrays import Floats
from toolheads.data.leaks import REASONS, find_leaks
from toolheads.errors import ConfigError
from toolheads.usage.links import LinkedSearch
from toolheads.usage.requests import JudgedRequest, merge

PARTS = ("train", "validation", "held_out")
"""In the order of time."""

VectorsOf = Callable[[Sequence[str]], Floats]
"""n texts → (n, d) float32 embeddings."""


@dataclass(frozen=True)
class PartSettings:
    """How a log is split."""

    validation: float = 0.15
    """Share of the searches, the latest before the held-out ones, that choose the checkpoint."""
    held_out: float = 0.25
    """Share of the searches, the latest of all, that the new heads must prove themselves on."""
    gap_minutes: float = 30.0
    """A session that rests for longer is another visit when it goes on; visits are not split."""
    min_jaccard: float = 0.8
    """Shared words over all words from which a later request is no new one."""
    min_cosine: float = 0.97
    """Cosine of the frozen embeddings from which it is none either."""

    def __post_init__(self) -> None:
        rules = (
            ("validation", self.validation, 0 < self.validation < 1, "in (0, 1)"),
            ("held_out", self.held_out, 0 < self.held_out < 1, "in (0, 1)"),
            ("gap_minutes", self.gap_minutes, self.gap_minutes > 0, "> 0"),
            ("min_jaccard", self.min_jaccard, 0 < self.min_jaccard <= 1, "in (0, 1]"),
            ("min_cosine", self.min_cosine, -1 <= self.min_cosine <= 1, "in [-1, 1]"),
        )
        for name, value, holds, rule in rules:
            if not holds:
                msg = f"parts.{name} must be {rule}, got {value}"
                raise ConfigError(msg)
        if self.validation + self.held_out >= 1:
            msg = (
                "parts.validation and parts.held_out must leave something to train on, got "
                f"{self.validation} and {self.held_out}"
            )
            raise ConfigError(msg)


@dataclass(frozen=True)
class Parts:
    """Judged requests of each part, no text in two of them."""

    train: tuple[JudgedRequest, ...]
    validation: tuple[JudgedRequest, ...]
    held_out: tuple[JudgedRequest, ...]
    counts: dict[str, int]
    """What → how many, in requests or searches as it says."""


def split_by_time(
    searches: Sequence[LinkedSearch], settings: PartSettings, vectors: VectorsOf | None = None
) -> Parts:
    """Split a log.

    Visits go by their beginning into one part each. A visit that is still going on when the next
    part begins loses what came after that: every request of a part is later than every request
    of the parts before it.

    Args:
        searches: With text and at least one called tool, in the order of time.
        settings: Shares and bounds.
        vectors: Embeds texts, for `min_cosine`; None leaves that test out.
    """
    starts = _visit_starts(searches, timedelta(minutes=settings.gap_minutes))
    bounds = _bounds(starts, settings)
    placed: dict[str, list[LinkedSearch]] = {part: [] for part in PARTS}
    counts = {"searches of a visit that went on into the next part": 0}
    for one, start in zip(searches, starts, strict=True):
        number = _part_at(start, bounds)
        if _part_at(one.search.time, bounds) != number:
            counts["searches of a visit that went on into the next part"] += 1
        else:
            placed[PARTS[number]].append(one)
    counts["searches that repeat a request of their part"] = 0
    counts |= {f"requests seen before ({reason})": 0 for reason in REASONS}
    earlier: list[JudgedRequest] = []
    kept: dict[str, tuple[JudgedRequest, ...]] = {}
    for part in PARTS:
        merged = merge(placed[part])
        counts["searches that repeat a request of their part"] += len(placed[part]) - len(merged)
        kept[part] = _new(merged, earlier, settings, vectors, counts)
        earlier += merged
    counts |= {f"requests of part {part}": len(kept[part]) for part in PARTS}
    return Parts(**kept, counts=counts)


def _visit_starts(searches: Sequence[LinkedSearch], gap: timedelta) -> list[datetime]:
    """When the visit of each search began."""
    last: dict[str, tuple[datetime, datetime]] = {}  # session → (begin of its visit, last search)
    starts = []
    for one in searches:
        session, now = one.search.session, one.search.time
        start, before = last.get(session, (now, now))
        if now - before > gap:
            start = now
        last[session] = start, now
        starts.append(start)
    return starts


def _bounds(starts: Sequence[datetime], settings: PartSettings) -> tuple[datetime, ...]:
    """Where the second and the third part begin: at the beginning of a visit."""
    ordered = sorted(starts)
    if not ordered:
        return ()
    shares = (1 - settings.validation - settings.held_out, 1 - settings.held_out)
    return tuple(ordered[min(int(share * len(ordered)), len(ordered) - 1)] for share in shares)


def _part_at(time: datetime, bounds: tuple[datetime, ...]) -> int:
    return sum(time >= bound for bound in bounds)


def _new(
    requests: Sequence[JudgedRequest],
    earlier: Sequence[JudgedRequest],
    settings: PartSettings,
    vectors: VectorsOf | None,
    counts: dict[str, int],
) -> tuple[JudgedRequest, ...]:
    """The requests that no earlier one equals or nearly equals."""
    mine, theirs = [one.text for one in requests], [one.text for one in earlier]
    both = (vectors(mine), vectors(theirs)) if vectors and mine and theirs else None
    report = find_leaks(
        mine,
        theirs,
        min_jaccard=settings.min_jaccard,
        vectors=both,
        min_cosine=settings.min_cosine,
    )
    for reason, count in report.counts.items():
        counts[f"requests seen before ({reason})"] += count
    return tuple(requests[row] for row in report.kept.tolist())
