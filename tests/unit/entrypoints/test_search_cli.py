from __future__ import annotations

import dataclasses
import json

import pytest
from tests.hash_encoder import HashEncoder
from tests.made_heads import made_head, made_heads

from toolheads import bootstrap, facade
from toolheads.data import write_tools
from toolheads.domain import Tool
from toolheads.embedder import Embedder
from toolheads.entrypoints.cli import main, scorers
from toolheads.heads import Architecture, Fusion, Views, load_heads, save_heads
from toolheads.heads.fusion import HubnessPart, LexicalPart

pytest.importorskip("tqdm", reason="the progress bar needs the extra [cache]")

D = 32
TOOLS = [
    Tool("1", "book_flight", "travel", "Book a flight to a city.\nAny airline. \x1b[31mRed."),
    Tool("2", "send_mail", "mail", "Send a mail. " + "Very long. " * 20),
    Tool("3", "weather", None, "The weather of today."),
]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for module in (scorers, facade):
        monkeypatch.setattr(module, "make_encoder", lambda settings: HashEncoder(D))
    write_tools("tools.jsonl", TOOLS)
    embedder = Embedder(HashEncoder(D))
    head = made_head(Architecture(D, hidden=(8,)), alpha=0.01)
    heads = made_heads(
        state=head, action=head, fingerprint=embedder.fingerprint, probe=embedder.probe()
    )
    save_heads("h.npz", heads)
    header = dataclasses.replace(heads.header, widths=(4,))
    save_heads("narrow.npz", dataclasses.replace(heads, header=header))
    return tmp_path


def run(capsys, *argv):
    code = main(["search", *argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


OF_EACH = pytest.mark.parametrize(
    "scorer",
    [
        ("--heads", "h.npz"),
        ("--scorer", "hybrid", "--heads", "h.npz"),
        ("--scorer", "dense"),
        ("--scorer", "bm25"),
    ],
    ids=str,
)


@OF_EACH
def test_the_tool_that_is_asked_for_comes_first(capsys, scorer):
    code, out, _ = run(capsys, "book a flight", "--tools", "tools.jsonl", "--json", *scorer)
    first, *_ = json.loads(out)
    assert (code, first["id"], first["server"]) == (0, "1", "travel")


def test_lines_are_short_and_hold_no_control_characters(capsys):
    _, out, _ = run(capsys, "flight", "--data", ".", "--heads", "h.npz", "-k", "3")
    lines = out.splitlines()
    assert len(lines) == 3
    assert all(line.isprintable() and len(line) <= 100 for line in lines)
    assert any("  weather  The weather" in line for line in lines)


def test_k_says_how_many_and_without_it_the_cutoff_does(capsys):
    argv = ("book a flight", "--data", ".", "--heads", "h.npz", "--json")
    assert len(json.loads(run(capsys, *argv, "-k", "2")[1])) == 2
    assert len(json.loads(run(capsys, *argv)[1])) == 1


def test_heads_are_searched_at_the_width_that_is_asked_for(capsys):
    argv = ("book a flight", "--data", ".", "--heads", "narrow.npz", "-k", "3", "--json")
    found = {
        width: [hit["score"] for hit in json.loads(run(capsys, *argv, *words)[1])]
        for width, words in ((None, ()), (4, ("--width", "4")), (D, ("--width", str(D))))
    }
    assert found[None] == found[D] != found[4]


def test_when_nothing_fits_it_says_so_beside_the_results(capsys):
    code, out, err = run(capsys, "zzz", "--data", ".", "--scorer", "bm25")
    assert (code, out, err) == (0, "", "no tool fits\n")


def test_heads_without_a_digest_need_an_explicit_word(capsys, folder):
    (folder / "h.npz.sha256").unlink()
    argv = ("flight", "--data", ".", "--heads", "h.npz")
    assert run(capsys, *argv)[0] == 2
    assert run(capsys, *argv, "--allow-unverified")[0] == 0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ((" ", "--data", "."), "text must have at least one character that is no space"),
        (("\udcff", "--data", "."), "text must be valid Unicode, got a lone surrogate"),
        (("x", "--data", ".", "-k", "0"), "k must be >= 1, got 0"),
        (("x", "--data", ".", "--k", "0"), "k must be >= 1, got 0"),
        (("x", "--data", "nowhere"), "a data set must be a folder with tools.jsonl, got no such"),
        (("x", "--tools", "nowhere"), "nowhere: the file does not exist"),
        (("x", "--tools", "h.npz"), "h.npz"),
        (("x", "--data", ".", "--heads", "nothing"), "heads must be one of the packaged ones"),
        (("x", "--data", ".", "--heads", "none.npz"), "none.npz must be a heads file"),
        (("x", "--data", ".", "--heads", "h.npz", "--sha256", ""), "must be a sha256 of 64 hex"),
        (("x", "--data", ".", "--scorer", "bm25", "--heads", "h.npz"), "heads must be left out"),
        (("x", "--data", ".", "--scorer", "bm25", "--url", "http://x"), "to clm, hybrid and dense"),
        (("x", "--data", ".", "--heads", "h.npz", "--instruction", "Do."), "it belongs to dense"),
        (
            ("x", "--data", ".", "--scorer", "dense", "--allow-unverified"),
            "it belongs to clm and hybrid",
        ),
        (("x", "--data", ".", "--scorer", "hybrid", "--tool-views", "text=1"), "belongs to dense"),
        (
            ("x", "--data", ".", "--scorer", "hybrid", "--without", "lexical"),
            "without lexical must be left out for scorer hybrid",
        ),
        (("x", "--data", ".", "--scorer", "dense", "--width", "4"), "width must be left out for"),
        (("x", "--data", ".", "--heads", "h.npz", "--width", "4"), "width must be one of 32 for"),
        (("x", "--data", ".", "--heads", "narrow.npz", "--width", "0"), "one of 4, 32 for heads"),
    ],
)
def test_bad_input_is_told_without_a_traceback(capsys, argv, message):
    code, out, err = run(capsys, *argv)
    assert (code, out) == (2, "")
    assert err.startswith("toolheads: ")
    assert message in err


