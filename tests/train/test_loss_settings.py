"""Rules of the loss settings that are off by default."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from toolheads.errors import ConfigError  # noqa: E402
from toolheads_train.settings import LossSettings  # noqa: E402

pytestmark = pytest.mark.train


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"refresh_steps": -1}, r"model\.loss\.refresh_steps must be >= 0, got -1"),
        ({"catalogue_sample": 0}, "catalogue_sample must be >= 1 or unset, got 0"),
        ({"same_tool_cosine": 1.5}, r"same_tool_cosine must be in \(0, 1\] or unset, got 1.5"),
        ({"popularity_correction": 2.0}, r"popularity_correction must be in \[0, 1\], got 2.0"),
        (
            {"popularity_correction": 1.0, "negatives": "catalogue"},
            "popularity_correction must be 0 where negatives are a catalogue",
        ),
        ({"same_side": -0.5}, "same_side must be >= 0 and finite, got -0.5"),
        ({"distance_penalty": float("inf")}, "distance_penalty must be >= 0 and finite, got inf"),
        ({"distil_weight": 0.0}, "distil_weight must be > 0 and finite, got 0.0"),
        ({"teacher_temperature": 0.0}, "teacher_temperature must be > 0 and finite, got 0.0"),
    ],
)
def test_a_loss_setting_that_breaks_its_rule_is_refused(settings, match):
    with pytest.raises(ConfigError, match=match):
        LossSettings(**settings)
