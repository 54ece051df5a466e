from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.unit.evaluation.builders import report

from toolheads.cutoff import CutoffSettings
from toolheads.data.shared import COUNTS
from toolheads.errors import DataError
from toolheads.evaluation.report import ScorerRecord, make_report
from toolheads.evaluation.report_file import read_report, report_text, write_report
from toolheads.evaluation.settings import EvaluationSettings
from toolheads.identity import EncoderIdentity, Fingerprint
from toolheads.texts import TextSettings

VALUES = {"one": [0.0, 1.0, 0.5], "two": [1.0]}


def full_report():
    fingerprint = Fingerprint(
        EncoderIdentity("model", "abc", "mean", 512, 384, "float32"),
        TextSettings(instruction="Given a request, find the tools:"),
    )
    scorer = ScorerRecord(
        "clm", heads="mine", heads_sha256="00" * 32, fingerprint=fingerprint, parameters={"x": 1}
    )
    settings = EvaluationSettings(
        limit=3, seed=7, metrics=("ndcg@10",), cutoff=CutoffSettings(threshold=0.1), resamples=20
    )
    return make_report(scorer, settings, report(VALUES, settings=settings).datasets)


@pytest.mark.parametrize("made", [report(VALUES), full_report()])
def test_a_report_is_read_back_equal(tmp_path, made):
    write_report(tmp_path / "new folder" / "report.json", made)
    again = read_report(tmp_path / "new folder" / "report.json")
    assert report_text(again) == report_text(made)
    assert (again.scorer, again.settings, again.macro) == (made.scorer, made.settings, made.macro)


def test_what_is_known_of_shared_tools_is_read_back(tmp_path):
    counts = dict(zip(COUNTS, (9, 4, 3, 2, 1), strict=True))
    made = report(VALUES)
    one, two = made.datasets
    known = replace(made, datasets=(replace(one, in_training=counts), two))
    write_report(tmp_path / "report.json", known)
    again = read_report(tmp_path / "report.json")
    assert [d.in_training for d in again.datasets] == [counts, None]
    assert "in_training" not in report_text(made)  # a report without heads has the bytes it had


@pytest.mark.parametrize("counts", [{}, {"tools": 1}, dict.fromkeys(COUNTS, 0.5)])
def test_counts_of_shared_tools_of_another_form_are_refused(path, counts):
    break_at(path, "datasets", 0, "in_training", to=counts)
    with pytest.raises(DataError, match="in_training of one must be whole numbers for tools, "):
        read_report(path)


def test_equal_runs_give_equal_bytes():
    assert report_text(full_report()) == report_text(full_report())


def test_the_averages_are_those_of_the_queries():
    made = report(VALUES)
    assert made.summaries["one"].means["ndcg@10"] == pytest.approx(0.5)
    assert made.macro.means["ndcg@10"] == pytest.approx((0.5 + 1.0) / 2)
    assert made.micro.means["ndcg@10"] == pytest.approx((0 + 1 + 0.5 + 1) / 4)


def test_every_setting_that_shapes_a_number_is_in_the_file():
    data = json.loads(report_text(full_report()))
    assert data["scorer"]["heads_sha256"] == "00" * 32
    assert data["scorer"]["fingerprint"]["texts"]["instruction"].startswith("Given")
    assert data["scorer"]["fingerprint"]["texts"]["tool_format"] == "tool/v1"
    assert set(data["settings"]) == {
        "split", "limit", "seed", "k", "metrics", "cutoff", "skip_bad", "confidence", "resamples"
    }  # fmt: skip
    assert data["settings"]["cutoff"]["threshold"] == 0.1
    assert data["datasets"][0]["digest"] == {"queries.jsonl": "ab" * 32, "tools.jsonl": "cd" * 32}
    assert {"package", "metrics_version", "machine", "version"} <= set(data)


def test_the_machine_is_told_by_kind_and_not_by_name():
    assert set(report(VALUES).machine) == {"cpu", "cpus", "system", "python", "numpy"}


