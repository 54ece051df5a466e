"""What a job puts into an index, what it embeds, and what it leaves out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.unit.jobs.made import (
    Counted,
    assert_holds,
    expected,
    keys,
    opened,
    run,
    tools,
    write,
)

from toolheads.errors import (
    BackboneMismatchError,
    ConfigError,
    DataError,
    EncoderError,
    IndexStoreError,
)
from toolheads.identity import PROBE_TEXTS
from toolheads.jobs import Target, open_current, read_current
from toolheads.jobs.pending import JOURNAL, PART, PendingRows


def written(folder):
    """Rows and manifests, and when they were written."""
    (space,) = (p for p in (folder / "index").iterdir() if p.is_dir())
    files = [p for p in space.rglob("*") if p.suffix in (".rows", ".json")]
    return {path: path.stat().st_mtime_ns for path in files}


def put_away(report):
    """What is in the quarantine."""
    return [json.loads(line) for line in Path(report.quarantine).read_text().splitlines()]


@pytest.mark.parametrize("kind", ["numpy", "faiss-flat", "faiss-hnsw"])
def test_an_index_holds_the_rows_that_a_retriever_makes(tmp_path, kind):
    if kind != "numpy":
        pytest.importorskip("faiss")
    listed = tools(0, 50)
    report = run(tmp_path, write(tmp_path / "t.jsonl", listed), kind=kind, batch_tools=16)
    assert (report.seen, report.tools, report.added, report.failed) == (50, 50, 50, 0)
    assert (report.embedded, report.reused, report.kept) == (100, 0, 0)
    assert report.size_bytes > 0
    assert report.texts_per_second > 0
    index = opened(tmp_path, kind)
    assert_holds(index, listed, tmp_path)
    query = expected(listed[:1], tmp_path)
    assert index.search(query, 1)[0][0] == keys(listed[:1])


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_rows_are_rounded_as_the_index_rounds_them(tmp_path, dtype):
    listed = tools(0, 20)
    target = Target("numpy", tmp_path / "index", dtype=dtype)
    run(tmp_path, write(tmp_path / "t.jsonl", listed), target=target, batch_tools=7)
    other = opened(tmp_path / "other", dtype=dtype)
    other.apply(keys(listed), expected(listed, tmp_path))
    rows = opened(tmp_path, dtype=dtype).gather(keys(listed))
    np.testing.assert_array_equal(rows, other.gather(keys(listed)))


def test_new_heads_over_the_same_tools_ask_no_encoder(tmp_path):
    listed = tools(0, 30)
    file = write(tmp_path / "t.jsonl", listed)
    run(tmp_path, file)
    encoder = Counted()
    report = run(tmp_path, file, seed=2, encoder=encoder)
    assert encoder.made == []
    assert (report.embedded, report.reused, report.added) == (0, 60, 30)
    assert_holds(opened(tmp_path, seed=2), listed, tmp_path, seed=2)
    assert_holds(opened(tmp_path, seed=1), listed, tmp_path, seed=1)


def test_only_what_is_new_is_embedded(tmp_path):
    run(tmp_path, write(tmp_path / "t.jsonl", tools(0, 30)))
    encoder = Counted()
    report = run(tmp_path, write(tmp_path / "t.jsonl", tools(0, 33)), encoder=encoder)
    assert len([text for text in encoder.sent if text not in PROBE_TEXTS]) == 6
    assert (report.embedded, report.reused, report.added, report.kept) == (6, 0, 3, 30)
    assert_holds(opened(tmp_path), tools(0, 33), tmp_path)


def test_a_second_run_over_the_same_tools_changes_no_file(tmp_path):
    file = write(tmp_path / "t.jsonl", tools(0, 30))
    run(tmp_path, file)
    before = written(tmp_path)
    assert {path.suffix for path in before} == {".rows", ".json"}
    encoder = Counted()
    report = run(tmp_path, file, encoder=encoder)
    assert encoder.made == []
    assert (report.added, report.removed, report.kept, report.size_bytes) == (0, 0, 30, 0)
    assert written(tmp_path) == before


def test_rows_of_tools_that_are_gone_or_changed_go(tmp_path):
    run(tmp_path, write(tmp_path / "t.jsonl", tools(0, 30)))
    after = [*tools(10, 20), *tools(20, 30, "now does another")]
    report = run(tmp_path, write(tmp_path / "t.jsonl", after))
    assert (report.added, report.removed, report.kept) == (10, 20, 10)
    assert_holds(opened(tmp_path), after, tmp_path)


def test_tools_with_the_same_texts_share_a_row(tmp_path):
    one, two = '{"id": "a", "name": "same"}', '{"id": "b", "name": "same"}'
    report = run(tmp_path, write(tmp_path / "t.jsonl", [one, two]))
    assert (report.tools, report.added) == (2, 1)


def test_a_bad_line_goes_to_the_quarantine_with_the_reason(tmp_path):
    good = tools(0, 3)
    lines = [good[0], "{not json", '{"id": "x"}', good[1], good[0], good[2]]
    report = run(tmp_path, write(tmp_path / "t.jsonl", lines))
    assert (report.seen, report.tools, report.failed) == (6, 3, 3)
    put = put_away(report)
    assert [p["line"] for p in put] == [2, 3, 5]
    assert ["invalid JSON" in put[0]["reason"], "name is missing" in put[1]["reason"]] == [True] * 2
    assert "duplicate id" in put[2]["reason"]
    assert put[0]["text"] == "{not json"
    assert_holds(opened(tmp_path), good, tmp_path)
    again = run(tmp_path, write(tmp_path / "t.jsonl", good))
    assert again.quarantine is None
    assert not (tmp_path / "index" / "quarantine.jsonl").exists()


class Refusing(Counted):
    """Of an encoder that refuses one word, and counts its calls."""

    def __call__(self):
        encoder = super().__call__()
        encode = encoder.encode

        def refusing(texts):
            if any("poison" in text for text in texts):
                raise EncoderError("the text is too long")
            return encode(texts)

        encoder.encode = refusing
        return encoder


def test_a_tool_that_the_encoder_refuses_costs_that_tool(tmp_path):
    good, bad = tools(0, 9), tools(9, 10, "poison")
    report = run(
        tmp_path, write(tmp_path / "t.jsonl", [*good[:5], *bad, *good[5:]]), encoder=Refusing()
    )
    assert (report.tools, report.failed) == (9, 1)
    (put,) = put_away(report)
    assert (put["line"], put["reason"], put["text"]) == (6, "the text is too long", "t9")
    assert_holds(opened(tmp_path), good, tmp_path)


def test_an_encoder_that_is_down_ends_the_job_and_leaves_the_index(tmp_path):
    run(tmp_path, write(tmp_path / "t.jsonl", tools(0, 5)))

    class Down(Counted):
        def __call__(self):
            raise EncoderError("the server is away")

    with pytest.raises(EncoderError, match="is away"):
        run(tmp_path, write(tmp_path / "t.jsonl", tools(5, 10)), encoder=Down())
    assert_holds(opened(tmp_path), tools(0, 5), tmp_path)


def test_no_tool_at_all_leaves_the_index(tmp_path):
    run(tmp_path, write(tmp_path / "t.jsonl", tools(0, 5)))
    with pytest.raises(DataError, match="at least one that can be used, got none in 1 line;"):
        run(tmp_path, write(tmp_path / "t.jsonl", ["{"]))
    assert_holds(opened(tmp_path), tools(0, 5), tmp_path)


def test_an_encoder_with_other_weights_is_refused(tmp_path):
    with pytest.raises(BackboneMismatchError):
        run(
            tmp_path,
            write(tmp_path / "t.jsonl", tools(0, 5)),
            encoder=Counted(weights="two"),
        )


def test_a_damaged_segment_is_made_again(tmp_path):
    file = write(tmp_path / "t.jsonl", tools(0, 30))
    run(tmp_path, file)
    (segment,) = (tmp_path / "index").rglob("*.rows")
    raw = bytearray(segment.read_bytes())
    raw[5] ^= 1
    segment.write_bytes(raw)
    report = run(tmp_path, file)
    assert (report.added, report.embedded) == (30, 0)
    assert_holds(opened(tmp_path), tools(0, 30), tmp_path)


def test_what_an_earlier_run_left_is_taken_up_as_far_as_it_is_whole(tmp_path):
    listed = tools(0, 40)

    class Dying(Counted):
        def __call__(self):
            encoder = super().__call__()
            encode = encoder.encode

            def dying(texts):
                if len(encoder.sent) > 60:
                    raise KeyboardInterrupt
                return encode(texts)

            encoder.encode = dying
            return encoder

    file = write(tmp_path / "t.jsonl", listed)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, file, encoder=Dying(), batch_tools=10)
    (part,), (journal,) = (tuple((tmp_path / "index").rglob(name)) for name in (PART, JOURNAL))
    done = len(journal.read_bytes().splitlines())
    assert done >= 2
    part.write_bytes(part.read_bytes() + b"half a row")  # as a kill leaves it
    journal.write_bytes(journal.read_bytes() + b'{"keys": ["half a li')
    report = run(tmp_path, file, batch_tools=10)
    assert report.resumed == 10 * done
    assert_holds(opened(tmp_path), listed, tmp_path)
    run(tmp_path / "whole", file, batch_tools=7)
    first, second = (next((tmp_path / place / "index").rglob("*.rows")) for place in (".", "whole"))
    assert first.read_bytes() == second.read_bytes()
    assert not list((tmp_path / "index").rglob("reindex.[pj]*"))


def test_rows_of_an_earlier_run_that_are_not_what_was_written_are_made_again(tmp_path):
    listed = tools(0, 30)
    file = write(tmp_path / "t.jsonl", listed)
    run(tmp_path, file, batch_tools=10)
    (segment,) = (tmp_path / "index").rglob("*.rows")
    home = segment.parent
    batches = [keys(listed[at : at + 10]) for at in (0, 10, 20)]
    rows = [expected(listed[at : at + 10], tmp_path) for at in (0, 10, 20)]
    for left in home.iterdir():
        left.unlink()
    pending = PendingRows(home, width=16, dtype="float32")
    for of_batch, made in zip(batches, rows, strict=True):
        pending.add(of_batch, made)
    pending.close()
    raw = bytearray((home / PART).read_bytes())
    raw[15 * 16 * 4] ^= 1  # in the second batch
    (home / PART).write_bytes(raw)
    report = run(tmp_path, file)
    assert report.resumed == 10
    assert_holds(opened(tmp_path), listed, tmp_path)


def test_tools_that_changed_between_a_kill_and_the_next_run_leave_no_row(tmp_path):
    run(tmp_path, write(tmp_path / "t.jsonl", tools(0, 5)))
    (segment,) = (tmp_path / "index").rglob("*.rows")
    pending = PendingRows(segment.parent, width=16, dtype="float32")
    pending.add(keys(tools(5, 15)), expected(tools(5, 15), tmp_path))
    pending.close()
    run(tmp_path, write(tmp_path / "t.jsonl", tools(3, 12)))
    assert_holds(opened(tmp_path), tools(3, 12), tmp_path)


def test_two_jobs_do_not_write_to_one_index_at_once(tmp_path):
    file = write(tmp_path / "t.jsonl", tools(0, 5))

    class Nested(Counted):
        def __call__(self):
            with pytest.raises(IndexStoreError, match="another writer"):
                run(tmp_path, file)
            return super().__call__()

    assert run(tmp_path, file, encoder=Nested()).added == 5


def test_the_pointer_names_the_index_of_the_last_job(tmp_path):
    with pytest.raises(IndexStoreError, match="run toolheads reindex"):
        read_current(tmp_path / "index")
    file = write(tmp_path / "t.jsonl", tools(0, 5))
    run(tmp_path, file)
    run(tmp_path, file, seed=2)
    index, about = open_current(tmp_path / "index")
    assert_holds(index, tools(0, 5), tmp_path, seed=2)
    assert (about.kind, about.rows, about.width) == ("numpy", 5, 16)
    (tmp_path / "index" / "current.json").write_text("[]")
    with pytest.raises(IndexStoreError, match="must name the current index"):
        read_current(tmp_path / "index")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "nump"}, "did you mean numpy"),
        ({"dtype": "int4"}, "dtype must be one of"),
        ({"folder": None}, "out, and not dsn, must be given for index numpy"),
        ({"kind": "pgvector"}, "dsn, and not out, must be given for index pgvector"),
    ],
)
def test_a_target_says_what_it_lacks(tmp_path, given, said):
    with pytest.raises(ConfigError, match=said):
        Target(**{"kind": "numpy", "folder": tmp_path} | given)


def test_an_unknown_setting_of_the_index_is_told_before_anything_is_embedded(tmp_path):
    encoder = Counted()
    target = Target("numpy", tmp_path / "index", settings={"lists": 3})
    with pytest.raises(ConfigError, match="a setting of index numpy"):
        run(tmp_path, write(tmp_path / "t.jsonl", tools(0, 2)), target=target, encoder=encoder)
    assert encoder.made == []
