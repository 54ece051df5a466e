"""`toolheads eval`, `compare` and `table` on a small data set, as a person runs them."""

from __future__ import annotations

import json

import pytest
from tests.hash_encoder import HashEncoder

from toolheads import facade
from toolheads.data import write_queries, write_tools
from toolheads.domain import Query, Tool
from toolheads.entrypoints.cli import main, scorers
from toolheads.evaluation.report_file import read_report
from toolheads.evaluation.trec import read_qrels, read_run
from toolheads.heads import Fusion, Head, Heads, HeadsHeader, Views, save_heads
from toolheads.heads.fusion import LexicalPart
from toolheads.identity import PROBE_TEXTS, Fingerprint
from toolheads.texts import TextSettings

SUBJECTS = ("invoice", "weather", "calendar", "ticket", "photo", "parcel")


@pytest.fixture
def data(tmp_path):
    """Two data sets of six tools, and a catalogue that nobody asks anything."""
    for name in ("shop", "office"):
        tools = [Tool(f"{name}/get {s}", f"get_{s}", name, f"Gets the {s}.") for s in SUBJECTS]
        queries = [
            Query(f"{name}-{i}", f"please get me the {s}", {f"{name}/get {s}": 1})
            for i, s in enumerate(SUBJECTS)
        ]
        queries += [
            Query(f"{name}-none", "sing me a song"),
            Query(f"{name}-val", "the invoice", {f"{name}/get invoice": 1}, split="val"),
        ]
        write_tools(tmp_path / "data" / name / "tools.jsonl", tools)
        write_queries(tmp_path / "data" / name / "queries.jsonl", queries)
    write_tools(tmp_path / "data" / "catalogue" / "tools.jsonl", [Tool("t", "t")])
    return tmp_path / "data"


@pytest.fixture
def encoder(monkeypatch):
    made = HashEncoder()
    for module in (scorers, facade):
        monkeypatch.setattr(module, "make_encoder", lambda settings: made)
    return made


def evaluated(data, out, *more):
    assert main(["eval", "--data", str(data), "--json", str(out), *more]) == 0
    return read_report(out)


def test_eval_writes_a_report_and_prints_a_table(data, tmp_path, capsys):
    report = evaluated(data, tmp_path / "bm25.json", "--scorer", "bm25")
    assert [(d.name, len(d.query_ids), d.without_relevant) for d in report.datasets] == [
        ("office", 6, 1),
        ("shop", 6, 1),
    ]
    assert report.macro.means["ndcg@10"] == 1.0
    said = capsys.readouterr()
    assert "| **macro average** |" in said.out
    assert "left out: catalogue" in said.err


def test_two_evaluations_give_equal_bytes(data, tmp_path):
    for name in ("one", "two"):
        evaluated(data, tmp_path / name, "--scorer", "bm25")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_rank_lists_come_out_as_trec_files_with_ids_intact(data, tmp_path):
    runs = tmp_path / "runs"
    evaluated(data, tmp_path / "r.json", "--scorer", "bm25", "--runs-out", str(runs))
    assert sorted(p.name for p in runs.iterdir()) == [
        "office.qrels", "office.run", "shop.qrels", "shop.run"
    ]  # fmt: skip
    assert read_run(runs / "shop.run")["shop-1"][0] == "shop/get weather"
    assert read_qrels(runs / "shop.qrels")["shop-1"] == {"shop/get weather": 1}


def test_settings_of_the_command_line_reach_the_report(data, tmp_path):
    report = evaluated(
        data / "shop", tmp_path / "r.json", "--scorer", "bm25", "--limit", "3", "--seed", "4",
        "-k", "20", "--metrics", "ndcg@3, mrr@2", "--split", "test",
    )  # fmt: skip
    assert (report.settings.limit, report.settings.seed, report.settings.k) == (3, 4, 20)
    assert report.settings.metrics == ("ndcg@3", "mrr@2")
    assert len(report.datasets[0].query_ids) == 3


