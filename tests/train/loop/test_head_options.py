"""Options of heads in a whole fit: widths, centre, dropout, linear maps; resumed and exported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.made_heads import made_fingerprint  # noqa: E402
from tests.train.synthetic import (  # noqa: E402
    HARMLESS,
    same,
    toy_data,
    toy_module,
    trainer,
    unit,
    weights_of,
)

from toolheads.errors import ConfigError  # noqa: E402
from toolheads.heads import load_heads  # noqa: E402
from toolheads_train.loop.checkpoints import heads_from_checkpoint  # noqa: E402
from toolheads_train.loop.module import HeadsModule  # noqa: E402
from toolheads_train.loop.validation import validate  # noqa: E402
from toolheads_train.model.heads import narrowed  # noqa: E402
from toolheads_train.outcome.export import Backbone, export_heads  # noqa: E402
from toolheads_train.settings import HeadSettings  # noqa: E402

pytestmark = [pytest.mark.train, *(pytest.mark.filterwarnings(w) for w in HARMLESS)]


def module_of(seed=0, **head):
    module = toy_module(seed=seed)
    return HeadsModule(replace(module.head, **head), module.loss, module.optimizer)


def fit(folder=None, *, module, data=None, resume=None, **settings):
    fitter = trainer(folder, **settings)
    fitter.fit(module, datamodule=data or toy_data(), ckpt_path=resume)
    return module


def export(path, heads):
    return export_heads(path, heads, Backbone(made_fingerprint(16), unit(4, seed=7)), unit(50))


@pytest.mark.parametrize(
    "head",
    [
        {"hidden": ()},
        {"hidden": (4,), "activation": "identity"},
        {"widths": (4, 8)},
        {"centre": "corpus"},
        {"centre": "corpus", "freeze_action": True, "hidden": ()},
        {"feature_dropout": 0.3, "widths": (4,), "centre": "corpus"},
    ],
    ids=str,
)
def test_heads_of_every_kind_learn_and_are_exported_from_their_checkpoint(tmp_path, head):
    module = fit(tmp_path, module=module_of(**head))
    assert module.heads.state.out.weight.any()
    trained = heads_from_checkpoint(str(tmp_path / "last.ckpt"))
    expected = {n: w for n, w in weights_of(module).items() if "dropout" not in n}
    assert same(expected, dict(trained.state_dict()))
    export(tmp_path / "h.npz", trained)
    loaded = load_heads(tmp_path / "h.npz")
    assert loaded.header.widths == head.get("widths", ())
    assert (loaded.state.centre is not None) == ("centre" in head)
    assert (loaded.action.centre is not None) == ("centre" in head and "freeze_action" not in head)


def test_the_centres_are_the_means_of_the_training_corpus():
    data = toy_data()
    module = fit(module=module_of(centre="corpus"), data=data, epochs=0)
    for head, rows in (
        (module.heads.state, data.corpus.queries),
        (module.heads.action, data.corpus.tools[:, 0]),
    ):
        assert head.centre is not None
        np.testing.assert_allclose(head.centre.numpy(), rows.numpy().mean(axis=0), atol=1e-6)


def test_training_at_a_width_makes_that_width_better():
    plain, wide = module_of(hidden=(32,)), module_of(hidden=(32,), widths=(4,))
    found = {}
    for name, module in (("plain", plain), ("wide", wide)):
        data = toy_data(steps=40)
        fit(module=module, data=data)
        with narrowed(module.heads, 4):
            result = validate(module.heads, data.validation_sets, torch.ones(1))
        found[name] = result[""]["ndcg@10"]
    assert found["wide"] > found["plain"] + 0.05


def test_dropout_is_the_same_for_the_same_seed_and_any_chunk():
    weights = [
        weights_of(
            fit(module=module_of(seed=seed, feature_dropout=0.3), data=toy_data(chunk=chunk))
        )
        for seed, chunk in ((0, 1), (0, 10), (1, 10))
    ]
    assert same(weights[0], weights[1])
    assert not same(weights[0], weights[2])
    assert not same(
        weights_of(fit(module=module_of())),
        {n: w for n, w in weights[0].items() if "dropout" not in n},
    )


def test_a_run_with_dropout_and_widths_goes_on_as_the_run_that_was_not_stopped(tmp_path):
    options = {"feature_dropout": 0.3, "widths": (4,), "centre": "corpus"}
    whole = fit(tmp_path / "whole", module=module_of(**options), epochs=4)
    first = module_of(**options)
    first.__dict__["_planned_steps"] = lambda: 40  # stopped after two epochs of four
    fit(tmp_path / "parts", module=first, epochs=2)
    torch.rand(17)  # what else draws numbers does not count
    again = module_of(seed=5, **options)
    fit(tmp_path / "parts", module=again, epochs=4, resume=str(tmp_path / "parts" / "last.ckpt"))
    assert same(weights_of(whole), weights_of(again))


@pytest.mark.parametrize(
    ("trained", "resumed", "differs"),
    [
        ({"widths": (4,)}, {}, "widths"),
        ({"centre": "corpus"}, {}, "centre"),
        ({}, {"feature_dropout": 0.1}, "dropout"),
    ],
    ids=str,
)
def test_a_checkpoint_of_other_options_is_refused(tmp_path, trained, resumed, differs):
    fit(tmp_path, module=module_of(**trained), epochs=1)
    with pytest.raises(ConfigError, match=f"got one that differs in .*{differs}"):
        fit(module=module_of(**resumed), resume=str(tmp_path / "last.ckpt"))


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ({"widths": (8, 4)}, r"model.head.widths must be rising whole numbers >= 1, got \[8, 4\]"),
        ({"widths": (0,)}, "model.head.widths must be rising"),
        ({"feature_dropout": 1.0}, r"model.head.feature_dropout must be in \[0, 1\), got 1.0"),
        ({"feature_dropout": -0.1}, "model.head.feature_dropout must be in"),
        ({"centre": "corpus", "shared": True}, "model.head.centre must be none for a head that"),
    ],
)
def test_options_that_break_a_rule_are_refused_by_their_name(head, message):
    with pytest.raises(ConfigError, match=message):
        HeadSettings(**head)


def test_a_width_as_wide_as_the_encoder_is_refused_once_it_is_known():
    with pytest.raises(ConfigError, match=r"widths must be below 16, the width of the encoder"):
        HeadSettings(widths=(4, 16)).architecture(16)
