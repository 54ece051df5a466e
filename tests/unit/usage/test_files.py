"""Files of a usage log, good and damaged."""

from __future__ import annotations

import itertools
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from tests.unit.usage.logs import at, call, search

from toolheads.errors import ConfigError, DataError
from toolheads.usage import Search, UsageWriter, read_usage

EVENTS = [search(1, 0), call("b", 1, of=1), search(2, 5), call("a", 6), call("c", 7, ok=False)]


@pytest.fixture
def folder(tmp_path):
    writer = UsageWriter(tmp_path / "log", keep_texts=True)
    for event in EVENTS:
        writer.write(event)
    return tmp_path / "log"


def test_what_was_written_is_read_in_the_order_of_time(folder):
    UsageWriter(folder, keep_texts=True).write(search(3, 2))
    log = read_usage(folder)
    assert [one.search_id for one in log.searches] == ["s1", "s3", "s2"]
    assert list(log.calls) == [EVENTS[1], EVENTS[3], EVENTS[4]]
    assert (log.lines, log.files, log.faults, log.bad_share) == (6, 1, (), 0.0)


def test_each_day_in_utc_has_a_file(tmp_path):
    writer = UsageWriter(tmp_path)
    for day in (1, 2):
        time = datetime(2026, 3, day, 23, 59, tzinfo=UTC)
        writer.write(Search(time, f"s{day}", "v", (), "text", "digest"))
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "usage-2026-03-01.jsonl",
        "usage-2026-03-02.jsonl",
    ]
    assert read_usage(tmp_path).files == 2


def test_texts_stay_out_of_the_log_unless_they_are_to_be_kept(tmp_path):
    UsageWriter(tmp_path).write(search(1, 0, text="a private matter"))
    (path,) = tmp_path.iterdir()
    assert "private" not in path.read_text(encoding="utf-8")
    log = read_usage(tmp_path)
    assert log.searches[0].text is None
    assert log.searches[0].digest == "d"
    assert not log.has_texts


def test_a_search_without_a_digest_cannot_be_written_where_texts_are_not_kept(tmp_path):
    with pytest.raises(ConfigError, match="a search must have a digest"):
        UsageWriter(tmp_path).write(search(1, 0, digest=""))
    assert list(tmp_path.iterdir()) == []


def test_a_text_that_is_no_text_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(ConfigError, match="an event must be valid JSON"):
        UsageWriter(tmp_path, keep_texts=True).write(search(1, 0, text="\ud800"))
    assert list(tmp_path.iterdir()) == []


def test_only_the_account_that_serves_can_read_the_files(folder):
    (path,) = folder.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_many_writers_of_one_folder_lose_no_line(tmp_path):
    writers = [UsageWriter(tmp_path) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: writers[n % 4].write(search(n, n)), range(200)))
    log = read_usage(tmp_path)
    assert len(log.searches) == 200
    assert not log.faults


def test_a_line_cut_short_by_a_kill_costs_that_line_alone(folder):
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - 20])  # the last call, half written
    UsageWriter(folder, keep_texts=True).write(search(9, 30))
    log = read_usage(folder)
    assert [fault.line for fault in log.faults] == [5]
    assert log.searches[-1].search_id == "s9"
    assert (len(log.searches), len(log.calls)) == (3, 2)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "invalid JSON"),
        (b"[]", "a line must be a JSON object"),
        (b'{"version": 1, "time": NaN}', "NaN is no JSON number"),
        (b"\xff\xfe", "invalid UTF-8"),
        (json.dumps({"version": 9}).encode(), "version must be 1, got 9"),
    ],
)
def test_a_damaged_line_is_counted_and_the_others_are_read(folder, line, reason):
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes() + line + b"\n")
    log = read_usage(folder)
    (fault,) = log.faults
    assert reason in fault.reason
    assert fault.line == 6
    assert len(log.searches) + len(log.calls) == len(EVENTS)


def test_a_search_id_that_was_there_before_is_a_fault(folder):
    UsageWriter(folder, keep_texts=True).write(search(1, 50, "xyz"))
    log = read_usage(folder)
    assert "search_id must be unique, got 's1' again" in log.faults[0].reason
    assert log.searches[0].time == at(0)


