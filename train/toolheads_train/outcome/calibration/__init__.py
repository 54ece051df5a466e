"""After training: share, views, words and cut-off, chosen on validation data.

`settings` is what is tried, `chosen` what comes out, `choosing` the order in which it is chosen,
`bench` how candidates are measured, `preference` which of them is taken.
"""

from toolheads_train.outcome.calibration.bench import cut_lengths, scaled
from toolheads_train.outcome.calibration.choosing import calibrate, check_views
from toolheads_train.outcome.calibration.chosen import (
    MACRO,
    Calibration,
    MarginPoint,
    Metrics,
    Serving,
    Step,
)
from toolheads_train.outcome.calibration.preference import best_of, choose_margin, preferred
from toolheads_train.outcome.calibration.settings import CalibrationSettings

__all__ = [
    "MACRO",
    "Calibration",
    "CalibrationSettings",
    "MarginPoint",
    "Metrics",
    "Serving",
    "Step",
    "best_of",
    "calibrate",
    "check_views",
    "choose_margin",
    "cut_lengths",
    "preferred",
    "scaled",
]
