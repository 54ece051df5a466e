from __future__ import annotations

import logging
from typing import Any, cast

import pytest
from tests.unit.retrieval.odd_encoders import OddEncoder
from tests.unit.retrieval.worlds import PATIENT, TOOLS, WIDTH, ids, retriever_of, scored, soon

import toolheads
from toolheads.data import files, jsonl
from toolheads.domain import Tool
from toolheads.retrieval.following import Follower

NEW = Tool("new/frobnicate", "frobnicate", "new", "frobnicates")


@pytest.fixture
def folder(tmp_path):
    toolheads.write_tools(tmp_path / "tools.jsonl", TOOLS)
    return tmp_path


def served(folder, **options):
    return retriever_of(None, folder=folder, settings=PATIENT, **options)


def test_a_changed_file_is_served_and_a_removed_tool_is_not(folder):
    with served(folder) as retriever:
        assert len(retriever.tools) == len(TOOLS)
        toolheads.write_tools(folder / "tools.jsonl", [*TOOLS[1:], NEW])
        assert soon(lambda: retriever.tool(NEW.id) is not None)
        assert ids(retriever.search("frobnicate", 1)) == [NEW.id]
        assert retriever.tool(TOOLS[0].id) is None


@pytest.mark.parametrize("content", [b"", b"\n\n", b'{"id": 1}\n', b"nonsense\n", None])
def test_a_file_that_is_empty_or_broken_leaves_the_tools_and_is_read_once_it_changes(
    folder, content, caplog
):
    caplog.set_level(logging.CRITICAL)
    with served(folder) as retriever:
        expected = scored(retriever.search("create an issue"))
        path = folder / "tools.jsonl"
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        assert soon(lambda: retriever.status().reload_failures >= 1)
        status = retriever.status()
        assert status.reload_error
        assert status.degraded
        assert (status.tools, status.mode) == (len(TOOLS), "dense")
        assert scored(retriever.search("create an issue")) == expected
        toolheads.write_tools(path, [NEW])
        assert soon(lambda: retriever.status().reload_error is None)
        assert retriever.tools == (NEW,)
        assert retriever.status().reload_failures >= 1


def test_a_reading_that_breaks_does_not_end_the_following(folder, caplog, monkeypatch):
    caplog.set_level(logging.CRITICAL)
    with served(folder) as retriever:
        with monkeypatch.context() as broken:
            broken.setattr("toolheads.retrieval.following.read_catalogue", lambda *_, **__: 1 // 0)
            toolheads.write_tools(folder / "tools.jsonl", TOOLS[1:])
            assert soon(lambda: retriever.status().reload_failures >= 1)
            assert "ZeroDivisionError" in retriever.status().reload_error
        toolheads.write_tools(folder / "tools.jsonl", [NEW])
        assert soon(lambda: retriever.tools == (NEW,))
        assert soon(lambda: retriever.status().reload_error is None)


def test_a_bad_line_costs_that_line(folder, caplog):
    caplog.set_level(logging.CRITICAL)
    with (folder / "tools.jsonl").open("ab") as file:
        file.write(b"not json\n[1, 2]\n")
    with served(folder) as retriever:
        status = retriever.status()
        assert (status.tools, status.faults, status.reload_error) == (len(TOOLS), 2, None)


def test_line_separators_of_unicode_are_no_ends_of_lines(folder):
    odd = Tool("odd/two\u2028lines", "two", "odd", "one\u2028two\u0085three")
    toolheads.write_tools(folder / "tools.jsonl", [*TOOLS, odd])
    with served(folder) as retriever:
        assert retriever.tool(odd.id) == odd


def test_a_catalogue_that_is_not_there_yet_is_served_once_it_is(tmp_path, caplog):
    caplog.set_level(logging.CRITICAL)
    with served(tmp_path, filled=False) as retriever:
        status = retriever.status()
        assert (status.ready, status.tools) == (False, 0)
        assert "does not exist" in status.reload_error
        assert retriever.search("anything").nothing_matches
        toolheads.write_tools(tmp_path / "tools.jsonl", TOOLS)
        assert soon(lambda: retriever.status().ready)
        assert soon(lambda: retriever.status().reload_error is None)


def test_only_lines_that_changed_are_read(folder, monkeypatch):
    with served(folder) as retriever:
        read: list[bytes] = []
        whole = jsonl.parse_object

        def noted(line):
            read.append(line)
            return whole(line)

        toolheads.write_tools(folder / "other.jsonl", [*TOOLS, NEW])
        monkeypatch.setattr(files, "parse_object", noted)
        (folder / "other.jsonl").replace(folder / "tools.jsonl")
        assert soon(lambda: retriever.tool(NEW.id) is not None)
        assert len(read) == 1


def test_following_stops(folder):
    with served(folder) as retriever:
        retriever.stop()
        toolheads.write_tools(folder / "tools.jsonl", [NEW])
        assert not soon(lambda: retriever.tool(NEW.id) is not None, timeout_s=0.3)
        retriever.follow(folder)
        assert retriever.tools == (NEW,)


def test_a_tools_file_alone_is_followed_and_nothing_is_kept_beside_it(folder):
    with served(folder / "tools.jsonl") as retriever:
        assert len(retriever.tools) == len(TOOLS)
    assert [path.name for path in folder.iterdir()] == ["tools.jsonl"]


def test_a_folder_is_followed_without_keeping_anything_in_it(folder):
    with served(folder, in_memory=True):
        pass
    assert [path.name for path in folder.iterdir()] == ["tools.jsonl"]


def test_a_second_start_embeds_and_reads_no_tool_and_gives_the_same_answers(folder, monkeypatch):
    with served(folder) as retriever:
        expected = {text: scored(retriever.search(text, 50)) for text in ("create", "a song")}
    encoder = OddEncoder(WIDTH)
    monkeypatch.setattr("toolheads.lexical.postings.field_parts", None)
    monkeypatch.setattr("toolheads.retrieval.building.tool_view_texts", None)
    monkeypatch.setattr("toolheads.retrieval.building.tool_digest", None)
    with served(folder, encoder=encoder) as retriever:
        assert {text: scored(retriever.search(text, 50)) for text in expected} == expected
        assert not any(tool.description in sent for tool in TOOLS for sent in encoder.sent[4:])


def test_a_second_start_needs_no_encoder_to_be_ready_for_the_cached_rows(folder):
    with served(folder):
        pass
    encoder = OddEncoder(WIDTH)
    encoder.mood = "fails"
    with served(folder, encoder=encoder) as retriever:
        status = retriever.status()
        assert (status.pending, status.tools) == (0, len(TOOLS))


def test_a_second_start_with_other_tools_works_out_the_difference_alone(folder):
    with served(folder):
        pass
    changed = Tool(TOOLS[3].id, TOOLS[3].name, TOOLS[3].server, "changed")
    tools = [*TOOLS[:3], changed, *TOOLS[5:], NEW]
    toolheads.write_tools(folder / "tools.jsonl", tools)
    encoder = OddEncoder(WIDTH)
    other = folder / "anew"  # vectors are rounded alike
    toolheads.write_tools(other / "tools.jsonl", tools)
    with served(folder, encoder=encoder) as retriever, served(other) as fresh:
        for text in ("create an issue", "frobnicate"):
            assert scored(retriever.search(text, 99)) == scored(fresh.search(text, 99))
        assert not any(TOOLS[9].description in text for text in encoder.sent)


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "gone", "other"])
def test_a_damaged_warm_file_is_made_anew(folder, damage, caplog):
    caplog.set_level(logging.CRITICAL)
    with served(folder) as retriever:
        expected = scored(retriever.search("create an issue", 50))
    (path,) = (folder / "index").glob("warm-*.bin")
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(
        {
            "cut": content[:middle],
            "flip": content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :],
            "empty": b"",
            "other": content[:32] + b"PK\x03\x04" + content[40:],
        }.get(damage, b"")
    )
    if damage == "gone":
        path.unlink()
    with served(folder) as retriever:
        assert scored(retriever.search("create an issue", 50)) == expected


