"""The Trainer around it all: overfitting, selection, resuming, seeds, faults."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint  # noqa: E402
from tests.train.synthetic import (  # noqa: E402
    HARMLESS,
    pairs,
    same,
    toy_data,
    toy_module,
    trainer,
    weights_of,
)

from toolheads.errors import ConfigError  # noqa: E402
from toolheads_train.data.corpus import build_corpus  # noqa: E402
from toolheads_train.errors import NotFiniteError  # noqa: E402
from toolheads_train.loop.checkpoints import heads_from_checkpoint  # noqa: E402
from toolheads_train.loop.module import MONITOR  # noqa: E402

pytestmark = [pytest.mark.train, *(pytest.mark.filterwarnings(w) for w in HARMLESS)]


def fit(folder=None, *, module=None, data=None, resume=None, **settings):
    module, fitter = module or toy_module(), trainer(folder, **settings)
    fitter.fit(module, datamodule=data or toy_data(), ckpt_path=resume)
    return module, fitter


def rows(folder):
    with (folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def losses(folder):
    return {row["step"]: row["train/loss"] for row in rows(folder) if row["train/loss"]}


def test_32_pairs_are_learned_by_heart(tmp_path):
    data = toy_data(batch_size=32, steps=100, chunk=100, corpus=build_corpus([pairs(32)]))
    module = toy_module(hidden=(32,))
    _, fitter = fit(tmp_path, module=module, data=data, epochs=2)
    assert fitter.callback_metrics["train/loss"] < 0.02
    curve = [float(row[MONITOR]) for row in rows(tmp_path) if row[MONITOR]]
    assert curve[0] < 0.9
    assert max(curve) > 0.95


def test_every_optimiser_step_of_a_chunk_is_counted(tmp_path):
    _, fitter = fit(tmp_path, data=toy_data(steps=7, chunk=3), epochs=2)
    assert fitter.global_step == 14
    assert list(losses(tmp_path)) == ["3", "6", "7", "10", "13", "14"]


def test_training_stops_at_max_steps_in_the_middle_of_a_chunk():
    _, fitter = fit(data=toy_data(steps=10, chunk=4), epochs=-1, max_steps=6)
    assert fitter.global_step == 6


def test_the_size_of_a_chunk_changes_nothing():
    one, _ = fit(data=toy_data(chunk=1))
    ten, _ = fit(data=toy_data(chunk=10))
    assert same(weights_of(one), weights_of(ten))


def test_autocast_uses_the_weights_of_the_step_not_of_the_chunk():
    """Torch's autocast may keep bf16 copies of weights for a whole context; ours must not."""
    one, _ = fit(data=toy_data(chunk=1), precision="bf16-mixed")
    ten, _ = fit(data=toy_data(chunk=10), precision="bf16-mixed")
    assert same(weights_of(one), weights_of(ten))


def test_a_resumed_run_is_the_run_that_was_not_stopped(tmp_path):
    whole, _ = fit(tmp_path / "whole", epochs=4)
    fit(tmp_path / "parts", epochs=4, callbacks=[_StopAfter(2)])
    assert len(losses(tmp_path / "parts")) == 4
    resumed, fitter = fit(
        tmp_path / "parts",
        module=toy_module(seed=5),
        resume=str(tmp_path / "parts" / "last.ckpt"),
        epochs=4,
    )
    assert fitter.global_step == 40
    assert same(weights_of(whole), weights_of(resumed))
    assert losses(tmp_path / "whole") == losses(tmp_path / "parts")


def test_a_run_resumed_within_an_epoch_is_the_run_that_was_not_stopped(tmp_path):
    whole, _ = fit(tmp_path / "whole", data=toy_data(chunk=4), epochs=2)
    keep = ModelCheckpoint(
        tmp_path / "mid", filename="{step}", every_n_train_steps=1, save_top_k=-1
    )
    fit(tmp_path / "parts", data=toy_data(chunk=4), epochs=2, callbacks=[keep])
    found = {path.name for path in (tmp_path / "mid").iterdir()}
    assert "step=14.ckpt" in found
    resumed, fitter = fit(
        tmp_path / "parts",
        data=toy_data(chunk=4),
        resume=str(tmp_path / "mid" / "step=14.ckpt"),
        epochs=2,
    )
    assert fitter.global_step == 20
    assert same(weights_of(whole), weights_of(resumed))


def test_one_seed_gives_one_set_of_weights_and_deterministic_mode_works():
    one, _ = fit(deterministic=True)
    two, _ = fit(deterministic=True)
    assert same(weights_of(one), weights_of(two))


def test_the_seed_of_the_weights_is_apart_from_the_seed_of_the_data():
    base, _ = fit()
    other_data, _ = fit(data=toy_data(seed=1))
    other_start, _ = fit(module=toy_module(seed=1))
    for other in (other_data, other_start):
        assert not same(weights_of(base), weights_of(other))
    untrained = [toy_module(seed=3), toy_module(seed=3)]
    for module, seed in zip(untrained, (0, 1), strict=True):
        fit(module=module, data=toy_data(seed=seed), epochs=0)
    assert same(*map(weights_of, untrained))


