"""The parts of the training benchmark that need no second environment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.ancestor.processes import Measured
from benchmarks.train.main import FULL, QUICK, cases
from benchmarks.train.tables import Case, Cell, Found, render, table

ROOT = Path(__file__).parents[3]
TOOK = Measured(1.0, 2.0, 3_000_000)


def test_every_case_starts_with_what_speeds_are_relative_to():
    for size, quick in ((FULL, False), (QUICK, True)):
        every = cases(size, quick=quick)
        assert [case.cells[0].name for case in every[:2]] == ["callbus", "callbus"]
        assert all(case.pairs % case.batch == 0 for case in every)
        assert all(len({cell.name for cell in case.cells}) == len(case.cells) for case in every)


def found_of(case):
    found = Found({"cpu": "a CPU", "cpus": 2, "threads": 2, "load_1_min": 0.0}, cases=[case])
    slow = {"epoch_s": [4.0, 4.0], "epoch_cpu_s": [8.0, 8.0]}
    fast = {"epoch_s": [9.0, 1.0, 3.0], "epoch_cpu_s": [9.0, 2.0, 2.0]}
    found.add(case, case.cells[0], TOOK, slow)
    found.add(case, case.cells[1], TOOK, fast)
    found.add_floor(case, case.cells[1], {"epoch_s": [1.0, 1.6, 1.5], "gflops": 1234.0})
    return found


CASE = Case(
    "8-d, batch 4",
    8,
    1000,
    4,
    (Cell("callbus", "callbus", (8,), is_bf16=False), Cell("x", "toolheads", (4,), is_bf16=True)),
)


def test_the_first_epoch_of_our_processes_is_a_warm_up():
    found = found_of(CASE)
    assert found.epoch(CASE, CASE.cells[0]) == 4.0
    assert found.epoch(CASE, CASE.cells[1]) == 2.0


def test_the_table_has_ratios_and_the_share_of_the_floor():
    text = render(found_of(CASE))
    (row,) = (line for line in text.splitlines() if line.startswith("| x "))
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    assert cells == ["x", "4", "2.000", "2.000", "120.0", "2.00x", "1,234", "75 %"]
    json.dumps(found_of(CASE).to_json())


def test_a_case_without_a_system_keeps_the_others():
    assert [cell.name for cell in CASE.without("callbus").cells] == ["x"]


def test_columns_are_as_wide_as_their_longest_cell():
    text = table(("a", "b"), [("long", "1"), ("x", "22")])
    assert text.splitlines() == ["| a    |  b |", "| ---- | -: |", "| long |  1 |", "| x    | 22 |"]


@pytest.mark.train
def test_the_floor_counts_the_products_of_a_step():
    """Worked by hand for two heads of one hidden layer, 8-d, hidden 4, batch 2."""
    pytest.importorskip("lightning")
    from benchmarks.train.work import Task, products

    found = sum(m * k * n for m, k, n in products(Task(8, (4,), 2, 4)))
    one_head = 2 * 8 * 4 * 2 + 2 * 4 * 8 * 3
    assert found == 2 * one_head + 4 * (2 * 8 * 2)


@pytest.mark.train
def test_planted_pairs_are_of_length_one_and_nearest_to_their_own_tool():
    pytest.importorskip("lightning")
    from benchmarks.train.work import planted_pairs

    pairs = planted_pairs(50, 64, seed=0)
    np.testing.assert_allclose(np.linalg.norm(pairs.queries, axis=1), 1, atol=1e-5)
    assert ((pairs.queries @ pairs.tools.T).argmax(1) == np.arange(50)).mean() > 0.9


@pytest.mark.train
@pytest.mark.parametrize("system", ["toolheads", "plain", "floor", "stacked", "validation"])
def test_each_system_writes_what_the_tables_read(tmp_path, system):
    pytest.importorskip("lightning")
    from benchmarks.train import work

    out = tmp_path / "out.json"
    words = [system, "--width", "16", "--hidden", "8", "--batch", "16", "--pairs", "32"]
    argv = [*words, "--epochs", "2", "--bf16", "--tools", "40", "--heads", "2", "--out", str(out)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["work", *argv])
        patch.setattr(work, "quiet", lambda: None)
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert work.main() == 0
    found = json.loads(out.read_text(encoding="utf-8"))
    wanted = {
        "stacked": {"one_s", "all_s"},
        "validation": {"seconds"},
        "floor": {"epoch_s", "gflops"},
    }
    assert wanted.get(system, {"epoch_s", "epoch_cpu_s", "loss"}) <= found.keys()


@pytest.mark.train
@pytest.mark.slow
def test_the_gpu_script_runs_on_a_cpu_in_tiny_sizes(tmp_path):
    pytest.importorskip("lightning")
    command = [sys.executable, "-m", "benchmarks.train.gpu", "--tiny", "--out", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert found["skipped"] == []
    assert len(found["epochs"]) == 7
    assert {"ceilings", "stacked", "validation"} <= found.keys()
    assert "Tiny run: no figures" in (tmp_path / "gpu.md").read_text(encoding="utf-8")


@pytest.mark.train
def test_no_time_left_is_said_for_each_part():
    pytest.importorskip("lightning")
    from benchmarks.train.gpu import Measurement

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.train.gpu.planted_pairs", lambda *_, **__: None)
        found = Measurement(is_tiny=True, budget_s=-1).run()
    assert {one["why"] for one in found["skipped"]} == {"no time left"}
    assert len(found["skipped"]) == 10
