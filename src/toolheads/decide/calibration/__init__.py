"""Thresholds that are measured: fitted to one scorer on one kind of catalogue, kept with both."""

from toolheads.decide.calibration.file import (
    Calibration,
    Threshold,
    load_calibration,
    save_calibration,
)
from toolheads.decide.calibration.lists import ListCutoff, ListFigures
from toolheads.decide.calibration.match_floor import MatchFloor
from toolheads.decide.calibration.packaged import (
    KindsOfThresholds,
    packaged_settings,
    packaged_thresholds,
    read_kinds,
    save_kinds,
)
from toolheads.decide.calibration.run import (
    CalibrationSettings,
    Check,
    calibrate,
    check_calibration,
    episodes_of,
)
from toolheads.decide.calibration.subject import (
    CatalogueKind,
    subject_difference,
    subject_of,
    subject_of_vectors,
)
from toolheads.decide.calibration.thresholds import Trade

__all__ = [
    "Calibration",
    "CalibrationSettings",
    "CatalogueKind",
    "Check",
    "KindsOfThresholds",
    "ListCutoff",
    "ListFigures",
    "MatchFloor",
    "Threshold",
    "Trade",
    "calibrate",
    "check_calibration",
    "episodes_of",
    "load_calibration",
    "packaged_settings",
    "packaged_thresholds",
    "read_kinds",
    "save_calibration",
    "save_kinds",
    "subject_difference",
    "subject_of",
    "subject_of_vectors",
]
