"""Keyed digests: equal for equal texts under one key, and nothing to guess from without it."""

from __future__ import annotations

import hashlib
import hmac
import stat
from concurrent.futures import ThreadPoolExecutor

from toolheads.usage.digests import KeyedDigests


def test_equal_texts_have_equal_digests_in_every_process_on_a_folder(tmp_path):
    one, two = KeyedDigests(tmp_path), KeyedDigests(tmp_path)
    assert one.of("query", "book a flight") == two.of("query", "book a flight")
    assert one.of("query", "book a flight") != one.of("query", "book a flat")


def test_a_digest_is_hmac_under_the_key_in_the_folder(tmp_path):
    digests = KeyedDigests(tmp_path)
    key = (tmp_path / ".key").read_bytes()
    wanted = hmac.new(key, b"query\0find", hashlib.sha256).hexdigest()
    assert digests.of("query", "find") == wanted
    assert digests.of("query", "find") != hashlib.sha256(b"find").hexdigest()


def test_one_text_as_a_query_and_as_arguments_has_two_digests(tmp_path):
    digests = KeyedDigests(tmp_path)
    assert digests.of("query", "{}") != digests.of("arguments", "{}")


def test_two_folders_have_two_keys(tmp_path):
    one, two = KeyedDigests(tmp_path / "a"), KeyedDigests(tmp_path / "b")
    assert one.of("query", "find") != two.of("query", "find")


def test_a_text_with_a_lone_surrogate_has_a_digest(tmp_path):
    assert len(KeyedDigests(tmp_path).of("query", "\ud800")) == 64


def test_only_the_owner_can_read_the_key(tmp_path):
    KeyedDigests(tmp_path / "usage")
    assert stat.S_IMODE((tmp_path / "usage" / ".key").stat().st_mode) == 0o600


def test_processes_that_begin_together_share_one_key(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: KeyedDigests(tmp_path), range(8)))
    assert len({digests.of("query", "find") for digests in made}) == 1


def test_a_key_that_could_not_be_written_is_written_later_and_stays_the_same(tmp_path):
    (tmp_path / "file").write_text("in the way")
    digests = KeyedDigests(tmp_path / "file" / "usage")
    before = digests.of("query", "find")
    assert not digests.is_kept
    (tmp_path / "file").unlink()
    digests.keep()
    assert digests.is_kept
    assert KeyedDigests(tmp_path / "file" / "usage").of("query", "find") == before