def test_the_starting_heads_win_when_training_hurts(tmp_path):
    fit(tmp_path, module=toy_module(lr=10.0))
    curve = [float(row[MONITOR]) for row in rows(tmp_path) if row[MONITOR]]
    assert max(curve[1:]) < curve[0]
    best = torch.load(tmp_path / "best.ckpt", weights_only=True)
    assert best["global_step"] == 0
    out = heads_from_checkpoint(str(tmp_path / "best.ckpt")).state.out
    assert not out.weight.any()


def test_equal_is_not_better(tmp_path):
    """Weights that cannot move leave every validation equal; the first one is kept."""
    fit(tmp_path, module=toy_module(lr=1e-30))
    assert torch.load(tmp_path / "best.ckpt", weights_only=True)["global_step"] == 0
    assert torch.load(tmp_path / "last.ckpt", weights_only=True)["global_step"] == 30


def test_the_best_checkpoint_has_the_weights_of_the_best_validation(tmp_path):
    fit(tmp_path)
    best = torch.load(tmp_path / "best.ckpt", weights_only=True)
    curve = {row["step"]: float(row[MONITOR]) for row in rows(tmp_path) if row[MONITOR]}
    assert curve[str(best["global_step"])] == max(curve.values())
    assert max(curve.values()) > curve["0"]


def test_training_stops_early_when_nothing_gets_better(tmp_path):
    stop = EarlyStopping(MONITOR, mode="max", patience=2, check_on_train_epoch_end=False)
    _, fitter = fit(tmp_path, module=toy_module(lr=1e-30), callbacks=[stop], epochs=50)
    assert fitter.global_step == 20


def test_a_vector_that_is_not_finite_stops_with_step_and_rows():
    source = pairs(64)
    queries = source.queries.copy()
    queries[17, 3] = np.nan
    ids = [f"q{i}" for i in range(64)]
    corpus = build_corpus([replace(source, queries=queries, query_ids=ids)])
    data = toy_data(corpus=corpus, steps=20, chunk=20)
    with pytest.raises(NotFiniteError, match=r"at step \d+ in query rows 17 \(q17\)") as caught:
        fit(data=data)
    assert caught.value.rows == (17,)
    sampler = data.sampler(corpus)
    drawn = [17 in sampler.draw().queries.tolist() for _ in range(20)]
    assert drawn.index(True) == caught.value.step


def test_a_loss_that_is_not_finite_names_step_and_rows_and_what_to_do(monkeypatch):
    module = toy_module()
    real = type(module)._optimise

    def burst(self, optimizer, step):
        if step == 7:
            with torch.no_grad():
                self.heads.state.out.bias.fill_(torch.nan)
        real(self, optimizer, step)

    monkeypatch.setattr(type(module), "_optimise", burst)
    with pytest.raises(NotFiniteError, match=r"at step 7 with finite .* lower model.optimizer.lr"):
        fit(module=module)


def test_clipping_bounds_what_one_step_can_do():
    calm = toy_module()
    calm.optimizer = replace(calm.optimizer, clip=1e-3)
    fit(module=calm)
    wild, _ = fit()
    assert not same(weights_of(calm), weights_of(wild))


def test_a_frozen_action_head_stays_the_identity():
    module = toy_module()
    module.head = replace(module.head, freeze_action=True)
    fit(module=module)
    assert not module.heads.action.out.weight.any()
    assert module.heads.state.out.weight.any()


def test_the_learned_temperature_stays_in_its_bounds():
    module = toy_module(lr=0.5, temperature=0.05, min_temperature=0.04)
    fit(module=module)
    assert 1.0 <= module.heads.log_logit_scale.exp().item() <= 25.0 + 1e-4


def test_another_precision_is_refused():
    with pytest.raises(ConfigError, match="precision must be 32-true or bf16-mixed, got bf16-true"):
        fit(precision="bf16-true")


def test_a_checkpoint_of_other_heads_is_refused(tmp_path):
    fit(tmp_path, epochs=1)
    with pytest.raises(ConfigError, match="must have this config's heads"):
        fit(module=toy_module(hidden=(4,)), resume=str(tmp_path / "last.ckpt"))


def test_a_training_without_an_end_is_refused():
    with pytest.raises(ConfigError, match=r"max_epochs or trainer\.max_steps"):
        fit(epochs=-1)


class _StopAfter(EarlyStopping):
    """Ends the training after some epochs, as a person would; not part of the schedule."""

    def __init__(self, epochs):
        super().__init__(MONITOR, mode="max", patience=1000, check_on_train_epoch_end=False)
        self._epochs = epochs

    def on_train_epoch_end(self, trainer, pl_module):
        if trainer.current_epoch + 1 >= self._epochs:
            trainer.should_stop = True

    @property
    def state_key(self):
        return "stop"
