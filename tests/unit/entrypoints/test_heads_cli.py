from __future__ import annotations

import dataclasses
import hashlib
import json

import numpy as np
import pytest
from tests.made_heads import ALL_VIEWS, PLAIN, made_head, made_heads

from toolheads.entrypoints.cli import main
from toolheads.heads import Fusion, digests, load_heads, save_heads
from toolheads.heads import download as downloading
from toolheads.heads.fusion import HubnessPart, LexicalPart


@pytest.fixture
def packaged(tmp_path, monkeypatch):
    folder = tmp_path / "packaged"
    heads = made_heads(views=ALL_VIEWS, training={"name": "small", "seed": 3, "note": "A note."})
    sha256 = save_heads(folder / "small.npz", heads)
    index = {"small.npz": {"sha256": sha256, "description": "For tests."}}
    (folder / "index.json").write_text(json.dumps(index), encoding="utf-8")
    monkeypatch.setattr(digests, "packaged_folder", lambda: folder)
    monkeypatch.chdir(tmp_path)
    return folder


def run(capsys, *argv):
    code = main(["heads", *map(str, argv)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_list_names_the_packaged_heads(packaged, capsys):
    code, out, _ = run(capsys, "list")
    assert (code, out.split()[0]) == (0, "small")
    assert "For tests." in out
    (entry,) = json.loads(run(capsys, "list", "--json")[1])
    assert entry["sha256"] == load_heads("small").sha256


def test_list_of_nothing_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(digests, "packaged_folder", lambda: tmp_path)
    assert run(capsys, "list") == (0, "", "no heads are packaged with this installation\n")


def test_show_prints_what_the_heads_are_for(packaged, capsys):
    code, out, _ = run(capsys, "show", "small")
    assert code == 0
    for part in ("made, 8-d, mean, 256 tokens", "8 → 6 → 5 → 8, gelu, LayerNorm", "clause 0.3"):
        assert part in out
    assert "training: note   A note." in out


def test_show_prints_the_widths_that_are_served_and_what_is_centred(tmp_path, capsys):
    state = dataclasses.replace(made_head(PLAIN), centre=np.ones(8, np.float32))
    save_heads(tmp_path / "h.npz", made_heads(state=state, widths=(2, 4)))
    _, out, _ = run(capsys, "show", tmp_path / "h.npz")
    rows = {line[:16].strip(): line[17:] for line in out.splitlines()}
    assert (rows["widths"], rows["centre"]) == ("2, 4, 8", "state")


def test_show_prints_what_is_mixed_into_the_scores(tmp_path, capsys):
    fusion = Fusion(LexicalPart(0.5), HubnessPart(0.1), 0.05)
    for name, given, said in (
        ("plain", None, "none"),
        (
            "fused",
            fusion,
            "shared words 0.5 (name 1, server 0.5, description 1, parameters 0.35) · "
            "hubness 0.1 (10 neighbours) · clause temperature 0.05",
        ),
    ):
        save_heads(tmp_path / f"{name}.npz", made_heads(fusion=given))
        _, out, _ = run(capsys, "show", tmp_path / f"{name}.npz")
        rows = {line[:16].strip(): line[17:] for line in out.splitlines()}
        assert rows["fusion"] == said


def test_what_a_stranger_wrote_into_a_file_cannot_move_the_cursor(tmp_path, capsys):
    training = {"name": "a\x1b[2J", "note": "one\ntwo\x07", "seed": 1}
    save_heads(tmp_path / "h.npz", made_heads(training=training))
    _, out, _ = run(capsys, "show", tmp_path / "h.npz")
    assert all(line.isprintable() for line in out.splitlines())
    assert "training: note   one two" in out


def test_show_cuts_long_values_and_says_where_they_are_whole(tmp_path, capsys):
    save_heads(tmp_path / "h.npz", made_heads(training={"name": "a", "note": "word " * 100}))
    (line,) = [x for x in run(capsys, "show", tmp_path / "h.npz")[1].splitlines() if "note" in x]
    assert len(line) <= 150
    assert line.endswith("(--json)")


def test_show_as_json_is_the_whole_header(packaged, capsys):
    header = json.loads(run(capsys, "show", packaged / "small.npz", "--json")[1])
    assert header["sha256"] == load_heads("small").sha256
    assert header["architecture"]["state"]["hidden"] == [6, 5]


def test_verify_answers_yes_and_no_with_the_exit_code(packaged, capsys, tmp_path):
    assert run(capsys, "verify")[:2] == (0, f"ok      small  sha256 {load_heads('small').sha256}\n")
    save_heads(tmp_path / "bad.npz", made_heads())
    (tmp_path / "bad.npz").write_bytes((tmp_path / "bad.npz").read_bytes()[:-1])
    code, out, _ = run(capsys, "verify", "small", "bad.npz")
    assert code == 1
    assert [line.split()[0] for line in out.splitlines()] == ["ok", "failed"]
    assert "bad.npz must have sha256" in out


def test_verify_takes_a_digest_for_one_file_only(packaged, capsys):
    save_heads("a.npz", made_heads())
    assert run(capsys, "verify", "a.npz", "--sha256", "0" * 64)[0] == 1
    code, _, err = run(capsys, "verify", "a.npz", "small", "--sha256", "0" * 64)
    assert (code, err) == (2, "toolheads: sha256 must go with one file, got 2\n")


def test_a_file_without_a_digest_is_shown_only_with_an_explicit_word(packaged, capsys, tmp_path):
    save_heads("a.npz", made_heads())
    (tmp_path / "a.npz.sha256").unlink()
    code, _, err = run(capsys, "show", "a.npz")
    assert code == 2
    assert "(--allow-unverified)" in err
    assert run(capsys, "show", "a.npz", "--allow-unverified")[0] == 0


def test_export_writes_another_precision_and_prints_the_parity(packaged, capsys):
    save_heads("a.npz", made_heads(state=made_head(PLAIN, alpha=0.1)), dtype="float32")
    code, out, _ = run(capsys, "export", "a.npz", "b.npz", "--dtype", "float16")
    assert code == 0
    assert out.startswith("b.npz float16, ")
    assert "cosine >= 0.99999" in out
    assert load_heads("b.npz").sha256 in out


@pytest.mark.parametrize("command", ["export", "pull"])
def test_a_file_that_is_there_is_replaced_only_by_force(packaged, capsys, command, tmp_path):
    (tmp_path / "there.npz").write_bytes(b"precious")
    argv = {
        "export": ("export", "small", "there.npz"),
        "pull": ("pull", "http://x.invalid/there.npz", "--sha256", "0" * 64),
    }[command]
    code, _, err = run(capsys, *argv)
    assert (code, (tmp_path / "there.npz").read_bytes()) == (2, b"precious")
    assert "add --force to replace it" in err


def test_pull_keeps_a_file_under_the_name_in_the_address(packaged, capsys, monkeypatch):
    content = (packaged / "small.npz").read_bytes()
    monkeypatch.setattr(downloading, "_fetched", lambda url, timeout_s, largest: content)
    digest = hashlib.sha256(content).hexdigest()
    url = "https://x.invalid/v1/got.npz?download=1"
    assert run(capsys, "pull", url, "--sha256", digest)[:2] == (0, "got.npz\n")
    assert load_heads("got.npz").sha256 == digest


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("show", "smal"), "did you mean small?"),
        (("show", "none.npz"), "No such file or directory"),
        (("show", "."), "heads must be one of the packaged ones"),
        (("show", "small", "--sha256", "xyz"), "must be a sha256 of 64 hex digits"),
        (("export", "small", "out.zip"), "path must end in .npz"),
        (("pull", "ftp://x/h.npz", "--sha256", "0" * 64), "url must start with https://"),
        (("pull", "http://[/h.npz", "--sha256", "0" * 64), "url must start with https://"),
        (("pull", "http://x.invalid", "--sha256", "12"), "must be a sha256 of 64 hex digits"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(packaged, capsys, argv, message):
    code, out, err = run(capsys, *argv)
    assert (code, out) == (2, "")
    assert err.startswith("toolheads: ")
    assert err.count("\n") == 1
    assert message in err
