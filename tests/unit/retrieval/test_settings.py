from __future__ import annotations

import json

import pytest
from tests.unit.retrieval.worlds import retriever_of

from toolheads.errors import ConfigError
from toolheads.retrieval import RetrieverSettings


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("lexical_k", 0, "whole number >= 1, got 0"),
        ("candidates", 1.5, "whole number >= 1, got 1.5"),
        ("cached_queries", -1, "whole number >= 0, got -1"),
        ("workers", True, "whole number >= 1, got True"),
        ("deadline_s", -0.1, "finite number >= 0, got -0.1"),
        ("retry_s", 0, "finite number > 0, got 0"),
        ("poll_s", float("nan"), "finite number > 0, got nan"),
        ("keep_rows_s", "long", "finite number >= 0, got 'long'"),
        ("cutoff", 0.3, "None or CutoffSettings, got 0.3"),
    ],
)
def test_a_setting_that_breaks_its_rule_is_refused(name, value, rule):
    with pytest.raises(ConfigError, match=f"^{name} must be (a )?{rule}"):
        RetrieverSettings(**{name: value})


def test_nothing_may_be_cached_or_remembered():
    settings = RetrieverSettings(cached_queries=0, cached_bytes=0, conversations=0, keep_rows_s=0)
    assert settings.cached_queries == 0


def test_a_status_is_json():
    with retriever_of() as retriever:
        said = json.loads(json.dumps(retriever.status().to_json()))
        assert said["mode"] == "dense"
        assert said["tools"] == 100
