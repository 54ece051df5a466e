"""The cases of the original tool picker, where `TOOLHEADS_CONFORMANCE` names their folder.

Cases whose answer is another one here are named with it; docs/compatibility.md says why.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.decide.made import GivenScorer

from toolheads.decide import (
    Picker,
    PickerSettings,
    RowSimilarity,
    SelectionError,
    SettingError,
    read_tools_json,
)
from toolheads.decide.rules import ranking
from toolheads.domain import Tool
from toolheads.errors import DataError, ShapeError
from toolheads.texts import TextSettings, format_tool

FOLDER = os.environ.get("TOOLHEADS_CONFORMANCE")
FILE = Path(FOLDER or ".") / "tool_picker.json"

ERROR = "error"
CHANGED_DECISIONS: dict[str, Any] = {
    # (outcome, tools, shortlist)
    "decide-runner-below-floor": ("ambiguous", [0, 1], [0, 1]),
    "decide-straddle": ("ambiguous", [0, 1], [0, 1]),
    "decide-margin-exact": ("bind", [0], [0]),
    "decide-margin-zero-tie": ("bind", [0], [0]),
    "decide-dup-twin-below-floor": ("duplicate", [0, 1], [0, 1]),
    "decide-nan-score": ERROR,
    "decide-all-nan": ERROR,
    "decide-inf-score": ERROR,
    "decide-hint-read-only": ("ambiguous", [0, 1], [0, 1]),
    "decide-hint-binds-at-margin-0": ("bind", [0], [0]),
    "decide-hint-nondestructive": ("ambiguous", [0, 1], [0, 1]),
    "decide-hint-idempotent": ("ambiguous", [0, 1], [0, 1]),
    "resolve-twin-outside-window": ("duplicate", [0, 3], [0, 1, 2, 3]),
    "resolve-hint-outside-window": ("ambiguous", [0, 1, 2], [0, 1, 2, 3]),
    "resolve-shortlist1-contradicts": ("absent", [], []),
    "resolve-bind-but-shortlist-two": ("bind", [0], [0]),
    "resolve-copycat-hint": ("ambiguous", [0, 1], [0, 1]),
    "resolve-copycat-hint-margin0": ("bind", [0], [0]),
    "resolve-solo-single-tool": ("absent", [], []),
}
"""Case → what is decided here."""

SOLO_RULE_ON = {"resolve-shortlist1-contradicts", "decide-absent-default"}
"""Cases that are about the solo floor of the original's defaults."""


def _cases(*ops):
    if FOLDER is None:
        reason = "TOOLHEADS_CONFORMANCE must name the folder of the shared cases"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    cases = json.loads(FILE.read_text(encoding="utf-8"))["cases"]
    return [pytest.param(case, id=case["id"]) for case in cases if case["op"] in ops]


def _number(value):
    return float(value)


def _tools(case):
    return read_tools_json(json.dumps(case["tools"]))


def _settings(case):
    settings = PickerSettings.from_json(case.get("config") or {})
    return settings.changed(solo_floor=0.5) if case["id"] in SOLO_RULE_ON else settings


def _decided(case, tools, scores):
    rows = np.array(case["rows"], np.float32)
    picker = Picker(
        tools, GivenScorer(scores), _settings(case), similarity=lambda _: RowSimilarity(rows)
    )
    decision = picker.resolve("a need")
    place = {tool.id: at for at, tool in enumerate(tools)}

    def listed(limit):
        return [place[hit.tool_id] for hit in picker.shortlist("a need", limit)]

    named = [place[hit.tool_id] for hit in decision.hits]
    return (decision.outcome, named, listed(len(tools))), listed


@pytest.mark.parametrize("case", _cases("decide"))
def test_given_scores_are_decided_as_by_the_original_or_better(case, record_property):
    tools, scores = _tools(case), [_number(s) for s in case["scores"]]
    if case["id"] in CHANGED_DECISIONS:
        record_property("differs", case["id"])
    expected = case["expected"]
    same = (expected["outcome"], expected["tools"], expected["shortlist"])
    wanted = CHANGED_DECISIONS.get(case["id"], same)
    if wanted == ERROR:
        with pytest.raises(ShapeError, match="scores must be finite"):
            _decided(case, tools, scores)
        return
    assert _decided(case, tools, scores)[0] == wanted


