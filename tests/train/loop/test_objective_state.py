"""Objectives that keep projections between steps, under the Trainer: resuming, seeds, curricula."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: E402
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
from toolheads_train.data.sampling import SamplingSettings  # noqa: E402

pytestmark = [pytest.mark.train, *(pytest.mark.filterwarnings(w) for w in HARMLESS)]

CATALOGUE = {"negatives": "catalogue", "catalogue_sample": 24, "refresh_steps": 4}


def data_of(**sampling):
    corpus = build_corpus([pairs(40), pairs(20, name="free", seed=3, label_free=True)])
    data = toy_data(steps=6, chunk=2, corpus=corpus)
    data.sampling = SamplingSettings(batch_size=16, steps_per_epoch=6, **sampling)
    return data


def fit(folder=None, *, module=None, resume=None, sampling=None, **settings):
    module = module or toy_module(**CATALOGUE)
    fitter = trainer(folder, epochs=2, **settings)
    fitter.fit(module, datamodule=data_of(**(sampling or {})), ckpt_path=resume)
    return module, fitter


@pytest.mark.parametrize("step", [6, 8])
def test_a_run_resumed_between_two_refreshes_is_the_run_that_was_not_stopped(tmp_path, step):
    """Banks are made before steps 0, 4 and 8: at step 6 one is in use, at step 8 a new one due."""
    sampling = {"label_free_share": 0.1, "label_free_to": 0.5}
    whole, _ = fit(tmp_path / "whole", sampling=sampling)
    keep = ModelCheckpoint(
        tmp_path / "mid", filename="{step}", every_n_train_steps=1, save_top_k=-1
    )
    fit(tmp_path / "parts", sampling=sampling, callbacks=[keep])
    resumed, fitter = fit(
        tmp_path / "parts",
        module=toy_module(seed=5, **CATALOGUE),
        resume=str(tmp_path / "mid" / f"step={step}.ckpt"),
        sampling=sampling,
    )
    assert fitter.global_step == 12
    assert same(weights_of(whole), weights_of(resumed))


def test_a_checkpoint_of_other_negatives_is_refused(tmp_path):
    fit(tmp_path, module=toy_module())
    with pytest.raises(ConfigError, match=r"this config's model\.loss\.negatives"):
        fit(tmp_path, resume=str(tmp_path / "last.ckpt"))


def test_one_seed_gives_one_set_of_weights():
    one, _ = fit()
    two, _ = fit()
    assert same(weights_of(one), weights_of(two))
