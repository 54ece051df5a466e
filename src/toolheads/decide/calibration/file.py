"""Calibrations: thresholds with what they were measured on, as JSON files that are checked."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from toolheads.cutoff import CutoffSettings
from toolheads.decide.calibration.lists import ListCutoff
from toolheads.decide.calibration.match_floor import MatchFloor
from toolheads.decide.calibration.subject import CatalogueKind, subject_difference, subject_of
from toolheads.decide.calibration.thresholds import Trade
from toolheads.decide.settings import PickerSettings
from toolheads.domain import Tool
from toolheads.durable import write_whole
from toolheads.errors import CalibrationError, ConfigError
from toolheads.ports import Scorer

FORMAT = 2
"""Version of the file. Raise it when a field is added or changes its meaning."""

_LARGEST_FILE = 4 << 20


@dataclass(frozen=True)
class Threshold:
    """Settings for one share of false binds."""

    target: float
    """Most false binds that were asked for."""
    settings: PickerSettings
    trade: Trade
    """What they give on the queries of the fit."""


@dataclass(frozen=True)
class Calibration:
    """Thresholds that were fitted to one scorer on one kind of catalogue.

    Attributes:
        subject: What shapes the scorer's scores, see `subject_of`.
        kind: Of the catalogues.
        thresholds: By rising share of false binds, at least one.
        lists: Cut-offs of ranked lists by rising alpha; there may be none.
        floors: Scores below which nothing matches, by rising alpha; there may be none.
        auroc: Chance that a query with a right tool has a better leader than one without.
        data: Data set → file → sha256 of what it was fitted on; and how, JSON types.
    """

    subject: Mapping[str, Any]
    kind: CatalogueKind
    thresholds: tuple[Threshold, ...]
    lists: tuple[ListCutoff, ...]
    floors: tuple[MatchFloor, ...]
    auroc: float
    data: Mapping[str, Any]

    @property
    def targets(self) -> tuple[float, ...]:
        """Shares of false binds there are thresholds for, rising."""
        return tuple(threshold.target for threshold in self.thresholds)

    def settings(self, false_binds: float = 0.05) -> PickerSettings:
        """Thresholds for a share of false binds.

        Raises:
            CalibrationError: If there are none for it.
        """
        for threshold in self.thresholds:
            if threshold.target == false_binds:
                return threshold.settings
        known = ", ".join(f"{target:g}" for target in self.targets)
        msg = f"false_binds must be one of {known} of this calibration, got {false_binds!r:.80}"
        raise CalibrationError(msg)

    def cutoff(self, alpha: float = 0.1) -> CutoffSettings:
        """Cut-off of a ranked list that misses at most a share alpha of relevant tools.

        Raises:
            CalibrationError: If there is none for alpha.
        """
        for fitted in self.lists:
            if fitted.alpha == alpha:
                return fitted.settings
        known = ", ".join(f"{fitted.alpha:g}" for fitted in self.lists) or "none"
        msg = f"alpha must be one of {known} of this calibration, got {alpha!r:.80}"
        raise CalibrationError(msg)

    def match_floor(self, alpha: float | None = None) -> MatchFloor:
        """The score below which nothing matches, for a share alpha of mistakes.

        Args:
            alpha: One of those that were fitted; None takes the smallest.

        Raises:
            CalibrationError: If there is none for alpha.
        """
        for floor in self.floors:
            if alpha in (None, floor.alpha):
                return floor
        known = ", ".join(f"{floor.alpha:g}" for floor in self.floors) or "none"
        msg = f"alpha must be one of {known} of this calibration, got {alpha!r:.80}"
        raise CalibrationError(msg)

    def check(self, scorer: Scorer, tools: Sequence[Tool]) -> None:
        """Refuse a scorer or a catalogue that the thresholds were not measured on.

        Raises:
            CalibrationError: If encoder, heads, texts or kind of catalogue are others.
        """
        self.check_subject(subject_of(scorer))
        if tools and (difference := self.kind.difference(CatalogueKind.of([tools]))):
            msg = (
                f"thresholds must be used on the kind of catalogue they were calibrated on, "
                f"got {difference}; calibrate anew"
            )
            raise CalibrationError(msg)

    def check_subject(self, subject: Mapping[str, Any]) -> None:
        """Refuse what is not the scorer that the thresholds were measured on.

        Args:
            subject: See `subject_of`.

        Raises:
            CalibrationError: If encoder, heads or texts are others.
        """
        if difference := subject_difference(self.subject, subject):
            msg = (
                f"thresholds must be used with the scorer they were calibrated on, "
                f"got {difference}; calibrate anew"
            )
            raise CalibrationError(msg)

    def to_json(self) -> dict[str, Any]:
        """JSON types only, with the sha256 over all of it; `from_json` reads it back."""
        content: dict[str, Any] = {
            "format": FORMAT,
            "subject": dict(self.subject),
            "kind": self.kind.to_json(),
            "thresholds": [
                {
                    "target": threshold.target,
                    "settings": threshold.settings.to_json(),
                    "trade": threshold.trade.to_json(),
                }
                for threshold in self.thresholds
            ],
            "lists": [fitted.to_json() for fitted in self.lists],
            "floors": [floor.to_json() for floor in self.floors],
            "auroc": self.auroc,
            "data": dict(self.data),
        }
        return content | {"sha256": _sha256(content)}

    @classmethod
    def from_json(cls, data: object, *, name: str = "calibration") -> Calibration:
        """Read what `to_json` wrote.

        Args:
            data: The object.
            name: What errors call it.

        Raises:
            CalibrationError: If it was changed, is of another format, or breaks a rule.
        """
        if not isinstance(data, Mapping):
            msg = f"{name} must be a JSON object, got {data!r:.80}"
            raise CalibrationError(msg)
        if data.get("format") != FORMAT:
            msg = f"{name} must have format {FORMAT}, got {data.get('format')!r:.80}"
            raise CalibrationError(msg)
        content = {key: value for key, value in data.items() if key != "sha256"}
        digest = _sha256(content)
        if data.get("sha256") != digest:
            msg = (
                f"{name} must have the sha256 that it says, got {digest[:12]}… over its content "
                f"and {data.get('sha256')!r:.14}; it was changed after it was made"
            )
            raise CalibrationError(msg)
        try:
            thresholds = tuple(
                Threshold(
                    float(one["target"]),
                    PickerSettings.from_json(one["settings"]),
                    Trade(**one["trade"]),
                )
                for one in data["thresholds"]
            )
            return cls(
                subject=dict(data["subject"]),
                kind=CatalogueKind.from_json(data["kind"]),
                thresholds=thresholds,
                lists=tuple(ListCutoff.from_json(one) for one in data["lists"]),
                floors=tuple(MatchFloor(**one) for one in data["floors"]),
                auroc=float(data["auroc"]),
                data=dict(data["data"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, ConfigError) as e:
            msg = f"{name} must have the fields of format {FORMAT}, got {e}"
            raise CalibrationError(msg) from e


def save_calibration(path: str | os.PathLike[str], calibration: Calibration) -> Path:
    """Write a calibration file, whole or not at all.

    Returns:
        Its path.
    """
    text = json.dumps(calibration.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
    return write_whole(path, text.encode() + b"\n")


def load_calibration(path: str | os.PathLike[str]) -> Calibration:
    """Read a calibration file and check that it is as it was written.

    Raises:
        CalibrationError: If it is missing, was changed, or is no calibration.
    """
    file = Path(path)
    try:
        with file.open("rb") as opened:
            raw = opened.read(_LARGEST_FILE + 1)
    except OSError as e:
        msg = f"{file} must be a calibration file, got: {e.strerror or e}"
        raise CalibrationError(msg) from e
    return Calibration.from_json(parsed(raw, str(file)), name=str(file))


def parsed(raw: bytes, name: str) -> object:
    """The JSON that a file of calibrations holds.

    Args:
        raw: Its content.
        name: What errors call it.

    Raises:
        CalibrationError: If it is none, or too large.
    """
    if len(raw) > _LARGEST_FILE:
        msg = f"{name} must have at most {_LARGEST_FILE} bytes, got more"
        raise CalibrationError(msg)
    try:
        read: object = json.loads(raw.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as e:
        msg = f"{name} must be JSON, got: {e}"
        raise CalibrationError(msg) from e
    return read


def _sha256(content: Mapping[str, Any]) -> str:
    try:
        canonical = json.dumps(content, sort_keys=True, ensure_ascii=True, allow_nan=False)
    except (ValueError, RecursionError) as e:
        msg = f"a calibration must hold finite numbers only, got {e}"
        raise CalibrationError(msg) from e
    return hashlib.sha256(canonical.encode()).hexdigest()


def _no_constant(name: str) -> NoReturn:
    msg = f"{name} is no JSON number"
    raise ValueError(msg)
