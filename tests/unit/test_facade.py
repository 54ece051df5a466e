from __future__ import annotations

import dataclasses
import json
import runpy
from pathlib import Path

import pytest
from tests.hash_encoder import HashEncoder
from tests.made_heads import made_head, made_heads

import toolheads
from toolheads import facade
from toolheads.heads import Architecture, Head, digests

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "search.py"
D = 32


@pytest.fixture
def packaged(tmp_path, monkeypatch):
    """Heads called `minilm` for an encoder that needs no model, in place of the packaged ones."""
    embedder = toolheads.Embedder(HashEncoder(D))
    head = made_head(Architecture(D, hidden=(8,)), alpha=0.01)
    heads = made_heads(
        state=head,
        action=head,
        fingerprint=embedder.fingerprint,
        probe=embedder.probe(),
        training={"name": "minilm"},
    )
    sha256 = toolheads.save_heads(tmp_path / "minilm.npz", heads)
    index = {"minilm.npz": {"sha256": sha256, "description": ""}}
    (tmp_path / "index.json").write_text(json.dumps(index), encoding="utf-8")
    monkeypatch.setattr(digests, "packaged_folder", lambda: tmp_path)
    monkeypatch.setattr(facade, "make_encoder", lambda settings: HashEncoder(D))


@pytest.fixture
def tools(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tools = [
        toolheads.Tool("1", "book_flight", "travel", "Book a flight to a city."),
        toolheads.Tool("2", "send_mail", "mail", "Send a mail."),
        toolheads.Tool("3", "weather", "meteo", "The weather of today."),
    ]
    toolheads.write_tools("tools.jsonl", tools)
    return tools


@pytest.mark.usefixtures("packaged", "tools")
def test_the_documented_example_finds_tools(capsys):
    runpy.run_path(str(EXAMPLE))
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.endswith("travel/book_flight")


def test_the_document_shows_the_example_that_is_tested():
    shown = EXAMPLE.read_text(encoding="utf-8").partition("\n\n")[2]
    assert f"```python\n{shown}```" in (ROOT / "docs" / "python.md").read_text(encoding="utf-8")


def test_a_loaded_scorer_keeps_tool_vectors_in_the_cache_it_is_given(packaged, tools, tmp_path):
    encoder = HashEncoder(D)
    for _ in range(2):
        scorer = toolheads.load_scorer("minilm", encoder, cache=tmp_path / "cache")
        scorer.index(tools)
    assert sum("Book a flight" in text for text in encoder.sent) == 1


def test_heads_that_are_loaded_already_can_be_given(packaged, tools):
    heads = toolheads.load_heads("minilm")
    scorer = toolheads.load_scorer(heads, HashEncoder(D))
    scorer.index(tools)
    assert scorer.search("send a mail")[0].tool_id == "2"


def test_a_scorer_can_be_loaded_at_a_width_its_heads_were_trained_for(packaged, tools):
    heads = toolheads.load_heads("minilm")
    narrow = dataclasses.replace(heads, header=dataclasses.replace(heads.header, widths=(4,)))
    found = {}
    for width in (None, D, 4):
        scorer = toolheads.load_scorer(narrow, HashEncoder(D), width=width)
        scorer.index(tools)
        found[width] = [hit.score for hit in scorer.search("send a mail", k=3)]
    assert found[None] == found[D] != found[4]


def test_a_width_the_heads_were_not_trained_for_is_refused_in_one_line(packaged):
    with pytest.raises(toolheads.ConfigError, match="width must be one of 32 for heads 'minilm'"):
        toolheads.load_scorer("minilm", HashEncoder(D), width=16)


def test_heads_for_another_encoder_are_refused(packaged):
    with pytest.raises(toolheads.BackboneMismatchError, match="width 32 != 8"):
        toolheads.load_scorer("minilm", HashEncoder(8))


def test_the_encoder_is_cut_to_the_length_the_heads_were_trained_with(monkeypatch):
    asked = []

    def made(settings):
        asked.append(settings)
        return HashEncoder(8)

    monkeypatch.setattr(facade, "make_encoder", made)
    identity = Head.identity(8)
    with pytest.raises(toolheads.BackboneMismatchError):
        toolheads.load_scorer(made_heads(state=identity, action=identity))
    assert asked[0].truncation == 256


def test_what_is_said_of_the_encoder_counts_more_than_what_the_heads_say(monkeypatch):
    asked: list[toolheads.EncoderSettings] = []
    monkeypatch.setattr(facade, "make_encoder", asked.append)
    identity = Head.identity(8)
    heads = made_heads(state=identity, action=identity)
    facade.encoder_for(heads, kind="local", truncation=32, threads=None)
    assert [(s.kind, s.truncation, s.threads) for s in asked] == [("local", 32, 0)]