def test_a_log_is_refused_from_a_share_of_damage_on(folder):
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes() + b"{\n")  # 1 of 6 lines
    log = read_usage(folder)
    log.check(1 / 6)
    with pytest.raises(DataError, match=r"at most 10\.0% damaged lines, got 1 of 6"):
        log.check(0.1)


def test_the_digest_of_a_log_changes_with_any_byte(folder):
    before = read_usage(folder).digest
    assert read_usage(folder).digest == before
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes() + b"\n")
    assert read_usage(folder).digest != before


def test_other_files_are_passed_over(folder):
    (folder / "usage-today.jsonl").write_text("no log")
    (folder / "notes.txt").write_text("no log")
    assert read_usage(folder).lines == len(EVENTS)


@pytest.mark.parametrize("what", ["empty", "missing"])
def test_a_folder_without_a_log_is_refused(tmp_path, what):
    folder = tmp_path if what == "empty" else tmp_path / "nowhere"
    with pytest.raises(DataError, match="a usage log must be a folder with usage-"):
        read_usage(folder)


def test_a_folder_that_was_removed_is_made_again(tmp_path):
    writer = UsageWriter(tmp_path / "log", keep_texts=True)
    (tmp_path / "log").rmdir()
    writer.write(search(1, 0))
    assert len(read_usage(tmp_path / "log").searches) == 1


def test_half_a_line_on_a_full_disk_is_an_error_and_costs_no_other_line(tmp_path, monkeypatch):
    writer, write = UsageWriter(tmp_path / "log", keep_texts=True), os.write
    with monkeypatch.context() as full_disk:
        full_disk.setattr(os, "write", lambda file, line: write(file, line[:10]))
        with pytest.raises(OSError, match="No space left on device"):
            writer.write(search(1, 0))
    writer.write(search(1, 0))
    log = read_usage(tmp_path / "log")
    assert (len(log.searches), len(log.faults)) == (1, 1)


def test_lines_that_are_appended_together_are_whole_system_calls_of_their_own(tmp_path, spied):
    """So that other processes, which append to the same file, never write into a line."""
    writer = UsageWriter(tmp_path, keep_texts=True)
    lines = [writer.line(event) for event in EVENTS]
    assert writer.append(writer.file_of(EVENTS[0]), lines) == len(EVENTS)
    assert spied["write"] == lines
    assert len(spied["open"]) == 1


def test_lines_are_written_anew_where_the_file_is_removed_under_them(tmp_path, monkeypatch):
    writer = UsageWriter(tmp_path, keep_texts=True)
    write, calls = os.write, itertools.count()

    def write_and_remove(descriptor, line):
        count = write(descriptor, line)
        if next(calls) < 2:
            for path in tmp_path.iterdir():
                path.unlink()
        return count

    monkeypatch.setattr(os, "write", write_and_remove)
    lines = [writer.line(event) for event in EVENTS]
    assert writer.append(writer.file_of(EVENTS[0]), lines) == len(EVENTS)
    assert read_usage(tmp_path).lines == len(EVENTS)


def test_a_disk_that_fills_up_says_how_many_lines_were_written(tmp_path, monkeypatch):
    writer = UsageWriter(tmp_path, keep_texts=True)
    name, lines = writer.file_of(EVENTS[0]), [writer.line(event) for event in EVENTS]
    write, left = os.write, [sum(map(len, lines[:2])) + 5]

    def write_what_fits(descriptor, line):
        fits = line[: left[0]]
        left[0] -= len(fits)
        return write(descriptor, fits)

    monkeypatch.setattr(os, "write", write_what_fits)
    assert writer.append(name, lines) == 2
    with pytest.raises(OSError, match="No space left"):
        writer.append(name, lines[2:])
    left[0] = 1 << 20
    assert writer.append(name, lines[2:]) == 3
    log = read_usage(tmp_path)
    assert (log.lines - len(log.faults), len(log.faults)) == (5, 1)  # the half line


@pytest.fixture
def spied(monkeypatch):
    """Lines that are written and files that are opened."""
    seen: dict[str, list[object]] = {"write": [], "open": []}
    write, open_ = os.write, os.open

    def see_write(descriptor, line):
        seen["write"].append(line)
        return write(descriptor, line)

    def see_open(path, *more):
        seen["open"].append(path)
        return open_(path, *more)

    monkeypatch.setattr(os, "write", see_write)
    monkeypatch.setattr(os, "open", see_open)
    return seen