@pytest.mark.parametrize("case", _cases("resolve"))
def test_needs_are_resolved_as_by_the_original_or_better(case, record_property):
    if case["id"] in CHANGED_DECISIONS:
        record_property("differs", case["id"])
    tools = _tools(case)
    query = np.array(case["query"], np.float32)
    scores = [float(np.array(row, np.float32) @ query) for row in case["rows"]]
    expected = case["expected"]
    found, listed = _decided(case, tools, scores)
    assert sorted(scores, reverse=True) == [score for _, score in expected["scores"]]
    changed = CHANGED_DECISIONS.get(case["id"])
    assert found == (
        changed or (expected["outcome"], expected["tools"], expected["shortlists"]["10"])
    )
    for limit, places in expected["shortlists"].items():
        assert listed(int(limit)) == (changed[2][: int(limit)] if changed else places)


@pytest.mark.parametrize("case", _cases("config"))
def test_settings_are_read_as_by_the_original_but_for_what_is_unknown(case, record_property):
    expected = case["expected"]
    if not expected.get("error") and (
        case["id"] == "config-unknown-field" or "solo_floor" not in json.loads(case["json"])
    ):
        record_property("differs", case["id"])
    if expected.get("error") or case["id"] == "config-unknown-field":
        with pytest.raises(SettingError) as error:
            PickerSettings.from_json(case["json"])
        assert expected.get("field") in (None, error.value.field)
        return
    given = json.loads(case["json"])
    read = PickerSettings.from_json(case["json"]).to_json()
    wanted = expected["ok"] if "solo_floor" in given else expected["ok"] | {"solo_floor": 1.0}
    assert {name: float(np.float32(read[name])) for name in wanted} == wanted


@pytest.mark.parametrize("case", _cases("enriched"))
def test_tools_are_written_as_by_the_original(case):
    given = case["tool"]
    schema = given.get("input_schema", given.get("inputSchema"))
    tool = Tool(
        "t",
        given["name"],
        given["server"],
        given["description"],
        schema if isinstance(schema, dict) else None,
    )
    written = format_tool(tool, TextSettings(tool_format="tool-sentence/v1"))
    assert written == case["expected"]["text"]


@pytest.mark.parametrize("case", _cases("parse_catalog"))
def test_catalogues_are_read_as_by_the_original(case):
    expected = case["expected"]
    if expected.get("error"):
        with pytest.raises(DataError):
            read_tools_json(case["json"])
        return
    sentence = TextSettings(tool_format="tool-sentence/v1")
    read = [
        {"id": list(tool.identity), "text": format_tool(tool, sentence)}
        for tool in read_tools_json(case["json"])
    ]
    assert read == expected["ok"]


@pytest.mark.parametrize("case", _cases("top_k"))
def test_tools_are_ordered_as_by_the_original(case, record_property):
    rows = np.array([[_number(x) for x in row] for row in case["rows"]], np.float32)
    query = np.array(case["query"], np.float32)
    if not len(rows) or not len(query):  # nothing to score: no scorer gives a list here
        assert case["expected"]["order"] == []
        return
    with np.errstate(invalid="ignore"):
        scores = rows @ query
    tools = [Tool(str(at), "x") for at in range(len(rows))]
    if case["id"] == "topk-nonfinite":
        record_property("differs", case["id"])
        with pytest.raises(ShapeError, match="scores must be finite, got nan for tool '0'"):
            ranking(np.arange(len(rows)), scores, tools, PickerSettings())
        return
    ranked = ranking(np.arange(len(rows)), scores, tools, PickerSettings())
    assert ranked.rows[: case["k"]].tolist() == case["expected"]["order"]


@pytest.mark.parametrize("case", _cases("near_duplicates"))
def test_near_duplicates_are_those_of_the_original(case):
    tools = _tools(case)
    rows = np.array(case["rows"], np.float32)
    settings = PickerSettings(duplicate_threshold=case["threshold"])
    picker = Picker(tools, GivenScorer([]), settings, similarity=lambda _: RowSimilarity(rows))
    identities = [tuple(one) for one in case["ids"]]
    if "missing" in case["expected"]:
        with pytest.raises(SelectionError) as error:
            picker.near_duplicates(identities)
        assert list(error.value.missing) == case["expected"]["missing"]
        return
    place = {tool.id: at for at, tool in enumerate(tools)}
    pairs = [
        [place[pair.first.id], place[pair.second.id], pair.similarity]
        for pair in picker.near_duplicates(identities)
    ]
    assert pairs == case["expected"]["pairs"]
