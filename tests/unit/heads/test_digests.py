from __future__ import annotations

import json
import re

import pytest
from tests.made_heads import made_heads

from toolheads.errors import ConfigError, DigestError
from toolheads.heads import digests, load_heads, packaged_heads, save_heads


@pytest.fixture
def packaged(tmp_path, monkeypatch):
    folder = tmp_path / "packaged"
    sha256 = save_heads(folder / "small.npz", made_heads(training={"name": "small"}))
    (folder / "small.npz.sha256").unlink()
    index = {"small.npz": {"sha256": sha256, "description": "For tests."}}
    (folder / "index.json").write_text(json.dumps(index), encoding="utf-8")
    monkeypatch.setattr(digests, "packaged_folder", lambda: folder)
    return folder


def test_packaged_heads_load_by_name_with_the_digest_of_the_index(packaged):
    assert load_heads("small").name == "small"


def test_packaged_heads_load_by_path_with_the_digest_of_the_index(packaged):
    assert load_heads(packaged / "small.npz").name == "small"
    assert load_heads(str(packaged / ".." / "packaged" / "small.npz")).name == "small"


def test_packaged_heads_that_were_tampered_with_are_refused_even_with_a_fitting_sidecar(packaged):
    save_heads(packaged / "small.npz", made_heads(training={"name": "other"}))
    for name in ("small", packaged / "small.npz"):
        with pytest.raises(DigestError, match=re.escape("small.npz must have sha256")):
            load_heads(name)


def test_packaged_heads_are_listed_by_name(packaged):
    (entry,) = packaged_heads()
    assert (entry.name, entry.description) == ("small", "For tests.")
    assert entry.path == packaged / "small.npz"


def test_a_name_that_is_not_packaged_is_refused_with_the_names_that_are(packaged):
    with pytest.raises(
        ConfigError, match=r"packaged ones \(small\), got 'smal'; did you mean smal"
    ):
        load_heads("smal")
    with pytest.raises(ConfigError, match=r"got 'x.bin'; a file's path must end in .npz"):
        load_heads("x.bin")


def test_without_an_index_no_heads_are_packaged(tmp_path):
    assert packaged_heads(tmp_path) == []


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"a.npz": 1}', '{"a.npz": {}}', '{"a.npz": {"sha256": "12"}}', '{"a.npz": null}'],
)
def test_an_index_that_cannot_be_read_is_refused(tmp_path, text):
    (tmp_path / "index.json").write_text(text, encoding="utf-8")
    with pytest.raises(DigestError, match=r"index.json must (map file names|be a sha256)"):
        packaged_heads(tmp_path)


@pytest.mark.parametrize("text", ["", "abc  h.npz\n", "\0" * 64, "z" * 64])
def test_a_sidecar_that_holds_no_digest_is_refused(tmp_path, text):
    save_heads(tmp_path / "h.npz", made_heads())
    (tmp_path / "h.npz.sha256").write_text(text, encoding="utf-8")
    with pytest.raises(DigestError, match=r"h.npz.sha256 must be a sha256 of 64 hex digits"):
        load_heads(tmp_path / "h.npz", allow_unverified=True)


def test_a_sidecar_in_capitals_with_a_star_as_sha256sum_writes_it_is_read(tmp_path):
    sha256 = save_heads(tmp_path / "h.npz", made_heads())
    (tmp_path / "h.npz.sha256").write_text(f"{sha256.upper()} *h.npz\n", encoding="utf-8")
    assert load_heads(tmp_path / "h.npz").sha256 == sha256


def test_a_sidecar_of_a_gigabyte_is_not_read(tmp_path):
    save_heads(tmp_path / "h.npz", made_heads())
    with (tmp_path / "h.npz.sha256").open("wb") as sparse:
        sparse.truncate(1 << 30)
    with pytest.raises(DigestError, match="must have at most 1048576 bytes, got 1073741824"):
        load_heads(tmp_path / "h.npz")


def test_the_folder_of_packaged_heads_is_the_one_of_the_checkout_or_the_installation():
    folder = digests.packaged_folder()
    assert folder.name in ("heads", "packaged_heads")
    assert (folder / "index.json").is_file()


def test_an_installed_folder_comes_before_a_checkout(tmp_path, monkeypatch):
    module = tmp_path / "src" / "toolheads" / "heads" / "digests.py"
    monkeypatch.setattr(digests, "__file__", str(module))
    assert digests.packaged_folder() == tmp_path / "heads"
    (tmp_path / "src" / "toolheads" / "packaged_heads").mkdir(parents=True)
    assert digests.packaged_folder() == tmp_path / "src" / "toolheads" / "packaged_heads"


def test_every_packaged_heads_file_keeps_its_digest():
    for entry in packaged_heads():
        assert load_heads(entry.name).sha256 == entry.sha256