def test_a_bad_line_is_named_with_file_and_line_and_can_be_left_out(capsys, folder, caplog):
    with (folder / "tools.jsonl").open("a") as file:
        file.write("{\n")
    argv = ("flight", "--data", ".", "--heads", "h.npz", "--json")
    code, _, err = run(capsys, *argv)
    assert code == 2
    assert "tools.jsonl:4: invalid JSON" in err
    code, out, _ = run(capsys, *argv, "--skip-bad")
    assert (code, json.loads(out)[0]["id"]) == (0, "1")
    assert "left out 1 of 4 lines" in caplog.text


def test_an_encoder_that_is_down_is_one_line(capsys, monkeypatch):
    pytest.importorskip("httpx", reason="needs the extra [openai]")
    monkeypatch.setattr(scorers, "make_encoder", bootstrap.make_encoder)
    monkeypatch.setattr("toolheads.encoders.openai.Patience.pause_s", lambda self, attempt: 0.0)
    server = ("--url", "http://127.0.0.1:9", "--model", "m")
    code, out, err = run(capsys, "flight", "--data", ".", "--scorer", "dense", *server)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "encoder 'm' at http://127.0.0.1:9/v1/embeddings cannot be reached" in err


def test_no_bar_is_shown_for_a_query(capsys, monkeypatch):
    monkeypatch.setattr("toolheads.entrypoints.cli.progress._AT_ONCE_S", 0)
    _, _, err = run(capsys, "flight", "--data", ".", "--heads", "h.npz")
    assert err.count("3/3") == 1, "the tools"
    assert "1/1" not in err


def test_heads_for_another_encoder_are_refused(capsys, monkeypatch):
    monkeypatch.setattr(facade, "make_encoder", lambda settings: HashEncoder(D, weights="new"))
    code, _, err = run(capsys, "x", "--data", ".", "--heads", "h.npz")
    assert code == 2
    assert "was made with other weights: its probe vectors must have a cosine" in err


def test_explain_says_what_each_score_is_made_of(capsys):
    heads = load_heads("h.npz")
    header = dataclasses.replace(heads.header, views=Views(query={"text": 0.5, "clause": 0.5}))
    fusion = Fusion(LexicalPart(0.5), HubnessPart(0.1))
    save_heads("fused.npz", dataclasses.replace(heads, header=header, fusion=fusion))
    argv = ("book a flight", "--data", ".", "--heads", "fused.npz", "-k", "1", "--explain")
    _, out, _ = run(capsys, *argv)
    first, *reasons = out.splitlines()
    assert "travel/book_flight" in first
    said = [line.split("  ")[-1] for line in reasons]
    assert said[:3] == [
        "whole request",
        "best clause: the whole request",
        "shared words: book (description), flight (description), book (name), flight (name)",
    ]
    (hit,) = json.loads(run(capsys, *argv, "--json")[1])
    parts = hit["parts"]
    total = sum(parts[name] for name in ("whole", "clause", "lexical", "hubness"))
    assert total == pytest.approx(hit["score"])
    assert {term["term"] for term in parts["terms"]} == {"book", "flight"}


def test_hybrid_mixes_words_in_though_the_heads_do_not(capsys):
    argv = ("flight", "--data", ".", "--heads", "h.npz", "-k", "3", "--json", "--explain")
    clm, hybrid = (
        {hit["id"]: hit for hit in json.loads(run(capsys, *argv, "--scorer", scorer)[1])}
        for scorer in ("clm", "hybrid")
    )
    assert clm["1"]["parts"]["lexical"] == 0
    assert hybrid["1"]["parts"]["lexical"] > 0
    assert hybrid["1"]["parts"]["whole"] == clm["1"]["parts"]["whole"]
    assert hybrid["3"]["score"] == clm["3"]["score"]  # shares no word with the request


def test_hybrid_takes_the_weight_that_the_heads_carry(capsys):
    heads = load_heads("h.npz")
    save_heads("worded.npz", dataclasses.replace(heads, fusion=Fusion(LexicalPart(0.3))))
    argv = ("flight", "--data", ".", "--heads", "worded.npz", "-k", "3", "--json")
    clm, hybrid = (run(capsys, *argv, "--scorer", scorer)[1] for scorer in ("clm", "hybrid"))
    assert hybrid == clm


def test_explain_belongs_to_scorers_over_vectors(capsys):
    code, _, err = run(capsys, "flight", "--data", ".", "--scorer", "bm25", "--explain")
    assert code == 2
    assert "explain must be left out for scorer bm25; it belongs to clm, hybrid and dense" in err
