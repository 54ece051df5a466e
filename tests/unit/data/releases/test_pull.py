import argparse
import json
from dataclasses import replace

import pytest
from tests.unit.data.releases.release_files import live_tools, write_json, write_livemcpbench

from toolheads.data import read_dataset
from toolheads.data.releases import RELEASES, find_release, pull
from toolheads.entrypoints.cli import data
from toolheads.errors import ConfigError, DataError, ToolheadsError

LIVE = RELEASES["livemcpbench"]


@pytest.fixture
def files(tmp_path):
    return write_livemcpbench(tmp_path / "files")


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def pull_words(*words):
    parser = argparse.ArgumentParser()
    data.register(parser.add_subparsers())
    args = parser.parse_args(["data", "pull", *map(str, words)])
    return args.run(args)


def test_what_was_pulled_is_a_data_set(files, tmp_path):
    out = tmp_path / "out" / "live"
    pulled = pull(LIVE, out, source=files)
    dataset = read_dataset(out)
    assert (len(dataset.tools), len(dataset.queries)) == (4, 1)
    assert not pulled.unchanged
    assert sorted(content(out)) == ["SOURCE.md", "queries.jsonl", "tools.jsonl"]


def test_the_source_says_licence_files_and_counts(files, tmp_path):
    source = pull(LIVE, tmp_path / "out", source=files).source
    assert "- Licence: Apache-2.0\n" in source
    assert "- File at hand: `tools/tools.json` sha256 `" in source
    assert "- tools: 4, with input schema: 4, servers: 2\n" in source
    assert "- left out, tasks without a tool of the catalogue: 1\n" in source


def test_the_same_again_changes_nothing(files, tmp_path):
    out = tmp_path / "out"
    pull(LIVE, out, source=files)
    before = (content(out), (out / "tools.jsonl").stat().st_ino)
    assert pull(LIVE, out, source=files).unchanged
    assert (content(out), (out / "tools.jsonl").stat().st_ino) == before


def test_the_same_files_give_the_same_bytes(files, tmp_path):
    pull(LIVE, tmp_path / "one", source=files)
    pull(LIVE, tmp_path / "two", source=files)
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_another_data_set_stays_unless_it_may_go(files, tmp_path):
    out = tmp_path / "out"
    pull(LIVE, out, source=files)
    write_json(files / "tools/tools.json", live_tools()[:1])
    with pytest.raises(ConfigError, match="add --replace"):
        pull(LIVE, out, source=files)
    assert len(read_dataset(out).tools) == 4
    pull(LIVE, out, source=files, replace=True)
    assert len(read_dataset(out).tools) == 2


def test_a_data_set_that_was_changed_by_hand_is_not_taken_for_done(files, tmp_path):
    out = tmp_path / "out"
    pull(LIVE, out, source=files)
    (out / "tools.jsonl").write_text('{"id": "x", "name": "x"}\n')
    with pytest.raises(ConfigError, match="another data set"):
        pull(LIVE, out, source=files)


def test_a_newer_converter_makes_it_again(files, tmp_path):
    out = tmp_path / "out"
    pull(LIVE, out, source=files)
    assert not pull(replace(LIVE, version=2), out, source=files, replace=True).unchanged


@pytest.mark.parametrize("may_replace", [False, True])
def test_a_folder_with_other_files_is_never_replaced(files, tmp_path, may_replace):
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"got one with 'notes\.txt'"):
        pull(LIVE, out, source=files, replace=may_replace)
    assert (out / "notes.txt").read_text() == "mine"


def test_a_release_that_cannot_be_read_leaves_nothing_behind(files, tmp_path):
    write_json(files / "tools/tools.json", [{"name": "x"}])
    with pytest.raises(DataError, match="must hold objects"):
        pull(LIVE, tmp_path / "sub" / "out", source=files)
    assert list((tmp_path / "sub").iterdir()) == []


def test_a_release_without_a_tool_is_an_error(files, tmp_path):
    write_json(files / "tools/tools.json", [])
    write_json(files / "tasks/tasks.json", [])
    with pytest.raises(DataError, match="there must be at least one tool"):
        pull(LIVE, tmp_path / "out", source=files)


def test_files_that_no_program_can_fetch_are_asked_for(tmp_path):
    with pytest.raises(ConfigError, match=r"mcp-zero must be given as a folder \(--from\)"):
        pull(RELEASES["mcp-zero"], tmp_path / "out")


def test_files_at_hand_must_be_a_folder(tmp_path):
    with pytest.raises(ConfigError, match="--from must be a folder"):
        pull(LIVE, tmp_path / "out", source=tmp_path / "no")


@pytest.mark.parametrize("name", ["toolrat", "hub:", "hub:one", "hub:a/b/c", "hub:a/b@"])
def test_a_release_that_is_not_known_is_an_error(name):
    with pytest.raises(ConfigError, match="release must be one of toolret, toolret-train,"):
        find_release(name)


@pytest.mark.parametrize(
    ("name", "repo", "revision"),
    [("hub:o/n", "o/n", "main"), ("hub:o-1/n.2@v1.0", "o-1/n.2", "v1.0")],
)
def test_any_data_set_of_the_hub_is_a_release(name, repo, revision):
    (hub,) = find_release(name).hubs
    assert (hub.repo, hub.revision) == (repo, revision)


def test_every_known_release_is_pinned_and_says_its_licence():
    for release in RELEASES.values():
        assert release.licence
        assert release.hubs or release.by_hand
        for hub in release.hubs:
            assert len(hub.revision) == 40
            int(hub.revision, 16)


def test_the_command_prints_the_licence(files, tmp_path, capsys):
    assert pull_words("livemcpbench", "--from", files, "--out", tmp_path / "o") == 0
    out = capsys.readouterr().out
    assert f"{tmp_path}/o: written\n" in out
    assert "Licence: Apache-2.0\n" in out


def test_the_command_prints_json(files, tmp_path, capsys):
    words = ["livemcpbench", "--from", files, "--out", tmp_path / "o", "--json"]
    pull_words(*words)
    capsys.readouterr()
    assert pull_words(*words) == 0
    assert json.loads(capsys.readouterr().out) == {
        "release": "livemcpbench",
        "out": str(tmp_path / "o"),
        "licence": "Apache-2.0",
        "unchanged": True,
    }


def test_the_command_puts_a_release_into_a_folder_of_its_name(files, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pull_words("livemcpbench", "--from", files)
    assert "written" in capsys.readouterr().out
    assert (tmp_path / "data" / "livemcpbench" / "tools.jsonl").is_file()


def test_the_command_names_every_release_in_its_help(capsys):
    with pytest.raises(SystemExit):
        pull_words("--help")
    out = capsys.readouterr().out
    assert all(f"  {name}\n" in out for name in RELEASES)


def test_errors_are_of_the_package():
    with pytest.raises(ToolheadsError):
        pull_words("nothing")
