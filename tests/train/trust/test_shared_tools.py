"""Tools of test sets that training has met: counted, kept in the heads, told by the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from tests.hash_encoder import HashEncoder  # noqa: E402
from tests.train.synthetic import HARMLESS  # noqa: E402
from tests.train.trust.made import WIDTH, enter, fit, queries, tools, write  # noqa: E402

from toolheads.data.shared import COUNTS  # noqa: E402
from toolheads.entrypoints import cli  # noqa: E402
from toolheads.entrypoints.cli import scorers  # noqa: E402
from toolheads_train.data.folders import FolderSettings, load_folders  # noqa: E402
from toolheads_train.data.selection import ValidationSettings  # noqa: E402

pytestmark = [pytest.mark.train, *(pytest.mark.filterwarnings(w) for w in HARMLESS)]

SENTENCE = "Tells how cold it is outside. Asks a station."


def renamed(rows, server):
    """The same tools on another server under other ids."""
    return [{**row, "id": f"{server}-{row['id']}", "server": server} for row in rows]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A training set of 12 tools, 6 of them asked for; a test set that has 4 of its tools (2 asked
    for), one that only a catalogue has, and one that no one else has."""
    enter(tmp_path, monkeypatch)
    monkeypatch.setattr(scorers, "encoder_for", lambda heads, **settings: HashEncoder(WIDTH))
    asked = [*queries(24, 6), *queries(6, 6, split="val", first=100)]
    write(tmp_path / "data" / "made", tools(12), asked)
    paired = {"id": "p", "server": "c", "name": "cold", "description": SENTENCE}
    bare = {"id": "b", "server": "c", "name": "bare", "description": ""}
    write(tmp_path / "data" / "catalogue", [paired, bare], [])
    (tmp_path / "data" / "catalogue" / "queries.jsonl").unlink()
    rows = renamed([*tools(8)[4:], paired, bare], "other")
    rows.append({"id": "new", "name": "new", "description": "Nobody has seen it before."})
    test = [
        {"id": f"test-{i}", "text": f"find me {row['id']}", "relevant": [row["id"]]}
        for i, row in enumerate(rows)
    ]
    test = [{**one, "split": "test"} for one in test]
    val = {"id": "val-1", "text": "look for number four", "relevant": ["other-t4"], "split": "val"}
    write(tmp_path / "data" / "other", rows, [*test, val])
    return tmp_path / "data"


def loaded(*, label_free):
    settings = FolderSettings(
        ("data",), cache=None, validation=ValidationSettings(min_queries=1), min_cosine=0.999
    )
    return load_folders(settings, seed=0, label_free=label_free)


def test_a_tool_is_met_as_a_negative_when_asked_for_or_as_a_label_free_pair(data):
    counts = loaded(label_free=False).shared["other"].to_json()
    # tools 4 to 7 are in the training set; 4 and 5 are asked for; the rest is not met
    assert [counts[name] for name in COUNTS] == [7, 4, 7, 4, 2]
    counts = loaded(label_free=True).shared["other"].to_json()
    # the tool with a sentence makes a pair; the one without a description makes none
    assert [counts[name] for name in COUNTS] == [7, 5, 7, 5, 2]


def test_the_report_of_heads_tells_what_training_has_met(data, capsys):
    assert fit(epochs=1) == 0
    words = ("eval", "--data", "data", "--cache", "cache", "--json", "report.json")
    assert cli.main([*words, "--scorer", "clm", "--heads", "runs/run/heads.npz"]) == 0
    report = json.loads(Path("report.json").read_text(encoding="utf-8"))
    (told,) = [one["in_training"] for one in report["datasets"] if one["name"] == "other"]
    assert [told[name] for name in COUNTS] == [7, 4, 7, 4, 2]
    printed = capsys.readouterr().out
    assert "relevant in training" in printed
    assert "2 / 4 / 7" in printed


def test_the_report_tells_nothing_of_other_queries_and_of_files_that_have_changed(data, capsys):
    assert fit(epochs=1) == 0
    heads = ("--scorer", "clm", "--heads", "runs/run/heads.npz", "--json", "report.json")
    assert cli.main(["eval", "--data", "data/other", "--split", "val", *heads]) == 0
    with (data / "other" / "tools.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"id": "later", "name": "later"}\n')
    assert "in_training" not in Path("report.json").read_text(encoding="utf-8")
    assert cli.main(["eval", "--data", "data/other", *heads]) == 0
    assert "in_training" not in Path("report.json").read_text(encoding="utf-8")
    assert "relevant in training" not in capsys.readouterr().out
