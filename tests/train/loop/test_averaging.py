"""Averaged weights: taken at each step, validated, kept, resumed, exported."""

from __future__ import annotations

import csv
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.train.synthetic import (  # noqa: E402
    HARMLESS,
    same,
    toy_data,
    toy_module,
    trainer,
    weights_of,
)

from toolheads.errors import ConfigError  # noqa: E402
from toolheads_train.loop.averaging import averaged_copy, update_average  # noqa: E402
from toolheads_train.loop.checkpoints import heads_from_checkpoint  # noqa: E402
from toolheads_train.loop.module import (  # noqa: E402
    MONITOR,
    HeadsModule,
)
from toolheads_train.loop.validation import validate  # noqa: E402

pytestmark = [pytest.mark.train, *(pytest.mark.filterwarnings(w) for w in HARMLESS)]


def averaging(ema=0.9, seed=0, **head):
    module = toy_module(seed=seed)
    return HeadsModule(replace(module.head, **head), module.loss, module.optimizer, ema=ema)


def fit(folder=None, *, module=None, data=None, resume=None, **settings):
    module = module or averaging()
    fitter = trainer(folder, **settings)
    fitter.fit(module, datamodule=data or toy_data(), ckpt_path=resume)
    return module, fitter


def test_the_average_is_that_of_every_optimiser_step_whatever_the_chunk(monkeypatch):
    seen: list[Any] = []
    real = HeadsModule._optimise

    def watched(self, optimizer, step):
        if not seen:
            seen.append(weights_of(self))
        real(self, optimizer, step)
        seen.append(weights_of(self))

    with monkeypatch.context() as patch:
        patch.setattr(HeadsModule, "_optimise", watched)
        whole, _ = fit(data=toy_data(chunk=10))
    assert len(seen) == 31
    expected = seen[0]
    for weights in seen[1:]:
        expected = {n: 0.9 * expected[n] + 0.1 * weights[n] for n in expected}
    assert same(expected, dict(whole.served.state_dict()), atol=1e-6)
    single, _ = fit(data=toy_data(chunk=1))
    assert same(dict(whole.served.state_dict()), dict(single.served.state_dict()))


def test_averaging_does_not_change_what_is_trained():
    plain = toy_module()
    trainer(None).fit(plain, datamodule=toy_data())
    assert same(weights_of(plain), weights_of(fit()[0]))


def test_the_averaged_heads_are_what_is_validated_and_kept(tmp_path):
    module, _ = fit(tmp_path, module=averaging(ema=0.98))
    with (tmp_path / "metrics.csv").open() as file:
        logged = [float(row[MONITOR]) for row in csv.DictReader(file) if row[MONITOR]]
    kept = heads_from_checkpoint(str(tmp_path / "last.ckpt"))
    assert same(dict(kept.state_dict()), dict(module.served.state_dict()))
    assert not same(dict(kept.state_dict()), weights_of(module))
    data = toy_data()
    averaged, trained = (
        validate(heads, data.validation_sets, torch.ones(1))[""]["ndcg@10"]
        for heads in (kept, module.heads)
    )
    assert averaged == pytest.approx(logged[-1], abs=1e-6)
    assert abs(trained - averaged) > 0.01


def test_a_resumed_run_has_the_average_of_the_run_that_was_not_stopped(tmp_path):
    data = {"data": toy_data(chunk=5)}
    whole, _ = fit(tmp_path / "whole", epochs=4, module=averaging(feature_dropout=0.2), **data)
    keep = tmp_path / "parts" / "last.ckpt"
    module = averaging(feature_dropout=0.2)
    module.__dict__["_planned_steps"] = lambda: 40  # as a person who stops after two epochs
    fit(tmp_path / "parts", epochs=2, module=module, data=toy_data(chunk=5))
    again = averaging(feature_dropout=0.2, seed=3)
    fit(tmp_path / "parts", epochs=4, module=again, data=toy_data(chunk=5), resume=str(keep))
    assert same(weights_of(whole), weights_of(again))
    assert same(dict(whole.served.state_dict()), dict(again.served.state_dict()))


def test_a_checkpoint_of_a_run_without_averages_is_refused(tmp_path):
    fit(tmp_path, epochs=1, module=averaging(ema=None))
    with pytest.raises(ConfigError, match=r"must be of this config's model.ema, .*averaged\."):
        fit(resume=str(tmp_path / "last.ckpt"))


@pytest.mark.parametrize("ema", [0.0, 1.0, -0.5, 1.5, float("nan")])
def test_a_decay_that_averages_nothing_is_refused(ema):
    with pytest.raises(ConfigError, match=r"model.ema must be in \(0, 1\) or null, got"):
        averaging(ema=ema)


def test_an_average_of_equal_weights_stays_as_it_is():
    module, _ = fit(epochs=0)
    averaged = averaged_copy(module.heads)
    update_average(averaged, module.heads, 0.3)
    assert same(dict(averaged.state_dict()), weights_of(module))
    assert not any(p.requires_grad for p in averaged.parameters())
