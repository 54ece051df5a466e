"""Recorded steps. Without a GPU, a recorder stands in that runs the recorded function itself."""

from __future__ import annotations

import logging
from contextlib import nullcontext

import pytest

torch = pytest.importorskip("torch")

from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: E402
from tests.train.synthetic import (  # noqa: E402
    HARMLESS,
    same,
    toy_data,
    toy_module,
    trainer,
    weights_of,
)

from toolheads_train.data.sampling import Batch  # noqa: E402
from toolheads_train.loop.captured import WARM_UP, CapturedStep, CudaGraphs  # noqa: E402
from toolheads_train.loop.module import HeadsModule  # noqa: E402

pytestmark = [pytest.mark.train, *(pytest.mark.filterwarnings(w) for w in HARMLESS)]

has_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


class Replaying:
    """Records by keeping the function: a replay sees the fixed places, as a graph does."""

    def __init__(self, *, fails=False):
        self.records, self.replays, self._fails = 0, 0, fails

    def aside(self):
        return nullcontext()

    def record(self, step):
        if self._fails:
            msg = "operation not permitted when stream is capturing"
            raise RuntimeError(msg)
        self.records += 1

        def replay():
            self.replays += 1
            step()

        return replay


def batch_of(*rows):
    numbers = torch.tensor(rows)
    return Batch(numbers, numbers + 1, numbers[:, None])


def test_a_replay_sees_the_batch_it_is_given():
    seen, recorder = [], Replaying()
    captured = CapturedStep(lambda b: seen.append((b.queries.tolist(), b.tools.tolist())), recorder)
    for number in range(WARM_UP + 2):
        captured(batch_of(number, 10 * number))
    assert seen == [([n, 10 * n], [n + 1, 10 * n + 1]) for n in range(WARM_UP + 2)]
    assert (recorder.records, recorder.replays) == (1, 2)


def test_a_batch_of_another_shape_is_refused():
    captured = CapturedStep(lambda _: None, Replaying())
    for _ in range(WARM_UP + 1):
        captured(batch_of(1, 2))
    with pytest.raises(RuntimeError, match=r"queries of shape \(3,\) after \(2,\)"):
        captured(batch_of(1, 2, 3))


def fit(recorder, monkeypatch, folder=None, *, module=None, resume=None, data=None, **settings):
    module = module or toy_module()
    with monkeypatch.context() as patch:
        patch.setattr(HeadsModule, "_recorder", lambda _: recorder)
        trainer(folder, **settings).fit(module, datamodule=data or toy_data(), ckpt_path=resume)
    return module


def test_recorded_steps_train_as_the_others(monkeypatch):
    """The learning rate is a float32 tensor there: equal to its rounding."""
    recorder = Replaying()
    plain, recorded = fit(None, monkeypatch), fit(recorder, monkeypatch)
    assert (recorder.records, recorder.replays) == (1, 30 - WARM_UP)
    assert same(weights_of(plain), weights_of(recorded), atol=1e-6, rtol=1e-5)


def test_a_resumed_recording_is_the_run_that_was_not_stopped(monkeypatch, tmp_path):
    keep = ModelCheckpoint(tmp_path, filename="{step}", every_n_train_steps=1, save_top_k=-1)
    whole = fit(Replaying(), monkeypatch, tmp_path / "whole", epochs=2, callbacks=[keep])
    resumed = fit(Replaying(), monkeypatch, resume=str(tmp_path / "step=10.ckpt"), epochs=2)
    assert same(weights_of(whole), weights_of(resumed))


def test_a_checkpoint_of_a_recording_goes_on_without_one(monkeypatch, tmp_path):
    fit(Replaying(), monkeypatch, tmp_path, epochs=1)
    last = str(tmp_path / "last.ckpt")
    with_it = fit(Replaying(), monkeypatch, resume=last, epochs=2)
    without = fit(None, monkeypatch, resume=last, epochs=2)
    assert same(weights_of(with_it), weights_of(without), atol=1e-6, rtol=1e-5)


def test_a_step_that_cannot_be_recorded_is_run_and_said_once(monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="toolheads_train")
    plain, fallen = fit(None, monkeypatch), fit(Replaying(fails=True), monkeypatch)
    assert same(weights_of(plain), weights_of(fallen), atol=1e-6, rtol=1e-5)
    said = [r.getMessage() for r in caplog.records if "CUDA graph" in r.getMessage()]
    assert said == [
        "steps are not captured as a CUDA graph: operation not permitted when stream is capturing"
    ]


def test_a_loss_that_is_not_finite_is_found_in_a_recording(monkeypatch):
    from toolheads_train.errors import NotFiniteError

    module = toy_module()
    real = CapturedStep.__call__

    def burst(self, batch):
        if self._seen == WARM_UP and self._replay is not None:
            with torch.no_grad():
                module.heads.state.out.bias.fill_(torch.nan)
        real(self, batch)

    monkeypatch.setattr(CapturedStep, "__call__", burst)
    with pytest.raises(NotFiniteError, match=rf"at step {WARM_UP + 1} with finite embeddings"):
        fit(Replaying(), monkeypatch, module=module)


def test_nothing_is_recorded_on_a_cpu():
    module = toy_module()
    trainer(None, epochs=1).fit(module, datamodule=toy_data())
    assert module._captured is None


@pytest.mark.gpu
@has_cuda
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_a_cuda_graph_trains_as_separate_kernels(precision):
    found = []
    for capture in ("never", "auto"):
        module = toy_module()
        module.capture = capture
        trainer(None, accelerator="gpu", precision=precision).fit(module, datamodule=toy_data())
        found.append(weights_of(module))
    assert same(*found, atol=1e-5, rtol=1e-4)


@pytest.mark.gpu
@has_cuda
def test_a_cuda_graph_is_what_is_replayed():
    place = torch.zeros(2, device="cuda", dtype=torch.int64)
    captured = CapturedStep(lambda b: place.add_(b.queries), CudaGraphs())
    for number in range(WARM_UP + 2):
        captured(Batch(*(torch.full((2,), number, device="cuda") for _ in range(3))))
    assert place.tolist() == [sum(range(WARM_UP + 2))] * 2
