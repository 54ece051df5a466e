from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.errors import DataError
from toolheads.evaluation.trec import read_qrels, read_run, write_qrels, write_run

IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
"""Any text: blanks, line breaks, percent signs, CJK, marks, control characters."""


@given(
    run=st.dictionaries(
        IDS,
        st.lists(st.tuples(IDS, st.floats(-10, 10)), min_size=1, unique_by=lambda hit: hit[0]),
        max_size=4,
    )
)
def test_a_written_run_is_read_back_in_its_order(tmp_path_factory, run):
    run = {q: sorted(hits, key=lambda hit: -hit[1]) for q, hits in run.items()}
    path = tmp_path_factory.mktemp("run") / "run.txt"
    write_run(path, run)
    assert read_run(path) == {q: [tool_id for tool_id, _ in hits] for q, hits in run.items()}


@given(st.dictionaries(IDS, st.dictionaries(IDS, st.integers(0, 4), min_size=1), max_size=4))
def test_written_judgements_are_read_back_equal(tmp_path_factory, qrels):
    path = tmp_path_factory.mktemp("qrels") / "qrels.txt"
    write_qrels(path, qrels)
    assert read_qrels(path) == qrels


def test_plain_ids_are_written_as_plain_trec_lines(tmp_path):
    write_run(tmp_path / "run", {"q1": [("tool/a", 0.5), ("tool/b", 0.25)]}, tag="my run")
    assert (tmp_path / "run").read_text() == (
        "q1 Q0 tool/a 1 0.5 my_run\nq1 Q0 tool/b 2 0.25 my_run\n"
    )


def test_an_id_with_a_blank_is_escaped_and_its_line_says_so(tmp_path):
    write_qrels(tmp_path / "qrels", {"q1": {"Time MCP/get time": 1, "plain": 0}})
    assert (tmp_path / "qrels").read_text() == "q1 0% Time%20MCP/get%20time 1\nq1 0 plain 0\n"


def test_equal_scores_are_written_so_that_trec_eval_keeps_their_order(tmp_path):
    write_run(tmp_path / "run", {"q": [("a", 0.5), ("b", 0.5), ("c", 0.5)]})
    scores = [float(line.split()[4]) for line in (tmp_path / "run").read_text().splitlines()]
    assert scores[0] == 0.5
    assert scores[0] > scores[1] > scores[2] > 0.4999


def test_a_percent_sign_in_a_foreign_file_is_kept(tmp_path):
    (tmp_path / "qrels").write_text("q%201 0 50%25 1\n")
    assert read_qrels(tmp_path / "qrels") == {"q%201": {"50%25": 1}}


def test_a_bom_crlf_and_blank_lines_are_no_content(tmp_path):
    (tmp_path / "qrels").write_bytes(b"\xef\xbb\xbfq1 0 a 1\r\n\r\n  \r\nq1 0 b 2\r\n")
    assert read_qrels(tmp_path / "qrels") == {"q1": {"a": 1, "b": 2}}


def test_a_negative_relevance_becomes_zero(tmp_path):
    (tmp_path / "qrels").write_text("q1 0 a -2\n")
    assert read_qrels(tmp_path / "qrels") == {"q1": {"a": 0}}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("q1 Q0 a 1 0.5", "a line must have 6 fields, got 5"),
        ("q1 Q0 a b 1 0.5 t", "a line must have 6 fields, got 7"),
        ("q1 Q0 a 1 nan t", "a score must be a finite number, got 'nan'"),
        ("q1 Q0 a 1 -inf t", "a score must be a finite number, got '-inf'"),
        ("q1 Q0 a 1 1e99 t", "a score must be a finite number, got '1e99'"),
        ("q1 Q0 a 1 high t", "a score must be a finite number, got 'high'"),
        ("q1 Q0 ok 1 0.5 t", "query 'q1' must name each tool once, got 'ok' twice"),
        ("q1 Q0% %ff 1 0.5 t", "can't decode byte 0xff"),
    ],
)
def test_a_bad_run_line_is_named_with_its_number_and_reason(tmp_path, line, reason):
    path = tmp_path / "run.txt"
    path.write_text(f"q1 Q0 ok 1 0.75 t\n{line}\n")
    with pytest.raises(DataError, match=f"has 1 bad lines\n.*run.txt:2: .*{reason}"):
        read_run(path)


@pytest.mark.parametrize("line", ["q1 0 a", "q1 0 a one", "q1 0 a 1.5", "q1 0 ok 2"])
def test_a_bad_qrels_line_is_refused_with_its_number(tmp_path, line):
    path = tmp_path / "qrels.txt"
    path.write_text(f"q1 0 ok 1\n{line}\n")
    with pytest.raises(DataError, match=r"qrels.txt:2: "):
        read_qrels(path)


def test_a_file_that_is_no_utf8_is_refused_with_the_place(tmp_path):
    (tmp_path / "run").write_bytes(b"q1 Q0 \xff 1 0.5 t\n")
    with pytest.raises(DataError, match="must be UTF-8, got byte 0xff at 6"):
        read_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("hits", "message"),
    [
        ([("a", float("nan"))], "must be finite, got nan for 'a'"),
        ([("a", float("inf"))], "must be finite, got inf"),
        ([("a", 1e39)], "must be finite"),
        ([("a", 0.1), ("b", 0.2)], "must not rise, got 0.2 at rank 2"),
        ([("a", 0.2), ("a", 0.1)], "must name each tool once, got 'a' twice"),
        ([("", 0.2)], "a tool id must be text that is not empty"),
        ([("\ud800", 0.2)], "a tool id must be text that is not empty"),
    ],
)
def test_a_run_that_could_not_be_read_back_is_refused_and_leaves_no_file(tmp_path, hits, message):
    with pytest.raises(DataError, match=message):
        write_run(tmp_path / "run", {"good": [("a", 1.0)], "q": hits})
    assert not (tmp_path / "run").exists()
