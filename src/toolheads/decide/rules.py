"""The rules of decisions, on arrays: a whole ranking in, what it comes to out.

Everything is decided on the whole ranking and cut last, and `shortlisted` is what the outcome was
read off, so that a short list can never say something else than the decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Floats, Ids
from toolheads.decide.settings import PickerSettings
from toolheads.decide.similarity import Similarity
from toolheads.domain import Tool
from toolheads.errors import ShapeError

Outcome = Literal["bind", "duplicate", "ambiguous", "absent"]


@dataclass(frozen=True)
class Ranking:
    """Tools by score, best first.

    Attributes:
        rows: (m,) int64. Their places in the catalogue.
        scores: (m,) float32, in units of `PickerSettings.score_unit`, never rising.
    """

    rows: Ids
    scores: Floats

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Verdict:
    """What a ranking comes to.

    Attributes:
        outcome: Of the decision.
        named: (p,) int64, places in the ranking that the decision names, rising, not cut.
        shortlisted: (s,) int64, places in the ranking that are worth a look, rising, not cut.
    """

    outcome: Outcome
    named: Ids
    shortlisted: Ids


def ranking(
    rows: Ids, scores: npt.ArrayLike, tools: Sequence[Tool], settings: PickerSettings
) -> Ranking:
    """Order tools by score, then by their server's hints, then by place in the catalogue.

    Hints come from the server that they speak for, so they order equal scores only among the
    tools of one server: these share the places that the server has in the tie.

    Args:
        rows: (m,) places in the catalogue, each once.
        scores: (m,) any real dtype. Compared in float32.
        tools: The catalogue.
        settings: With the unit of scores.

    Raises:
        ShapeError: If a score is not finite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        units = (np.asarray(scores, np.float64) / settings.score_unit).astype(np.float32)
    if units.shape != rows.shape:
        msg = f"scores must have shape {rows.shape}, one for each tool, got {units.shape}"
        raise ShapeError(msg)
    bad = np.flatnonzero(~np.isfinite(units))
    if bad.size:
        tool, score = tools[rows[bad[0]]], np.asarray(scores)[bad[0]]
        msg = f"scores must be finite, got {score} for tool {tool.id!r:.80}"
        raise ShapeError(msg)
    order = np.lexsort((rows, -units))
    rows, units = rows[order], units[order]
    edges = np.flatnonzero(np.diff(units) != 0) + 1
    bounds = np.concatenate([[0], edges, [len(rows)]])
    for at in np.flatnonzero(np.diff(bounds) > 1):
        tie = slice(bounds[at], bounds[at + 1])
        rows[tie] = _by_hints(rows[tie], tools)
    return Ranking(rows, units)


def server_codes(tools: Sequence[Tool]) -> Ids:
    """(n,) int64, equal for tools of one server. Tools of no server count as one server's."""
    codes: dict[str | None, int] = {}
    return np.array([codes.setdefault(tool.server, len(codes)) for tool in tools], np.int64)


def verdict(
    ranked: Ranking, servers: Ids, similarity: Similarity, settings: PickerSettings
) -> Verdict:
    """Decide what a whole ranking comes to.

    Args:
        ranked: All tools that are ranked.
        servers: (n,) `server_codes` of the catalogue.
        similarity: Of its tools.
        settings: The thresholds.
    """
    none = np.empty(0, np.int64)
    if not len(ranked):
        return Verdict("absent", none, none)
    leader = ranked.scores[0]
    floor, solo = np.float32(settings.similarity_floor), np.float32(settings.solo_floor)
    is_soloist = bool(leader < floor)
    if is_soloist and (leader < solo or (len(ranked) > 1 and ranked.scores[1] >= solo)):
        return Verdict("absent", none, none)
    twins = _twins(ranked, servers, similarity, np.float32(settings.duplicate_threshold))
    # A runner-up just under the floor is as likely as a leader just over it.
    is_tied = leader - ranked.scores < np.float32(settings.margin)
    is_tied[0] = True
    tied = np.flatnonzero(is_tied)
    if len(twins) == 1 and len(tied) == 1:
        return Verdict("bind", tied, tied)
    if is_soloist:  # it does not stand alone
        return Verdict("absent", none, none)
    worth = (ranked.scores >= floor) | is_tied
    worth[twins] = True
    shortlisted = np.flatnonzero(worth)
    if len(twins) > 1:
        return Verdict("duplicate", twins, shortlisted)
    return Verdict("ambiguous", tied, shortlisted)


def likeness_to_leader(ranked: Ranking, servers: Ids, similarity: Similarity) -> Floats:
    """Similarity of each ranked tool to the leader.

    Returns:
        (m,) float32; -2 for tools of other servers and for the leader itself.
    """
    alike = np.full(len(ranked), -2.0, np.float32)
    of_server = servers[ranked.rows] == servers[ranked.rows[0]]
    of_server[0] = False
    if of_server.any():
        alike[of_server] = similarity.to(int(ranked.rows[0]), ranked.rows[of_server])
    return alike


def _twins(ranked: Ranking, servers: Ids, similarity: Similarity, threshold: np.float32) -> Ids:
    """Places of the leader and its twins in the ranking."""
    is_twin = likeness_to_leader(ranked, servers, similarity) >= threshold
    is_twin[0] = True
    return np.flatnonzero(is_twin)


def _by_hints(rows: Ids, tools: Sequence[Tool]) -> Ids:
    """Rows of equal score, in order of the catalogue → each server's by its hints."""
    ordered = rows.copy()
    places: dict[str | None, list[int]] = {}
    for at, row in enumerate(rows):
        places.setdefault(tools[row].server, []).append(at)
    for of_server in places.values():
        if len(of_server) > 1:
            mates = rows[of_server]
            ordered[of_server] = sorted(mates, key=lambda row: (*_hints(tools[row]), row))
    return ordered


def _hints(tool: Tool) -> tuple[bool, bool, bool]:
    """Sorts a tool that claims to do less harm first; what is no hint counts as none."""
    given: Any = tool.extra.get("annotations")
    hints: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    return (
        hints.get("readOnlyHint") is not True,
        hints.get("destructiveHint") is not False,
        hints.get("idempotentHint") is not True,
    )
