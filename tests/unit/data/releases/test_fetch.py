"""The Hub's own client against a small Hub on this machine."""

import hashlib

import pytest

pytest.importorskip("huggingface_hub", reason="needs the extra [data]")

from tests.unit.data.releases.hub_server import HubRepo, hub_of
from tests.unit.data.releases.release_files import write_toolret

from toolheads.data import read_dataset
from toolheads.data.releases import RELEASES, find_release, pull
from toolheads.errors import ConfigError, DataError, DigestError, DownloadError

COMMIT = "a" * 40
TOOLS = b'{"id": "brew", "name": "brew"}\n'
QUERIES = b'{"id": "q", "text": "tea", "relevant": ["brew"]}\n'
FILES = {"README.md": b"# tea", "tools.jsonl": TOOLS, "queries.jsonl": QUERIES}
LARGE = frozenset({"tools.jsonl"})


@pytest.fixture(autouse=True)
def own_hub_cache(tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def pulled_from(repo, out, name="hub:o/tea", **more):
    with hub_of({"o/tea": repo}) as (url, asked):
        return pull(find_release(name), out, endpoint=url, **more), asked


def test_a_data_set_of_the_hub_is_fetched_at_a_commit(tmp_path):
    repo = HubRepo(COMMIT, FILES, licence="cc-by-4.0", large=LARGE)
    pulled, asked = pulled_from(repo, tmp_path / "out")
    assert read_dataset(tmp_path / "out").queries[0].relevant == ("brew",)
    assert f"- From: `o/tea` (Hugging Face Hub, data set) at commit `{COMMIT}`" in pulled.source
    assert pulled.licence == "cc-by-4.0"
    assert not [one for one in asked if "README" in one and "resolve" in one]


def test_a_card_without_a_licence_is_said(tmp_path):
    assert pulled_from(HubRepo(COMMIT, FILES), tmp_path / "out")[0].licence == "none stated"


def test_a_pinned_data_set_that_is_there_asks_for_nothing(tmp_path):
    repo, name = HubRepo(COMMIT, FILES), f"hub:o/tea@{COMMIT}"
    pulled_from(repo, tmp_path / "out", name)
    again, asked = pulled_from(repo, tmp_path / "out", name)
    assert again.unchanged
    assert asked == []


def test_a_branch_that_moved_is_another_data_set(tmp_path):
    pulled_from(HubRepo(COMMIT, FILES), tmp_path / "out")
    moved = HubRepo("b" * 40, FILES | {"tools.jsonl": TOOLS + b'{"id": "x", "name": "x"}\n'})
    with pytest.raises(ConfigError, match="add --replace"):
        pulled_from(moved, tmp_path / "out")
    pulled_from(moved, tmp_path / "out", replace=True)
    assert len(read_dataset(tmp_path / "out").tools) == 2


@pytest.mark.parametrize("large", [LARGE, frozenset()])
def test_a_file_that_is_not_the_one_of_the_commit_is_refused(tmp_path, large):
    other = TOOLS.replace(b"brew", b"crew")
    repo = HubRepo(COMMIT, FILES, large=large, promised={"tools.jsonl": other})
    with pytest.raises(DigestError, match=r"tools\.jsonl of o/tea at main must have the digest"):
        pulled_from(repo, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["hub:o/coffee", f"hub:o/tea@{'c' * 40}", "hub:o/tea@v9"])
def test_what_the_hub_does_not_have_is_one_clear_error(tmp_path, name):
    with pytest.raises(DownloadError, match=r"must be there, got (Repository|Revision)NotFound"):
        pulled_from(HubRepo(COMMIT, FILES), tmp_path / "out", name)


def test_a_hub_that_cannot_be_reached_is_one_clear_error(tmp_path):
    with pytest.raises(DownloadError, match="o/tea at main must be there, got"):
        pull(find_release("hub:o/tea"), tmp_path / "out", endpoint="http://127.0.0.1:9")


def test_a_repository_without_our_files_is_an_error(tmp_path):
    with pytest.raises(DownloadError, match="must have the files of this release"):
        pulled_from(HubRepo(COMMIT, {"README.md": b"#"}), tmp_path / "out")


def test_a_data_set_with_faults_is_refused(tmp_path):
    with pytest.raises(DataError, match="must have no fault"):
        pulled_from(HubRepo(COMMIT, FILES | {"tools.jsonl": TOOLS + b"{\n"}), tmp_path / "out")


def test_a_release_of_two_repositories_is_joined(tmp_path):
    folder = write_toolret(tmp_path / "files")
    repos = {}
    for hub in RELEASES["toolret"].hubs:
        root = folder / hub.folder
        files = {
            path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*.parquet")
        }
        repos[hub.repo] = HubRepo(hub.revision, files, large=frozenset(files))
    with hub_of(repos) as (url, _):
        pull(RELEASES["toolret"], tmp_path / "out", endpoint=url)
    pull(RELEASES["toolret"], tmp_path / "at-hand", source=folder)
    digests = [
        hashlib.sha256((tmp_path / name / "tools.jsonl").read_bytes()).hexdigest()
        for name in ("out", "at-hand")
    ]
    assert digests[0] == digests[1]
