"""What a log and new heads must pass, and the one line that says why the given heads stay."""

from __future__ import annotations

import math

from toolheads.errors import DataError, ToolheadsError
from toolheads.usage import Parts, UsageLog
from toolheads.usage.parts import PARTS
from toolheads_train.learn.decision import SHOWN, WHOLE
from toolheads_train.learn.report import LearnReport
from toolheads_train.learn.settings import LearnSettings


class NotKeptError(ToolheadsError):
    """Nothing better than the given heads came out; the message says why in one line."""


NO_TEXTS = (
    "a usage log must have the texts of requests to be learnt from, got digests alone; let the "
    "server keep texts"
)
"""Of a log that nothing can be learnt from, whoever notices."""


def check_log(log: UsageLog, settings: LearnSettings) -> None:
    """Refuse a log that is damaged, or that holds no texts.

    Raises:
        NotKeptError: If it is.
    """
    try:
        log.check(settings.max_bad_share)
    except DataError as e:
        first = e.faults[0] if e.faults else ""
        msg = f"{str(e).splitlines()[0]}, the first {first}"
        raise NotKeptError(msg) from e
    if log.searches and not log.has_texts:
        raise NotKeptError(NO_TEXTS)


def check_sizes(parts: Parts, settings: LearnSettings) -> None:
    """Refuse parts that are too small for a test to say anything about them.

    Raises:
        NotKeptError: If one is.
    """
    sizes = {part: len(getattr(parts, part)) for part in PARTS}
    if all(sizes[part] >= settings.least(part) for part in PARTS):
        return
    there = ", ".join(f"{sizes[part]} {part.replace('_', '-')}" for part in PARTS)
    needed = ", ".join(f"{settings.least(part)}" for part in PARTS)
    msg = (
        f"a log must have at least {settings.min_requests} different requests that a successful "
        f"call followed ({needed} in its three parts), got {sum(sizes.values())}: {there}"
    )
    raise NotKeptError(msg)


def verdict(report: LearnReport, settings: LearnSettings) -> str:
    """Why the heads are kept.

    Raises:
        NotKeptError: If they are not.
    """
    found = report.comparison
    if found is None:
        msg = "heads must be compared before they are judged"
        raise RuntimeError(msg)
    what = (
        f"nDCG@10 of the shown tools {100 * found.gain:+.1f} on {found.requests} held-out "
        f"requests, p = {found.p[SHOWN]:.4f}"
    )
    whole = found.change[WHOLE].mean
    if whole < -settings.max_whole_loss:
        msg = (
            "new heads must not lose the called tools among all tools, nDCG@10 >= "
            f"{-100 * settings.max_whole_loss:+g}, got {100 * whole:+.1f} on {found.requests} "
            "held-out requests"
        )
        raise NotKeptError(msg)
    if found.gain > 0 and found.p[SHOWN] < settings.alpha:
        return what
    msg = (
        "new heads must beat the given ones on the held-out requests with p < "
        f"{settings.alpha:g}, got {what}"
    )
    if found.needed is not None and found.needed > found.requests:
        log = math.ceil(found.needed / settings.parts.held_out)
        msg += (
            f"; to show a gain of this size takes about {found.needed} held-out requests, a log "
            f"of {log}"
        )
    raise NotKeptError(msg)