def test_identity_heads_score_as_the_frozen_encoder(data, tmp_path, encoder):
    fingerprint = Fingerprint(encoder.identity, TextSettings())
    identity = Head.identity(encoder.identity.width)
    heads = Heads(
        identity,
        identity,
        HeadsHeader(fingerprint, training={"name": "same"}),
        encoder.encode(PROBE_TEXTS),
    )
    digest = save_heads(tmp_path / "same.npz", heads)
    cache = ("--cache", str(tmp_path / "cache"))
    dense = evaluated(data, tmp_path / "dense.json", "--scorer", "dense", *cache)
    clm = evaluated(
        data,
        tmp_path / "clm.json",
        "--scorer",
        "clm",
        "--heads",
        str(tmp_path / "same.npz"),
        *cache,
    )
    assert clm.macro.means == pytest.approx(dense.macro.means)
    assert clm.scorer.heads == "same"
    assert clm.scorer.heads_sha256 == digest
    assert dense.scorer.fingerprint == clm.scorer.fingerprint == fingerprint
    assert 1 <= clm.macro.means["length@adaptive"] <= 6


def test_views_of_the_frozen_encoder_are_recorded(data, tmp_path, encoder):
    report = evaluated(
        data, tmp_path / "r.json", "--scorer", "dense", "--tool-views", "text=0.5,name=0.5",
        "--query-views", "text=1,clause=0.5", "--cache", str(tmp_path / "cache"), "--margin", "0.1",
    )  # fmt: skip
    want = Views({"text": 0.5, "name": 0.5}, {"text": 1.0, "clause": 0.5}).to_json()
    assert report.scorer.parameters["views"] == want
    assert report.settings.cutoff is not None
    assert report.settings.cutoff.margin == 0.1


def test_parts_that_are_switched_off_are_recorded_and_named(data, tmp_path, encoder, capsys):
    fingerprint = Fingerprint(encoder.identity, TextSettings())
    identity = Head.identity(encoder.identity.width)
    views = Views({"text": 0.5, "name": 0.5}, {"text": 0.5, "clause": 0.5})
    header = HeadsHeader(fingerprint, views, training={"name": "full"})
    probe, fusion = encoder.encode(PROBE_TEXTS), Fusion(LexicalPart(0.5))
    heads = Heads(identity, identity, header, probe, fusion=fusion)
    save_heads(tmp_path / "h.npz", heads)
    words = ("--heads", str(tmp_path / "h.npz"), "--cache", str(tmp_path / "cache"))
    whole = evaluated(data, tmp_path / "whole.json", *words)
    assert whole.scorer.parameters["fusion"] == fusion.to_json()
    off = ("--without", "views,clauses,lexical")
    bare = evaluated(data, tmp_path / "bare.json", *words, *off)
    assert bare.scorer.parameters == {
        "views": Views().to_json(),
        "without": ["views", "clauses", "lexical"],
    }
    assert bare.scorer.label == "clm full without views, clauses, lexical"
    frozen = evaluated(
        data, tmp_path / "frozen.json", "--scorer", "dense", "--cache", str(tmp_path / "cache")
    )
    assert bare.macro.means == pytest.approx(frozen.macro.means)
    capsys.readouterr()
    for more, message in (
        (("--without", "words"), "without must name some of views, clauses, lexical, got 'words'"),
        (("--without", "hubness"), "without must name some of views, clauses, lexical, got 'hub"),
        (("--scorer", "bm25", "--without", "views"), "without must be left out for scorer bm25"),
    ):
        given = words if "bm25" not in more else ()
        assert main(["eval", "--data", str(data), *given, *more]) == 2
        assert message in capsys.readouterr().err


def test_hybrid_is_recorded_with_the_weight_of_its_words(data, tmp_path, encoder):
    identity = Head.identity(encoder.identity.width)
    header = HeadsHeader(Fingerprint(encoder.identity, TextSettings()), training={"name": "bare"})
    save_heads(tmp_path / "h.npz", Heads(identity, identity, header, encoder.encode(PROBE_TEXTS)))
    argv = ("--heads", str(tmp_path / "h.npz"), "--cache", str(tmp_path / "cache"))
    clm, hybrid = (
        evaluated(data, tmp_path / f"{name}.json", *argv, "--scorer", name)
        for name in ("clm", "hybrid")
    )
    assert "fusion" not in clm.scorer.parameters
    assert hybrid.scorer.name == "hybrid"
    assert hybrid.scorer.parameters["fusion"] == Fusion(LexicalPart(0.5)).to_json()
    assert hybrid.scorer.label == "hybrid bare"
    assert hybrid.macro.means["ndcg@10"] >= clm.macro.means["ndcg@10"]
    assert hybrid.settings.cutoff == clm.settings.cutoff


