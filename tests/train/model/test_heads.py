from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.train.synthetic import unit  # noqa: E402

from toolheads.errors import ConfigError  # noqa: E402
from toolheads.heads.architecture import Architecture  # noqa: E402
from toolheads.heads.head import Head  # noqa: E402
from toolheads_train.model.heads import HeadModule, TwoHeads  # noqa: E402

pytestmark = pytest.mark.train

SHAPES = [
    Architecture(16, hidden=(8,)),
    Architecture(16, hidden=(8, 12, 8), hidden_norm=True),
    Architecture(16, hidden=(8, 8), hidden_norm=False, input_scaling="sqrt"),
    Architecture(16, hidden=(8,), input_scaling="layernorm"),
    Architecture(16, hidden=(4,), activation="identity"),
    Architecture(16, hidden=()),
]


def shaken(architecture, alpha=1.0):
    """A head with all weights random, the last layer and the norms too."""
    torch.manual_seed(0)
    head = HeadModule(architecture, alpha)
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
