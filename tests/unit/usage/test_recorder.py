"""Events recorded beside a service, whatever the disk does."""

from __future__ import annotations

import logging
import shutil
import stat
import threading

import pytest
from tests.unit.usage.logs import at, call, search

from toolheads.errors import ConfigError
from toolheads.usage import Retention, UsageRecorder, read_usage
from toolheads.usage.files import UsageWriter

PATIENCE_S = 10.0


@pytest.fixture
def recorders():
    made = []

    def make(folder, **settings):
        made.append(UsageRecorder(folder, **{"retry_s": 0.01, "now": lambda: at(0), **settings}))
        return made[-1]

    yield make
    for recorder in made:
        recorder.close(0.0)


def blocked(tmp_path):
    """A folder that cannot be made: a file stands where its parent should be."""
    (tmp_path / "file").write_text("in the way")
    return tmp_path / "file" / "usage"


def failed_once(recorder):
    """Wait until a write has failed."""
    wait = threading.Event()
    while not recorder.status().failures:
        wait.wait(0.005)


def test_events_are_written_in_their_order(tmp_path, recorders):
    recorder = recorders(tmp_path / "usage", keep_texts=True)
    events = [search(number, number) for number in range(20)]
    for event in events:
        recorder.record(event)
    assert recorder.flush(PATIENCE_S)
    assert list(read_usage(tmp_path / "usage").searches) == events
    assert recorder.status().written == 20


def test_texts_and_arguments_are_left_out_unless_they_are_asked_for(tmp_path, recorders):
    recorder = recorders(tmp_path / "usage")
    recorder.record(search(1, 0, text="book a flight to Izmir"))
    recorder.record(call("a", 1, of=1, arguments='{"city": "Izmir"}', arguments_digest="d2"))
    assert recorder.flush(PATIENCE_S)
    (path,) = (tmp_path / "usage").glob("*.jsonl")
    assert "Izmir" not in path.read_text()
    log = read_usage(tmp_path / "usage")
    assert (log.searches[0].digest, log.calls[0].arguments_digest) == ("d", "d2")


def test_only_the_owner_can_read_the_folder_the_key_and_the_log(tmp_path, recorders):
    recorder = recorders(tmp_path / "usage")
    recorder.record(search(1, 0))
    assert recorder.flush(PATIENCE_S)
    paths = [tmp_path / "usage", *(tmp_path / "usage").iterdir()]
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o700, 0o600, 0o600]


def test_a_removed_folder_is_made_again_with_its_key(tmp_path, recorders):
    recorder = recorders(tmp_path / "usage")
    recorder.record(search(1, 0))
    assert recorder.flush(PATIENCE_S)
    before = (tmp_path / "usage" / ".key").read_bytes()
    shutil.rmtree(tmp_path / "usage")
    recorder.record(search(2, 1))
    assert recorder.flush(PATIENCE_S)
    assert [one.search_id for one in read_usage(tmp_path / "usage").searches] == ["s2"]
    assert (tmp_path / "usage" / ".key").read_bytes() == before


def test_events_of_a_gap_are_written_once_the_folder_can_be(tmp_path, recorders, caplog):
    folder = blocked(tmp_path)
    recorder = recorders(folder)
    for number in range(5):
        recorder.record(search(number, number))
    failed_once(recorder)
    assert (recorder.status().waiting, recorder.status().written) == (5, 0)
    (tmp_path / "file").unlink()
    assert recorder.flush(PATIENCE_S)
    assert len(read_usage(folder).searches) == 5
    assert (recorder.status().lost, recorder.status().error) == (0, None)
    warnings = [r.message for r in caplog.records if r.name == "toolheads.usage.recorder"]
    assert [w.startswith(("usage events wait", "usage events are")) for w in warnings] == [1, 1]


def test_an_event_of_yesterday_that_waited_goes_to_the_file_of_yesterday(tmp_path, recorders):
    folder = blocked(tmp_path)
    recorder = recorders(folder)
    recorder.record(search(1, -24 * 60))
    recorder.record(search(2, 0))
    failed_once(recorder)
    (tmp_path / "file").unlink()
    assert recorder.flush(PATIENCE_S)
    assert [path.name for path in sorted(folder.glob("*.jsonl"))] == [
        "usage-2026-02-28.jsonl",
        "usage-2026-03-01.jsonl",
    ]


def test_a_full_buffer_loses_the_oldest_events_and_counts_them(tmp_path, recorders):
    folder = blocked(tmp_path)
    recorder = recorders(folder, most_waiting=3)
    for number in range(5):
        recorder.record(search(number, number))
    failed_once(recorder)
    (tmp_path / "file").unlink()
    assert recorder.flush(PATIENCE_S)
    assert [one.search_id for one in read_usage(folder).searches] == ["s2", "s3", "s4"]
    assert recorder.status().lost == 2