def test_compare_shows_each_set_and_the_macro_average(data, tmp_path, encoder, capsys):
    one, two = tmp_path / "bm25.json", tmp_path / "dense.json"
    evaluated(data, one, "--scorer", "bm25")
    evaluated(data, two, "--scorer", "dense", "--cache", str(tmp_path / "cache"))
    capsys.readouterr()
    assert main(["compare", str(one), str(two), "--paired", "--metric", "recall@5"]) == 0
    out = capsys.readouterr().out
    assert "A: bm25 (" in out
    assert "B: dense hash (" in out
    assert [line.split("|")[1].strip() for line in out.splitlines() if line.startswith("|")] == [
        "data set", "-" * 17, "office", "shop", "**macro average**"
    ]  # fmt: skip
    assert "Holm over 2 data sets" in out


def test_compare_refuses_reports_of_other_queries(data, tmp_path, capsys):
    evaluated(data, tmp_path / "all.json", "--scorer", "bm25")
    evaluated(data, tmp_path / "some.json", "--scorer", "bm25", "--limit", "2")
    assert main(["compare", str(tmp_path / "all.json"), str(tmp_path / "some.json")]) == 2
    assert "they differ in limit (None and 2); choice of queries" in capsys.readouterr().err


def test_table_puts_results_into_a_document(data, tmp_path, capsys):
    evaluated(data, tmp_path / "bm25.json", "--scorer", "bm25")
    document = tmp_path / "README.md"
    document.write_text("Results:\n<!-- results:main -->\n<!-- /results:main -->\nEnd.\n")
    command = ["table", str(tmp_path / "bm25.json"), "--label", "BM25", "--metric", "ndcg@10"]
    capsys.readouterr()
    assert main([*command, "--into", str(document), "--marker", "main"]) == 0
    text = document.read_text()
    assert "| **macro average** |      12 | **100.00** [100.0, 100.0] |" in text
    assert text.startswith("Results:\n<!-- results:main -->\nnDCG@10\n")
    assert text.endswith("\n<!-- /results:main -->\nEnd.\n")
    assert main([*command, "--into", str(document), "--marker", "main"]) == 0
    assert document.read_text() == text


def test_table_refuses_a_document_that_is_no_utf8(data, tmp_path, capsys):
    evaluated(data, tmp_path / "bm25.json", "--scorer", "bm25")
    (tmp_path / "README.md").write_bytes(b"caf\xe9")
    command = ["table", str(tmp_path / "bm25.json"), "--marker", "main"]
    assert main([*command, "--into", str(tmp_path / "README.md")]) == 2
    assert "README.md must be UTF-8, got byte 0xe9 at 3" in capsys.readouterr().err


def test_table_refuses_a_report_that_breaks_the_protocol(data, tmp_path, capsys):
    evaluated(data, tmp_path / "some.json", "--scorer", "bm25", "--limit", "2")
    capsys.readouterr()
    assert main(["table", str(tmp_path / "some.json")]) == 2
    said = capsys.readouterr()
    assert "some.json must follow the protocol: all queries, got limit 2" in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--scorer", "bm25", "--heads", "minilm"], "heads must be left out for scorer bm25"),
        (["--scorer", "bm25", "--margin", "0.1"], "margin must be left out for scorer bm25"),
        (["--scorer", "bm25", "--metrics", "f1@3"], "got 'f1@3'"),
        (["--scorer", "bm25", "-k", "5"], "k must be >= every cutoff of the metrics, 20, got 5"),
        (["--scorer", "bm25", "--split", "train"], "got none in 3"),
        (["--scorer", "clm", "--tool-views", "text=1"], "belongs to dense"),
        (["--scorer", "clm", "--budget", "100"], "budget must be left out for scorer clm"),
        (["--scorer", "bm25", "--threads", "1"], "belongs to clm, hybrid and dense"),
        (["--scorer", "bm25", "--k", "5"], "k must be >= every cutoff of the metrics, 20, got 5"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_exit_code_2(data, capsys, more, message):
    assert main(["eval", "--data", str(data), *more]) == 2
    said = capsys.readouterr().err.splitlines()
    assert message in said[-1]
    assert said[-1].startswith("toolheads: ")


def test_a_report_says_nothing_of_where_it_was_made(data, tmp_path):
    evaluated(data, tmp_path / "r.json", "--scorer", "bm25")
    assert str(tmp_path) not in (tmp_path / "r.json").read_text()
    assert json.loads((tmp_path / "r.json").read_text())["package"]
