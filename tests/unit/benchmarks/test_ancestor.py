"""The parts of the ancestor benchmark that need neither side: pairs, processes, the table."""

import json
import sys

import numpy as np
import pytest
from benchmarks.ancestor.exchange import Pairs, VectorTable, percentiles_ms, random_pairs
from benchmarks.ancestor.plan import data_folders
from benchmarks.ancestor.processes import Measured, ProcessFailedError, run
from benchmarks.ancestor.table import SYSTEMS, Result, Row, per_1000_pairs, render


def test_pairs_are_read_back_as_they_were_written(tmp_path):
    pairs = Pairs(
        np.eye(2, 3, dtype=np.float32), np.eye(3, dtype=np.float32), [{2: 1}, {0: 3, 1: 0}]
    )
    pairs.save(tmp_path / "p.npz")
    read = Pairs.load(tmp_path / "p.npz")
    np.testing.assert_array_equal(read.tools, pairs.tools)
    assert list(read.relevant) == list(pairs.relevant)
    assert read.positives == [[2], [0]]


def test_a_part_of_pairs_keeps_each_query_with_its_own_tool():
    pairs = random_pairs(20, 8, seed=0)
    part = pairs.some(5, seed=1)
    assert len(part.queries) == len(part.tools) == 5
    for query, (row,) in zip(part.queries, part.positives, strict=True):
        at = int(np.flatnonzero((pairs.queries == query).all(axis=1))[0])
        np.testing.assert_array_equal(part.tools[row], pairs.tools[at])


def test_another_spelling_of_a_text_has_its_vector():
    table = VectorTable(["a", "b"], np.eye(2, dtype=np.float32)).also(["b", "a"], ["b ", "a"])
    np.testing.assert_array_equal(table.rows(["b ", "a"]), [[0, 1], [1, 0]])


def test_a_text_without_a_vector_is_an_error():
    with pytest.raises(KeyError, match="unknown"):
        VectorTable(["a"], np.eye(1, dtype=np.float32)).rows(["unknown"])


def test_percentiles_are_in_milliseconds():
    assert percentiles_ms([0.001, 0.002, 0.003])["p50_ms"] == pytest.approx(2.0)


def test_the_largest_memory_of_a_process_is_measured(tmp_path):
    code = "x = bytearray(100_000_000); x[::4096] = b'1' * len(x[::4096])"
    assert run([sys.executable, "-c", code], tmp_path / "log").peak_bytes > 100_000_000


def test_a_process_that_fails_is_told_with_the_end_of_its_log(tmp_path):
    with pytest.raises(ProcessFailedError, match=r"ended with 3(.|\n)*the reason"):
        run([sys.executable, "-c", "print('the reason'); raise SystemExit(3)"], tmp_path / "log")


def test_the_first_epoch_is_a_warm_up():
    row = Row("train 4", "callbus", Measured(1, 1, 1), {"pairs": 500, "epoch_s": [9.0, 1.0, 2.0]})
    assert per_1000_pairs("epoch_s")(row) == [2.0, 4.0]


def test_a_ratio_is_how_many_times_more_callbus_takes():
    table = render(_result())
    line = next(line for line in table.splitlines() if "384-d, s per 1,000 pairs" in line)
    assert [cell.strip() for cell in line.split("|")[2:-1]] == [
        "4.000", "2.000", "2.00x", "1.000", "4.00x",
    ]  # fmt: skip


def test_a_missing_measurement_is_an_error():
    result = _result()
    result.rows = [row for row in result.rows if row.kind != "start"]
    with pytest.raises(ValueError, match="start of callbus must have been measured"):
        render(result)


def test_a_quick_run_takes_the_smallest_data_sets_of_each_kind(tmp_path):
    for name, splits in {"a": ["train", "test"], "b": ["test"], "c": [], "d": ["train"]}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "tools.jsonl").write_text("{}\n")
        lines = [json.dumps({"split": split}) for split in splits]
        (tmp_path / name / "queries.jsonl").write_text("\n".join(lines))
    assert [f.name for f in data_folders(tmp_path, quick=True)] == ["a", "b"]
    assert [f.name for f in data_folders(tmp_path, quick=False)] == ["a", "b", "c", "d"]


def _result():
    settings = {"quick": True, "threads": 1, "device": "cpu", "data": "made", "data_sets": ["a"]}
    settings |= {"rounds": 1, "starts": 1, "wide_pairs": 1}
    machine = {"cpu": "made", "cpus": 1, "python": "3"}
    data = {
        "width": 384,
        "train_queries": 10,
        "catalogue_tools": 5,
        "made_up_tools": 0,
        "requests": 1,
    }
    result = Result(settings, machine, data=data)
    took = Measured(1.0, 1.0, 1_000_000)
    for seconds, system in zip((4.0, 2.0, 1.0), SYSTEMS, strict=True):
        train = {"pairs": 1000, "epoch_s": [seconds], "epoch_cpu_s": [seconds]}
        search = {"p50_ms": 1.0, "p99_ms": 1.0, "cpu_ms": 1.0, "index_s": 1.0}
        for width in (384, 4096):
            result.add(f"train {width}", system, took, train)
            result.add(f"search {width}", system, took, search)
        result.add("start", system, took)
        result.add("first start", system, took)
    return result