@pytest.mark.parametrize("part", ["index", "cache"])
def test_damaged_rows_and_vectors_are_made_again(folder, part, caplog):
    caplog.set_level(logging.CRITICAL)
    with served(folder) as retriever:
        expected = scored(retriever.search("create an issue", 50))
    for path in (folder / part).rglob("*"):
        if path.is_file() and path.stat().st_size > 300 and not path.name.startswith("warm"):
            path.write_bytes(path.read_bytes()[:-40] + b"\0" * 40)
    with served(folder, filled=False) as retriever:
        assert soon(lambda: scored(retriever.search("create an issue", 50)) == expected)


class Looks:
    """Stands in for the clock of a follower: what happens while it waits, and for how long."""

    def __init__(self, folder, happens):
        self.taken: list[Any] = []
        self.pauses: list[float] = []
        self._happens = happens
        self.follower = Follower(folder, lambda wish: self.taken.append(wish.tools), poll_s=1.0)
        self.follower._read()
        self.follower._stop = cast("Any", self)

    def wait(self, seconds):
        self.pauses.append(seconds)
        return self._happens(self) or len(self.pauses) > 50


def test_a_file_that_changed_is_looked_at_again_soon_and_then_as_before(folder):
    def once(looks):
        if len(looks.pauses) == 1:
            toolheads.write_tools(folder / "tools.jsonl", [*TOOLS, NEW])
        return len(looks.pauses) == 4

    looks = Looks(folder, once)
    looks.follower._run()
    assert looks.pauses == [1.0, 0.25, 1.0, 1.0]
    assert [len(tools) for tools in looks.taken] == [len(TOOLS), len(TOOLS) + 1]


def test_a_file_that_never_stands_still_is_read_all_the_same(folder):
    def always(looks):
        text = f"{len(looks.pauses)} times"
        toolheads.write_tools(folder / "tools.jsonl", [*TOOLS, Tool("new/x", "x", "new", text)])
        return len(looks.taken) > 1

    looks = Looks(folder, always)
    looks.follower._run()
    assert len(looks.taken) == 2
    assert 2.0 < sum(looks.pauses[:-1]) <= 5.0
