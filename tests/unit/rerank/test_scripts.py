"""Requests in five scripts: what fits is found, and what does not is said, by words alone."""

from __future__ import annotations

import pytest
from benchmarks.rerank.scripts import METHODS, SCRIPTS, found

OF_EACH_SCRIPT = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
OF_EACH_METHOD = pytest.mark.parametrize("method", METHODS)


@OF_EACH_METHOD
@OF_EACH_SCRIPT
def test_a_request_finds_the_tool_that_is_described_in_its_script(script, method):
    assert found(script.tools, script.matching)[method] == script.wanted


@OF_EACH_METHOD
@OF_EACH_SCRIPT
def test_a_request_that_no_tool_does_is_told_so(script, method):
    assert found(script.tools, script.foreign)[method] is None


@OF_EACH_METHOD
@pytest.mark.parametrize("script", SCRIPTS[1:], ids=lambda script: script.name)
def test_a_request_in_another_script_than_the_tools_matches_none(script, method):
    assert found(SCRIPTS[0].tools, script.matching)[method] is None
