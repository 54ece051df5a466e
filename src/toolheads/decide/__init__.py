"""Which one tool of a catalogue does a need name, if any: typed answers, measured thresholds.

picker = Picker(tools, scorer)  # thresholds that come with packaged heads
picker = Picker(tools, scorer, load_calibration("calibration.json").settings(0.05))
match picker.resolve("cancel my booking"):
case Bind(hit): ...
case Duplicate(hits) | Ambiguous(hits): ...
case Absent(): ...
"""

from toolheads.decide.calibration import (
    Calibration,
    CalibrationSettings,
    KindsOfThresholds,
    calibrate,
    check_calibration,
    load_calibration,
    packaged_settings,
    packaged_thresholds,
    save_calibration,
)
from toolheads.decide.decisions import Absent, Ambiguous, Bind, Decision, Duplicate, Pair
from toolheads.decide.picker import Picker, SelectionError
from toolheads.decide.settings import PickerSettings, SettingError
from toolheads.decide.similarity import RowSimilarity, Similarity, WordSimilarity, by_embedding
from toolheads.decide.tools_json import read_tools_json

__all__ = [
    "Absent",
    "Ambiguous",
    "Bind",
    "Calibration",
    "CalibrationSettings",
    "Decision",
    "Duplicate",
    "KindsOfThresholds",
    "Pair",
    "Picker",
    "PickerSettings",
    "RowSimilarity",
    "SelectionError",
    "SettingError",
    "Similarity",
    "WordSimilarity",
    "by_embedding",
    "calibrate",
    "check_calibration",
    "load_calibration",
    "packaged_settings",
    "packaged_thresholds",
    "read_tools_json",
    "save_calibration",
]
