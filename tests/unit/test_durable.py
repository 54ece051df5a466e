from __future__ import annotations

import hashlib
import os

import pytest

from toolheads.durable import file_sha256, write_whole


def test_the_parts_stand_one_after_the_other_in_a_folder_that_is_made(tmp_path):
    path = write_whole(tmp_path / "new" / "file", b"one ", memoryview(b"two"))
    assert path.read_bytes() == b"one two"
    assert file_sha256(path) == hashlib.sha256(b"one two").hexdigest()


def test_a_folder_that_must_be_there_is_not_made(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "new" / "file", b"x", make_folder=False)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, call):
    path = write_whole(tmp_path / "file", b"old")

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"new")
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"old"]


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert write_whole(tmp_path / "link", b"x") == (tmp_path / "file").resolve()
    assert (tmp_path / "link").is_symlink()