def test_recording_does_not_wait_for_the_disk(tmp_path, recorders, monkeypatch):
    is_free = threading.Event()
    monkeypatch.setattr(UsageWriter, "line", lambda *_: is_free.wait(PATIENCE_S) and None)
    recorder = recorders(tmp_path / "usage")
    for number in range(3):
        recorder.record(search(number, number))  # comes back though nothing is written yet
    assert recorder.status().waiting == 3
    is_free.set()
    assert recorder.flush(PATIENCE_S)


def test_closing_writes_what_waits(tmp_path, recorders):
    recorder = recorders(tmp_path / "usage")
    for number in range(200):
        recorder.record(search(number, number))
    recorder.close(PATIENCE_S)
    assert len(read_usage(tmp_path / "usage").searches) == 200


def test_closing_gives_up_in_time_and_says_what_is_lost(tmp_path, recorders, caplog):
    recorder = recorders(blocked(tmp_path))
    recorder.record(search(1, 0))
    failed_once(recorder)
    with caplog.at_level(logging.ERROR):
        recorder.close(0.05)
    assert recorder.status().lost == 1
    assert "lost 1 usage events: Not a directory" in caplog.text


def test_an_event_that_cannot_be_written_at_all_does_not_stand_in_the_way(tmp_path, recorders):
    recorder = recorders(tmp_path / "usage")
    recorder.record(search(1, 0, digest=""))  # neither a text nor a digest would be left
    recorder.record(search(2, 1))
    assert recorder.flush(PATIENCE_S)
    assert (recorder.status().written, recorder.status().lost) == (1, 1)


def test_a_log_as_large_as_it_may_get_takes_no_more(tmp_path, recorders):
    folder = tmp_path / "usage"
    folder.mkdir()
    (folder / "usage-2026-03-01.jsonl").write_bytes(b"\n" * 2000)  # today
    recorder = recorders(folder, retention=Retention(max_bytes=1000))
    recorder.record(search(1, 0))
    assert recorder.flush(PATIENCE_S)
    assert (recorder.status().written, recorder.status().lost) == (0, 1)


def test_old_days_go_when_the_recording_begins(tmp_path, recorders):
    folder = tmp_path / "usage"
    folder.mkdir()
    for day in ("2025-01-01", "2026-02-27"):
        (folder / f"usage-{day}.jsonl").write_text("\n")
    recorder = recorders(folder, retention=Retention(days=7))
    recorder.record(search(1, 0))
    assert recorder.flush(PATIENCE_S)
    assert sorted(p.stem[6:] for p in folder.glob("*.jsonl")) == ["2026-02-27", "2026-03-01"]


def test_a_file_that_is_no_key_is_refused(tmp_path):
    (tmp_path / ".key").write_bytes(b"short")
    with pytest.raises(ConfigError, match=r"\.key must be a key of 32 bytes, got 5; remove it"):
        UsageRecorder(tmp_path)


def test_a_burst_of_events_wakes_the_writer_seldom(tmp_path, recorders, monkeypatch):
    """It would take the interpreter from the searches that it records."""
    opened: list[int] = []
    append = UsageWriter.append

    def see(writer, name, lines):
        opened.append(len(lines))
        return append(writer, name, lines)

    monkeypatch.setattr(UsageWriter, "append", see)
    recorder = recorders(tmp_path / "usage")
    for number in range(500):
        recorder.record(search(number, number))
    assert recorder.flush(PATIENCE_S)
    assert sum(opened) == 500
    assert len(opened) <= 10


def test_an_event_is_written_soon_though_nobody_asks(tmp_path, recorders):
    recorder = recorders(tmp_path / "usage")
    recorder.record(search(1, 0))
    wait = threading.Event()
    for _ in range(1000):
        if recorder.status().written:
            break
        wait.wait(0.01)
    assert recorder.status().written == 1


def test_a_bad_event_among_good_ones_costs_itself_alone(tmp_path, recorders):
    folder = blocked(tmp_path)
    recorder = recorders(folder)
    events = [search(n, n, shown=("a", "a") if n in (1, 4) else "ab") for n in range(6)]
    for event in events:
        recorder.record(event)
    failed_once(recorder)
    (tmp_path / "file").unlink()
    assert recorder.flush(PATIENCE_S)
    assert [one.search_id for one in read_usage(folder).searches] == ["s0", "s2", "s3", "s5"]
    assert (recorder.status().written, recorder.status().lost) == (4, 2)


def test_what_waits_is_written_in_order_after_a_disk_that_was_full(
    tmp_path, recorders, monkeypatch
):
    append, room = UsageWriter.append, [2]

    def append_what_fits(writer, name, lines):
        fits = lines[: room[0]]
        if not fits:
            room[0] = 100
            raise OSError(28, "No space left on device")
        room[0] -= len(fits)
        return append(writer, name, fits)

    monkeypatch.setattr(UsageWriter, "append", append_what_fits)
    recorder = recorders(tmp_path / "usage")
    for number in range(5):
        recorder.record(search(number, number))
    assert recorder.flush(PATIENCE_S)
    assert [one.search_id for one in read_usage(tmp_path / "usage").searches] == [
        f"s{number}" for number in range(5)
    ]
    assert (recorder.status().written, recorder.status().failures) == (5, 1)