def break_at(path, *keys, to):
    """Change one value of a report file."""
    data = json.loads(path.read_text())
    place = data
    for key in keys[:-1]:
        place = place[key]
    if to is None:
        del place[keys[-1]]
    else:
        place[keys[-1]] = to
    path.write_text(json.dumps(data))


@pytest.fixture
def path(tmp_path):
    write_report(tmp_path / "report.json", full_report())
    return tmp_path / "report.json"


@pytest.mark.parametrize(
    ("keys", "to", "message"),
    [
        (["format"], "something", "it must be a toolheads evaluation report, got another file"),
        (["format"], None, "got another file"),
        (["version"], 2, "it must have report version 1, got 2"),
        (["settings"], None, "settings must be dict, got nothing"),
        (["settings", "k"], "100", "k must be a whole number >= 1, got '100'"),
        (["settings", "split"], 3, "split must be a str, got 3"),
        (["settings", "new"], 1, "settings must have the fields"),
        (["settings", "metrics"], [1], "metrics must be names"),
        (["settings", "metrics"], ["f1@2"], "a metric must be KIND@K"),
        (["settings", "cutoff"], {"margin": 1}, "cutoff must have the fields"),
        (["settings", "limit"], True, "limit must be a whole number >= 1, got True"),
        (["scorer", "name"], 5, "name must be str, got int"),
        (["scorer", "heads"], 5, r"heads must be str \| None, got int"),
        (["scorer", "fingerprint"], {"encoder": 1}, "a fingerprint must have"),
        (["datasets"], [], "datasets must have one name each, at least one"),
        (["datasets"], [5], "a data set must be an object, got int"),
        (["datasets", 1, "name"], "one", "datasets must have one name each"),
        (["datasets", 0, "tools"], True, "tools must be int, got bool"),
        (["datasets", 0, "digest", "tools.jsonl"], 1, "digest of one must map"),
        (["datasets", 0, "query_ids"], ["q0", "q0", "q2"], "query_ids of one must be texts, each"),
        (["datasets", 0, "query_ids"], ["q0"], "values of one, ndcg@10, must be 1 finite numbers"),
        (["datasets", 0, "values", "ndcg@10"], [0, 1, "a"], "must be 3 finite numbers"),
        (["datasets", 0, "values", "ndcg@10"], [0, 1, 10**400], "must be 3 finite numbers"),
        (["datasets", 0, "values", "ndcg@10"], None, "not so: .'ndcg@10'."),
        (["datasets", 0, "values", "ndcg@10"], [0, 1, 0.6], "of one must be the mean of its val"),
        (["macro", "means", "ndcg@10"], 0.99, "ndcg@10 of macro must be the mean of its values"),
        (["micro", "means", "ndcg@10"], None, "ndcg@10 of micro must be the mean of its values"),
        (["macro", "intervals", "ndcg@10"], [1, 0], "the interval of ndcg@10 of macro must be two"),
        (["macro", "intervals", "ndcg@10"], 5, "must be two ends, got 5"),
    ],
)
def test_a_changed_report_is_refused_in_one_line(path, keys, to, message):
    break_at(path, *keys, to=to)
    with pytest.raises(DataError, match=rf"report.json cannot be used: .*{message}") as e:
        read_report(path)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b'{"format": NaN}',
        b'{"format": Infinity}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"format": "toolheads eval',
    ],
)
def test_a_file_that_is_no_json_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "report.json").write_bytes(content)
    with pytest.raises(DataError, match=r"report.json must be a report in JSON, got ") as e:
        read_report(tmp_path / "report.json")
    assert "\n" not in str(e.value)


def test_a_missing_report_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nothing.json must be a report, got what cannot be read"):
        read_report(tmp_path / "nothing.json")


@pytest.mark.parametrize("content", [b"[]", b"5", b"null", b'"text"', b"{}"])
def test_another_json_file_is_refused(tmp_path, content):
    (tmp_path / "report.json").write_bytes(content)
    with pytest.raises(DataError, match="must be a toolheads evaluation report, got another file"):
        read_report(tmp_path / "report.json")


def test_a_report_that_was_cut_off_is_refused(path):
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match="must be a report in JSON"):
        read_report(path)
