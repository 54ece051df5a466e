"""What a run says of itself holds nothing of the machine that it ran on."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from toolheads_train.outcome.described import portable

pytestmark = pytest.mark.train


def test_a_portable_config_has_no_places_and_no_addresses():
    config = {
        "runs": "/home/me/runs",
        "model": {"store_dtype": "float32"},
        "data": {
            "root": ["/data"],
            "cache": "/tmp/c",
            "encoder": {"kind": "openai", "url": "http://host/v1"},
            "seed": 1,
        },
        "trainer": {"default_root_dir": "/home/me", "max_epochs": 3},
    }
    assert portable(config) == {
        "model": {"store_dtype": "float32"},
        "data": {"encoder": {"kind": "openai"}, "seed": 1},
        "trainer": {"max_epochs": 3},
    }
