from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.train.synthetic import unit  # noqa: E402

from toolheads.errors import ConfigError  # noqa: E402
from toolheads.heads.architecture import Architecture  # noqa: E402
from toolheads.heads.head import Head  # noqa: E402
from toolheads_train.model.heads import (  # noqa: E402
    FeatureDropout,
    HeadModule,
    TwoHeads,
    narrowed,
)

pytestmark = pytest.mark.train

SHAPES = [
    Architecture(16, hidden=(8,)),
    Architecture(16, hidden=(8, 12, 8), hidden_norm=True),
    Architecture(16, hidden=(8, 8), hidden_norm=False, input_scaling="sqrt"),
    Architecture(16, hidden=(8,), input_scaling="layernorm"),
    Architecture(16, hidden=(4,), activation="identity"),
    Architecture(16, hidden=()),
]


def shaken(architecture, alpha=1.0, centre=None):
    """A head with all weights random, the last layer and the norms too."""
    torch.manual_seed(0)
    head = HeadModule(architecture, alpha, centre)
    for p in head.parameters():
        torch.nn.init.normal_(p, std=0.3)
    return head


@pytest.mark.parametrize("architecture", SHAPES)
def test_a_new_head_is_the_identity(architecture):
    x = unit(9)
    got = HeadModule(architecture)(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(got, x, atol=1e-6)


@pytest.mark.parametrize("architecture", SHAPES)
def test_numpy_and_torch_heads_agree(architecture):
    module, x = shaken(architecture, alpha=0.6), unit(9)
    head = Head(architecture, float(module.alpha), module.weights())
    with torch.no_grad():
        got = module(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(head(x), got, atol=2e-6)


@pytest.mark.parametrize("architecture", SHAPES)
@pytest.mark.parametrize("kept", [5, None])
def test_numpy_and_torch_heads_agree_when_centred_and_narrowed(architecture, kept):
    centre, x = torch.linspace(-0.2, 0.3, 16), unit(9)
    heads = TwoHeads(architecture)
    heads.state = module = shaken(architecture, alpha=0.6, centre=centre)
    head = Head(architecture, float(module.alpha), module.weights(), centre.numpy(), kept)
    with torch.no_grad(), narrowed(heads, kept):
        got = module(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(head(x), got[:, :kept], atol=2e-6)
    assert not got[:, head.projection_width :].any()


def test_heads_are_as_wide_as_before_once_they_were_narrowed():
    heads, x = TwoHeads(SHAPES[0]), torch.from_numpy(unit(4))
    before = heads.state(x)
    with pytest.raises(RuntimeError, match="shapes"), narrowed(heads, 3):
        heads.state(x[:, :3])
    assert torch.equal(heads.state(x), before)


def test_a_new_centred_head_is_the_centred_embedding():
    x, centre = torch.from_numpy(unit(9)), torch.linspace(-0.2, 0.3, 16)
    expected = torch.nn.functional.normalize(x - centre, dim=-1)
    torch.testing.assert_close(HeadModule(SHAPES[0], centre=centre)(x), expected)
    torch.testing.assert_close(HeadModule(SHAPES[0], 0.0, centre)(x), x)


def test_a_centre_is_no_parameter_and_a_frozen_action_head_has_none():
    centres = torch.ones(16), torch.ones(16)
    heads = TwoHeads(SHAPES[0], centres=centres, freeze_action=True)
    assert heads.state.centre is not None
    assert heads.action.centre is None
    assert not any("centre" in name for name, _ in heads.named_parameters())
    with pytest.raises(ConfigError, match="shared must be false where embeddings are centred"):
        TwoHeads(SHAPES[0], centres=centres, shared=True)


def test_dropout_sets_a_share_of_the_entries_to_zero_and_keeps_their_sum():
    factors = FeatureDropout(0.25, seed=0).factors(torch.ones(400, 100))
    assert factors is not None
    assert set(factors.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert (factors == 0).float().mean().item() == pytest.approx(0.25, abs=0.01)
    assert factors.mean().item() == pytest.approx(1, abs=0.01)


def test_dropout_is_for_training_alone():
    heads, x = TwoHeads(SHAPES[0], feature_dropout=0.5), torch.from_numpy(unit(9))
    assert not torch.allclose(heads.state(x), x, atol=0.1)
    assert not torch.allclose(heads.action(x), x, atol=0.1)
    torch.testing.assert_close(heads.eval().state(x), x)


def test_what_is_dropped_depends_on_the_seed_and_on_nothing_else():
    x, drawn = torch.ones(3, 5), []
    for seed in (1, 1, 2):
        torch.rand(seed * 7)
        drawn.append(FeatureDropout(0.5, seed).factors(x))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_dropout_goes_on_where_its_state_was_taken():
    x, whole, again = torch.ones(3, 5), FeatureDropout(0.5, 1), FeatureDropout(0.5, 9)
    whole.factors(x)
    again.load_state_dict(whole.state_dict())
    assert torch.equal(whole.factors(x), again.factors(x))
    fresh = FeatureDropout(0.5, 1)
    again.load_state_dict(fresh.state_dict())  # before the first draw there is no state
    assert not torch.equal(again.factors(x), fresh.factors(x))


def test_projections_have_length_one_whatever_the_shape_of_the_input():
    got = shaken(SHAPES[0])(torch.from_numpy(unit(6)).view(2, 3, 16))
    np.testing.assert_allclose(got.detach().norm(dim=-1).numpy(), np.ones((2, 3)), atol=1e-6)


def test_alpha_zero_leaves_embeddings_as_they_are():
    x = unit(5)
    got = shaken(SHAPES[0], alpha=0.0)(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(got, x, atol=1e-6)


def test_the_parameter_of_the_temperature_is_clamped_not_its_use():
    heads = TwoHeads(SHAPES[0], logit_scale=50.0, max_logit_scale=100.0)
    with torch.no_grad():
        heads.log_logit_scale.fill_(9.0)
    heads.clamp_logit_scale()
    assert heads.log_logit_scale.exp().item() == pytest.approx(100.0)
    heads.log_logit_scale.exp().backward()
    gradient = heads.log_logit_scale.grad
    assert gradient is not None
    assert gradient.item() == pytest.approx(100.0)  # not dead at the bound


def test_a_frozen_action_head_has_nothing_to_train():
    heads = TwoHeads(SHAPES[0], freeze_action=True)
    assert not any(p.requires_grad for p in heads.action.parameters())
    assert all(p.requires_grad for p in heads.state.parameters())


def test_shared_heads_are_one_set_of_weights():
    heads = TwoHeads(SHAPES[0], shared=True)
    assert heads.action is heads.state
    assert len(list(heads.parameters())) == len(list(heads.state.parameters())) + 1


def test_heads_refuse_scales_that_do_not_fit():
    with pytest.raises(ConfigError, match=r"logit_scale must be in \[1, max_logit_scale = 10"):
        TwoHeads(SHAPES[0], logit_scale=20.0, max_logit_scale=10.0)
