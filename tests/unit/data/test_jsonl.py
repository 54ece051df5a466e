import json

import pytest

from toolheads.data.jsonl import (
    MOST_LEVELS,
    MOST_LINE_BYTES,
    LineError,
    parse_object,
    read_lines,
    to_line,
    write_lines,
)
from toolheads.errors import DataError


def lines_of(tmp_path, content, **options):
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    return list(read_lines(path, **options))


def test_a_line_ends_at_a_line_feed_only(tmp_path):
    separators = "\u2028\u2029\x85\x0b\x0c\x1c".encode()
    assert lines_of(tmp_path, b"a" + separators + b"b\nc") == [
        (1, b"a" + separators + b"b"),
        (2, b"c"),
    ]


def test_carriage_returns_and_blank_lines_are_no_lines_of_their_own(tmp_path):
    assert lines_of(tmp_path, b"a\r\n\r\n  \nb\r\n") == [(1, b"a"), (4, b"b")]


def test_a_byte_order_mark_at_the_start_of_the_file_is_dropped(tmp_path):
    assert lines_of(tmp_path, b"\xef\xbb\xbf{}\n{}\n") == [(1, b"{}"), (2, b"{}")]


def test_a_byte_order_mark_in_a_later_line_is_a_fault():
    with pytest.raises(LineError, match="byte-order mark may stand at the start of the file only"):
        parse_object(b"\xef\xbb\xbf{}")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_named(tmp_path, encoding):
    with pytest.raises(DataError, match="must be UTF-8, got UTF-16"):
        lines_of(tmp_path, "\ufeff{}\n".encode(encoding))


def test_a_line_that_is_too_long_is_cut_and_the_next_line_is_read(tmp_path):
    found = lines_of(tmp_path, b"x" * 5_000_000 + b"\n{}\n", most_bytes=10)
    assert found == [(1, b"x" * 11), (2, b"{}")]


def test_a_line_of_the_greatest_length_is_whole(tmp_path):
    assert lines_of(tmp_path, b"x" * 10 + b"\ny", most_bytes=10) == [(1, b"x" * 10), (2, b"y")]


def test_a_line_of_50_mb_is_refused_with_the_limit(tmp_path):
    [(_, line), (number, after)] = lines_of(tmp_path, b'"' + b"x" * 50_000_000 + b'"\n{}\n')
    assert (number, after) == (2, b"{}")
    assert len(line) == MOST_LINE_BYTES + 1
    with pytest.raises(LineError, match="at most 16,777,216 bytes"):
        parse_object(line)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"id": ', "invalid JSON: Expecting value at column 8"),
        (b'{"id": "a"} x', "invalid JSON: Extra data at column 13"),
        (b'{"a": NaN}', "NaN is no JSON number"),
        (b'{"a": -Infinity}', "-Infinity is no JSON number"),
        (b'{"a": 1e999}', "1e999 is beyond the range of a float"),
        (b'{"a": ' + b"9" * 5000 + b"}", "invalid JSON: Exceeds the limit"),
        (b"[1, 2]", r"must be a JSON object, got \[1, 2\]"),
        (b'"text"', "must be a JSON object, got 'text'"),
        (b"null", "must be a JSON object, got null"),
        (b'{"a": "\xff"}', "invalid UTF-8 at byte 7 of the line: ff 22 7d"),
        (b'{"a": "\xed\xa0\x80"}', "invalid UTF-8"),
        (b'{"a": "\\ud800"}', "a must hold no lone surrogate"),
        (b'{"a": {"b": [1, "x \\uDFFF y"]}}', "a must hold no lone surrogate"),
        (b'{"a": {"\\ud83d": 1}}', "a must hold no lone surrogate"),
        (b'{"\\ud83d": 1}', "a field's name must hold no lone surrogate"),
        (b'{"a": ' + b"[" * 100_000, "at most 100 levels deep"),
        (b'{"a": ' + b"[" * 500 + b"]" * 500 + b"}", "at most 100 levels deep"),
    ],
)
def test_a_bad_line_is_refused_with_its_reason(line, reason):
    with pytest.raises(LineError, match=reason):
        parse_object(line)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("description", "description"), ("a\nb", r"'a\\nb'"), ("\x1b[31m", r"'\\x1b")],
)
def test_the_field_of_a_lone_surrogate_is_named_on_one_line(name, shown):
    with pytest.raises(LineError, match=rf"^{shown}.* must hold no lone surrogate$"):
        parse_object(json.dumps({name: "\ud800"}).encode())


def test_a_pair_of_escaped_surrogates_is_one_character():
    assert parse_object(b'{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}


def test_nesting_up_to_the_limit_is_read():
    inner = b"[" * (MOST_LEVELS - 1) + b"]" * (MOST_LEVELS - 1)
    assert parse_object(b'{"a": ' + inner + b"}")


def test_many_flat_brackets_are_not_deep():
    assert len(parse_object(b'{"a": [' + b"[]," * 500 + b"[]]}")["a"]) == 501


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.jsonl: the file does not exist"):
        list(read_lines(tmp_path / "nothing.jsonl"))
    with pytest.raises(DataError, match="must be a file, got a folder"):
        list(read_lines(tmp_path))


def test_text_is_written_as_it_is_and_read_back():
    record = {"a": "é\u2028\x85\ufeff 日本 \U0001f600 \x00", "b": [1, None, True, 0.1]}
    line = to_line(record)
    assert "日本".encode() in line
    assert b"\n" not in line
    assert parse_object(line) == record


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("\ud800", "a must hold no lone surrogate"),
        ({"b": ("x", "\udc00")}, "a must hold no lone surrogate"),
        (float("nan"), "not a JSON value"),
        ({1, 2}, "not a JSON value: got set"),
    ],
)
def test_what_json_cannot_hold_is_not_written(value, reason):
    with pytest.raises(LineError, match=reason):
        to_line({"a": value})


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"old")

    def failing():
        yield b"{}"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_lines(path, failing())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_mode_that_the_process_asks_for(tmp_path):
    write_lines(tmp_path / "new" / "x.jsonl", [b"{}"])
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    assert (tmp_path / "new" / "x.jsonl").stat().st_mode == plain.stat().st_mode


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    target, link = tmp_path / "target.jsonl", tmp_path / "link.jsonl"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_lines(link, [json.dumps({}).encode()])
    assert link.is_symlink()
    assert target.read_bytes() == b"{}\n"
