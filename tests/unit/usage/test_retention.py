"""What is kept of a usage log, and for how long."""

from __future__ import annotations

from datetime import date

import pytest

from toolheads.errors import ConfigError
from toolheads.usage import Retention
from toolheads.usage.retention import prune

TODAY = date(2026, 3, 10)


@pytest.fixture
def folder(tmp_path):
    for day in range(1, 11):
        (tmp_path / f"usage-2026-03-{day:02}.jsonl").write_bytes(b"x" * 100)
    return tmp_path


def days_in(folder):
    return [int(path.stem[-2:]) for path in sorted(folder.glob("usage-2026-*.jsonl"))]


def test_days_before_the_kept_ones_are_removed(folder):
    prune(folder, Retention(days=3), TODAY)
    assert days_in(folder) == [7, 8, 9, 10]


def test_the_oldest_days_go_until_the_rest_is_small_enough(folder):
    assert prune(folder, Retention(days=0, max_bytes=250), TODAY) == 200
    assert days_in(folder) == [9, 10]


def test_today_is_never_removed(folder):
    assert prune(folder, Retention(days=1, max_bytes=50), TODAY) == 100
    assert days_in(folder) == [10]


def test_zero_keeps_everything(folder):
    assert prune(folder, Retention(days=0, max_bytes=0), TODAY) == 1000
    assert len(days_in(folder)) == 10


def test_other_files_are_left_alone(folder):
    for name in ("notes.txt", "usage-2026-99-99.jsonl", ".key"):
        (folder / name).write_text("keep me")
    prune(folder, Retention(days=1, max_bytes=1), TODAY)
    kept = {path.name for path in folder.iterdir()}
    assert kept == {"notes.txt", "usage-2026-99-99.jsonl", ".key", "usage-2026-03-10.jsonl"}


def test_a_folder_that_is_not_there_has_nothing_to_remove(tmp_path):
    assert prune(tmp_path / "nowhere", Retention(), TODAY) == 0


def test_a_negative_limit_is_refused():
    with pytest.raises(ConfigError, match=r"retention\.days must be >= 0, got -1"):
        Retention(days=-1)
