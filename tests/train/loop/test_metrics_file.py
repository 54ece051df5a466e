from __future__ import annotations

import pytest

pytest.importorskip("lightning")

from toolheads_train.loop.metrics_file import MetricsFile

pytestmark = pytest.mark.train


def test_what_is_logged_at_one_step_shares_a_row(tmp_path):
    log = MetricsFile(tmp_path)
    log.log_metrics({"train/loss": 0.5}, step=10)
    log.save()
    log.log_metrics({"val/ndcg@10": 0.75}, step=10)
    log.save()
    assert log.path.read_text().splitlines() == ["step,train/loss,val/ndcg@10", "10,0.5,0.75"]


def test_a_resumed_run_replaces_the_steps_it_takes_again(tmp_path):
    first = MetricsFile(tmp_path)
    for step in (10, 20, 30):
        first.log_metrics({"loss": step / 10}, step=step)
    first.finalize("success")
    second = MetricsFile(tmp_path)
    second.log_metrics({"loss": 7.0}, step=20)
    second.finalize("success")
    assert second.path.read_text().splitlines() == ["step,loss", "10,1.0", "20,7.0"]


def test_a_run_that_logs_nothing_writes_nothing(tmp_path):
    MetricsFile(tmp_path / "run").finalize("success")
    assert not (tmp_path / "run").exists()
