"""Thresholds that come with packaged heads: found by what a scorer is, never by its name."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolheads.decide.calibration.file import Calibration, parsed
from toolheads.decide.calibration.subject import CatalogueKind, subject_difference, subject_of
from toolheads.decide.settings import PickerSettings
from toolheads.domain import Tool
from toolheads.durable import write_whole
from toolheads.errors import CalibrationError
from toolheads.heads import PackagedHeads, packaged_heads
from toolheads.heads.digests import check_digest
from toolheads.ports import Scorer

FALSE_BINDS = 0.05
"""Share of false binds whose thresholds are taken unless told otherwise."""


@dataclass(frozen=True)
class KindsOfThresholds:
    """Calibrations of one scorer, each on another kind of catalogue."""

    calibrations: tuple[Calibration, ...]
    """At least one, all of one subject."""

    def __post_init__(self) -> None:
        for one in self.calibrations:
            one.check_subject(self.calibrations[0].subject)

    @property
    def subject(self) -> Mapping[str, Any]:
        """What shapes the scores, see `subject_of`."""
        return self.calibrations[0].subject

    def of(self, tools: Sequence[Tool]) -> Calibration:
        """The one whose kind is nearest to a catalogue.

        Raises:
            CalibrationError: If the catalogue is of none of the kinds, or empty.
        """
        if not tools:
            raise CalibrationError("tools must hold at least one tool, got none")
        kind = CatalogueKind.of([tools])
        fitting = [one for one in self.calibrations if not one.kind.difference(kind)]
        if not fitting:
            nearest = min(self.calibrations, key=lambda one: one.kind.distance(kind))
            msg = (
                "thresholds must be used on a kind of catalogue they were calibrated on, got "
                f"{nearest.kind.difference(kind)}; calibrate anew"
            )
            raise CalibrationError(msg)
        return min(fitting, key=lambda one: one.kind.distance(kind))


def save_kinds(path: str | os.PathLike[str], kinds: KindsOfThresholds) -> Path:
    """Write several calibrations as one file, whole or not at all.

    Returns:
        Its path.
    """
    content = {"kinds": [one.to_json() for one in kinds.calibrations]}
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    return write_whole(path, text.encode() + b"\n")


def read_kinds(entry: PackagedHeads) -> KindsOfThresholds | None:
    """The thresholds that come with packaged heads, checked against the index.

    Args:
        entry: Of the index of packaged heads.

    Returns:
        None if none come with them.

    Raises:
        DigestError: If the file is not the one that the index promises.
        CalibrationError: If it is missing or holds no calibrations.
    """
    if entry.thresholds_sha256 is None:
        return None
    name = str(entry.thresholds)
    try:
        raw = entry.thresholds.read_bytes()
    except OSError as e:
        msg = f"{name} must be there, got {e.strerror}; install the package anew"
        raise CalibrationError(msg) from e
    check_digest(raw, name, entry.thresholds_sha256)
    data = parsed(raw, name)
    listed = data.get("kinds") if isinstance(data, Mapping) else None
    if not isinstance(listed, list) or not listed:
        msg = f"{name} must list kinds of calibrations, got {data!r:.80}"
        raise CalibrationError(msg)
    return KindsOfThresholds(
        tuple(
            Calibration.from_json(one, name=f"{name}: kinds[{place}]")
            for place, one in enumerate(listed)
        )
    )


def packaged_thresholds(subject: Mapping[str, Any]) -> KindsOfThresholds | None:
    """The thresholds that come with packaged heads and were fitted to this subject.

    Args:
        subject: See `subject_of`.

    Returns:
        None if no packaged heads have some for it.

    Raises:
        DigestError: See `read_kinds`.
        CalibrationError: See `read_kinds`.
    """
    for entry in packaged_heads():
        kinds = read_kinds(entry)
        if kinds is not None and not subject_difference(kinds.subject, subject):
            return kinds
    return None


def packaged_settings(
    scorer: Scorer, tools: Sequence[Tool], false_binds: float = FALSE_BINDS
) -> PickerSettings | None:
    """Thresholds of decisions that come with a scorer, for a catalogue.

    Args:
        scorer: Any scorer.
        tools: The catalogue.
        false_binds: Share of false binds they are for.

    Returns:
        None if none come with the scorer, or the catalogue is empty.

    Raises:
        CalibrationError: If they were fitted to other kinds of catalogues, or not to this share.
        DigestError: See `packaged_thresholds`.
    """
    kinds = packaged_thresholds(subject_of(scorer)) if tools else None
    return None if kinds is None else kinds.of(tools).settings(false_binds)
